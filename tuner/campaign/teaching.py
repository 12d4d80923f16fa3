"""What the tasks of a campaign learn from each other, and from campaigns before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from int8tune.results.base import Before, Store
from int8tune.results.record import ESTIMATED_BY, CacheMode, Campaign, Trial, cache_mode
from int8tune.results.selection import spread_trials
from int8tune.schedules.target import Target
from int8tune.tuner.cost_model.experience import Experience
from int8tune.tuner.cost_model.prior import Prior, learn_prior

MOST_EARLIER = 20_000
"""Earlier trials that are read, about: twice as many as a model of one template learns from."""


class Teacher:
    """One model for each template, learned when somebody asks; strategies without a model cost nothing here.

    What it teaches depends on trials alone that were recorded before the campaign began, and on those of the campaign
    that it was told, in their order: a campaign that is resumed learns the same again.
    """

    def __init__(
        self,
        earlier: Callable[[], Iterable[Trial]] = tuple,
        enough_news: float = 0.0,
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`earlier` is asked once, by the first who learns.

        `enough_news`: a model is learned anew when the trials that it has not seen are more than this share of all.
        `notice`: is told once of each template how many earlier trials teach nothing, and why.
        """
        self._ask_earlier = earlier
        self._notice = notice
        self._enough_news = enough_news
        self._told: dict[str, Trial] = {}
        self._lessons: dict[tuple[str, str], _Lesson] = {}

    def begin_round(self, trials: Iterable[Trial]) -> None:
        """Learn from trials of the campaign from now on; those that were told before are told for nothing."""
        self._told |= {trial.candidate.id: trial for trial in trials}

    def prior(self, template: str, target: Target) -> Prior | None:
        """What is known of a template on a target; None as long as that is nothing."""
        if (template, target.name) not in self._lessons:
            self._lessons[template, target.name] = _Lesson(Experience(template, target))
            self._lessons[template, target.name].experience.add(self._earlier)
            self._tell_lost(template, self._lessons[template, target.name].experience)
        lesson = self._lessons[template, target.name]
        lesson.experience.add(islice(self._told.values(), lesson.told, None))
        lesson.told = len(self._told)
        if len(lesson.experience) - lesson.learned > self._enough_news * len(lesson.experience):
            lesson.prior = learn_prior(lesson.experience.layers())
            lesson.learned = len(lesson.experience)
        return lesson.prior

    def _tell_lost(self, template: str, experience: Experience) -> None:
        if experience.lost:
            reasons = "; ".join(sorted(experience.lost))
            self._notice(f"{experience.lost.total():,} earlier trials of {template} teach nothing any more: {reasons}")

    @cached_property
    def _earlier(self) -> tuple[Trial, ...]:
        return tuple(self._ask_earlier())


@dataclass(slots=True)
class _Lesson:
    """What is known of one template: `told` of the campaign, and learned from as many trials as `learned` says."""

    experience: Experience
    told: int = 0
    learned: int = 0
    prior: Prior | None = None


def trials_before(store: Store, campaign: str, cache: CacheMode, estimated_by: str = "") -> list[Trial]:
    """The trials of a stored campaign's device, target and cache mode that were begun before it was.

    Of more than `MOST_EARLIER`, an even share of each layer's in each campaign, so that memory is bounded.

    Args:
        estimated_by: those alone that this model estimated; if empty, those that were measured.
    """
    this = next(store.query(Campaign, campaign=campaign))

    def is_alike(environment: Mapping[str, str]) -> bool:
        return cache_mode(environment) == cache and environment.get(ESTIMATED_BY, "") == estimated_by

    before = Before(this.name, this.target, this.device, this.created_at, is_alike)
    return list(spread_trials(store, before, MOST_EARLIER))

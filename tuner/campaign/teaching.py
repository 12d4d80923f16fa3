"""What the tasks of a campaign learn from each other, and from campaigns before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.base import Store
from results.record import CacheMode, Campaign, Trial, cache_mode
from tuner.cost_model.experience import experience_of
from tuner.cost_model.prior import Prior, learn_prior


class Teacher:
    """One model for each template, learned anew at the beginning of each round of batches.

    What it teaches depends on trials alone that were recorded before the campaign began, and on batches before this
    round: a campaign that is resumed learns the same again.
    """

    def __init__(self, target: str, earlier: Sequence[Trial] = ()) -> None:
        self._target = target
        self._earlier = earlier
        self._own: list[Trial] = []
        self._priors: dict[str, Prior | None] = {}

    def begin_round(self, trials: Iterable[Trial]) -> None:
        """Learn from all trials of the campaign's rounds so far, when somebody asks."""
        self._own = list(trials)
        self._priors.clear()

    def prior(self, template: str) -> Prior | None:
        """What is known of a template; None as long as that is nothing."""
        if template not in self._priors:
            trials = [*self._earlier, *self._own]
            self._priors[template] = learn_prior(experience_of(trials, template, self._target))
        return self._priors[template]


def trials_before(store: Store, campaign: str, cache: CacheMode) -> list[Trial]:
    """The trials of a stored campaign's device, target and cache mode that were begun before it was."""
    this = next(store.query(Campaign, campaign=campaign))
    found = store.query(Trial, target=this.target, device=this.device)
    return [
        trial
        for trial in found
        if trial.campaign != this.name and trial.started_at < this.created_at and cache_mode(trial.environment) == cache
    ]

"""The best schedule of every workload and device."""

from __future__ import annotations

from dataclasses import dataclass

from int8tune.results.base import Store
from int8tune.results.contest import Contest, Rival, contests_of
from int8tune.results.record import CacheMode, Candidate, Duel
from int8tune.results.selection import deciding_trials
from int8tune.results.stats import Speedup, median


@dataclass(frozen=True, slots=True)
class BestSchedule:
    """The schedule to use for a workload on a device.

    Attributes:
        median_s: of its trial's times, in seconds; None where there is an estimate only.
        estimated_cycles: of a call, by a model of the CPU; None where it was measured.
        default_candidate: id of the template's default it was compared with.
        speedup: over the default, from times taken in pairs; exactly 1 for the default itself; None where the default
            failed and there was nothing to compare with.
        campaign, sequence: the trial that all this comes from.
    """

    workload: str
    target: str
    device: str
    candidate: Candidate
    median_s: float | None
    default_candidate: str
    speedup: Speedup | None
    campaign: str
    sequence: int
    estimated_cycles: float | None = None

    @property
    def is_default(self) -> bool:
        return self.candidate.id == self.default_candidate


def best_schedules(
    store: Store,
    *,
    campaign: str | None = None,
    workload: str | None = None,
    target: str | None = None,
    device: str | None = None,
    cache: CacheMode | None = None,
    min_gain: float = 0.01,
) -> list[BestSchedule]:
    """The best schedule per workload, target and device, in the order of these three.

    A challenger is best only if it beat the template's default in duels, by `min_gain` and beyond doubt; otherwise the
    default is. Where the default failed, the fastest verified candidate is. Campaigns are not compared with each other:
    the latest one in which a challenger won counts, so that a campaign that has just begun hides no proven gain; if
    there is none, the latest with any verified trial. Estimates count only where nothing was measured.

    Args:
        cache: records of this mode only; if left out, those of the named campaign in its mode, or all but cold ones.
    """
    modes = set(CacheMode) if cache is None else {cache}
    if cache is None and campaign is None:
        modes -= {CacheMode.COLD}
    found: dict[tuple[str, str, str], BestSchedule] = {}
    weights: dict[tuple[str, str, str], tuple[bool, bool]] = {}
    filters = {"campaign": campaign, "workload": workload, "target": target, "device": device}
    duels = list(store.query(Duel, **filters))
    for contest in contests_of(duels, deciding_trials(store, duels, filters)):
        best = contest.best(min_gain)
        if best is None or contest.cache not in modes:
            continue
        key = contest.task[1:]
        weight = best.trial.estimate is None, contest.winner(min_gain) is not None
        if weight >= weights.get(key, weight):
            found[key], weights[key] = _schedule(contest, best), weight
    return [found[key] for key in sorted(found)]


def _schedule(contest: Contest, best: Rival) -> BestSchedule:
    return BestSchedule(
        workload=contest.task.workload,
        target=contest.task.target,
        device=contest.task.device,
        candidate=best.trial.candidate,
        median_s=median(best.times_s) if best.times_s else None,
        default_candidate=contest.default.candidate.id,
        speedup=best.speedup,
        campaign=contest.task.campaign,
        sequence=best.trial.sequence,
        estimated_cycles=best.trial.estimate.cycles if best.trial.estimate else None,
    )

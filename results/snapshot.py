"""A campaign as its records are now, for who watches it: how far it is, the network's time so far, what failed last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from int8tune.results.base import Store
from int8tune.results.contest import Contest, contests_of
from int8tune.results.record import Campaign, Duel, Outcome, Trial
from int8tune.results.stats import median

FAILURES_KEPT = 5
_PACE_OVER_S = 300.0


@dataclass(frozen=True, slots=True)
class NetworkCost:
    """What one run of the network takes, over the layer runs whose default works.

    In seconds; in cycles where the campaign's kernels were estimated.

    Attributes:
        runs: layer runs that are counted.
        default: with the templates' defaults.
        confirmed: with what was faster than the default beyond doubt, else the default; as a report has it.
        so_far: the same, with the fastest trial of layers that were not yet timed against their default.
    """

    runs: int
    default: float
    so_far: float
    confirmed: float
    is_estimate: bool

    @property
    def speedup(self) -> float:
        """The speed-up of what was found so far over the default."""
        return self.default / self.so_far

    @property
    def confirmed_speedup(self) -> float:
        return self.default / self.confirmed


@dataclass(frozen=True, slots=True)
class CampaignSnapshot:
    """A campaign's records in numbers.

    Attributes:
        runs: layer runs of the network.
        tried: distinct layers with a trial.
        last_at: when the last trial was recorded, by its host's clock; None where no record says so.
        per_minute: trials in the last minutes before that; None where there are too few.
        failures: the last ones, the newest first.
        cost: None before the first layer's default.
    """

    campaign: Campaign
    runs: int
    tried: int
    trials: int
    failed: int
    last_at: float | None
    per_minute: float | None
    failures: tuple[Trial, ...]
    cost: NetworkCost | None


def snapshot(store: Store, campaign: Campaign, min_gain: float = 0.01) -> CampaignSnapshot:
    """Read a campaign's trials and duels once each.

    Raises:
        StoreError: they can't be read.
    """
    seen = Seen()
    duels = store.query(Duel, campaign=campaign.name)
    trials = store.query(Trial, campaign=campaign.name)
    return snapshot_of(campaign, duels, seen.all_of(trials), seen, min_gain)


def snapshot_of(
    campaign: Campaign, duels: Iterable[Duel], trials: Iterable[Trial], seen: Seen, min_gain: float = 0.01
) -> CampaignSnapshot:
    """The same of entries that somebody else has asked for.

    Args:
        trials: those that decide, each task's by sequence.
        seen: what was noted of all trials, once these have gone by.
    """
    found = list(contests_of(duels, trials))
    return CampaignSnapshot(
        campaign=campaign,
        runs=sum(campaign.layers.values()),
        tried=len(found),
        trials=seen.trials,
        failed=seen.failed,
        last_at=seen.moments[-1] if seen.moments else None,
        per_minute=seen.per_minute(),
        failures=tuple(reversed(seen.failures)),
        cost=_cost(campaign, found, min_gain),
    )


class Seen:
    """What is noted of trials while they go by."""

    def __init__(self) -> None:
        self.trials = self.failed = 0
        self.failures: deque[Trial] = deque(maxlen=FAILURES_KEPT)
        self.moments: deque[float] = deque()

    def all_of(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        for trial in trials:
            self.note(trial)
            yield trial

    def per_minute(self) -> float | None:
        passed_s = self.moments[-1] - self.moments[0] if self.moments else 0.0
        return 60 * (len(self.moments) - 1) / passed_s if passed_s > 0 else None

    def note(self, trial: Trial) -> None:
        """Count a trial."""
        self.trials += 1
        if trial.outcome is not Outcome.OK:
            self.failed += 1
            self.failures.append(trial)
        if (moment := moment_of(trial)) is not None:
            self.moments.append(moment)
            while moment - self.moments[0] > _PACE_OVER_S:
                self.moments.popleft()


def moment_of(trial: Trial) -> float | None:
    """When it was recorded, in seconds since 1970 by its host's clock; None where a record has none."""
    try:
        return datetime.fromisoformat(trial.started_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _cost(campaign: Campaign, found: Iterable[Contest], min_gain: float) -> NetworkCost | None:
    runs, default, so_far, confirmed, is_estimate = 0, 0.0, 0.0, 0.0, False
    for contest in found:
        chosen = contest.best(min_gain)
        if contest.default.outcome is not Outcome.OK or chosen is None or contest.fastest is None:
            continue
        count = campaign.layers.get(contest.task.workload, 0)
        own = _cost_of(contest.default, chosen.default_times_s)
        best = _cost_of(chosen.trial, chosen.times_s)
        runs += count
        default += count * own
        confirmed += count * best
        # Duels that were fought have the last word; before that, one trial stands beside another.
        unconfirmed = min(1.0, _cost_of(contest.fastest) / _cost_of(contest.default))
        so_far += count * (best if contest.rivals else own * unconfirmed)
        is_estimate = contest.default.estimate is not None
    return NetworkCost(runs, default, so_far, confirmed, is_estimate) if runs else None


def _cost_of(trial: Trial, times_s: Sequence[float] = ()) -> float:
    """Seconds, by the trial's own times if none are given; cycles where they were estimated."""
    if trial.estimate is not None:
        return trial.estimate.cycles
    assert trial.measurement is not None
    return median(times_s or trial.measurement.times_s)

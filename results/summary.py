"""What a campaign found, computed once; the page, the terminal and the JSON output draw this value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from int8tune.results.base import Store
from int8tune.results.board_health import BoardHealth, board_health
from int8tune.results.contest import Contest, contests_of
from int8tune.results.drift import cost
from int8tune.results.errors import StoreError
from int8tune.results.label import layer_label
from int8tune.results.record import (
    ADVICE,
    ESTIMATED_BY,
    BoardEvent,
    Campaign,
    Candidate,
    DeviceCheck,
    Duel,
    Outcome,
    Trial,
    cache_mode,
)
from int8tune.results.selection import deciding_trials, tally_of
from int8tune.results.stats import Speedup, median, spread
from int8tune.results.wall_clock import WallClock


class Verdict(StrEnum):
    """What is known of a layer."""

    FASTER = "faster"
    """A challenger beat the default in duels."""
    DEFAULT = "default"
    """No candidate looked faster than the default by enough to matter."""
    NOISE = "noise"
    """A candidate looked faster, but its duels can't tell it from the default."""
    NOT_COMPARED = "no duel"
    """A candidate looked faster, but was not yet timed against the default, or too few times."""
    DEFAULT_FAILED = "no default"
    """There is nothing to compare with; the fastest verified candidate is shown."""
    NOTHING = "nothing"
    """No candidate was verified."""


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A trial's candidate and time, and where they come from: its duels, or else the trial itself.

    Attributes:
        median_s: None where it was estimated.
        spread: interquartile range / median of its times.
        ops_per_s: a multiply and an add are two; None if the layer's size was not given, or without times.
        peak_share: of the device's measured peak; None if that or `ops_per_s` is not known.
        estimated_cycles, ops_per_cycle: None where it was measured.
    """

    candidate: Candidate
    sequence: int
    median_s: float | None
    spread: float
    repeats: int
    ops_per_s: float | None
    peak_share: float | None
    estimated_cycles: float | None = None
    ops_per_cycle: float | None = None


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer of the network.

    Attributes:
        label: short operator and shape.
        count: how often the network runs it.
        names: what the network calls the layers that are this one, where it names them.
        default, best: None where the trial failed, or is missing.
        speedup: of the best over the default; of the strongest rival where noise prevented a claim; else None.
        outcomes: how many trials ended in each way.
    """

    workload: str
    label: str
    count: int
    names: tuple[str, ...]
    macs: int | None
    default: TimedSchedule | None
    best: TimedSchedule | None
    speedup: Speedup | None
    verdict: Verdict
    outcomes: Mapping[Outcome, int]

    @property
    def is_noise(self) -> bool:
        """Whether noise prevented a claim."""
        return self.verdict is Verdict.NOISE

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Trials that failed alike, with the first of them as an example."""

    outcome: Outcome
    error_class: str
    count: int
    example: Trial


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the network.

    Attributes:
        layers: calls in the network; `compared_layers` of them have a time for default and best.
        default_s, best_s: medians times counts, summed over the compared layers.
        default_cycles, best_cycles: the same of what was estimated.
        speedup: of the best over the default; None if no layer could be compared.
        wall_s: the time that passed until the last record, without pauses.
    """

    layers: int
    compared_layers: int
    default_s: float
    best_s: float
    default_cycles: float
    best_cycles: float
    speedup: float | None
    outcomes: Mapping[Outcome, int]
    wall_s: float

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())

    @property
    def trials_per_s(self) -> float | None:
        """Trials per second of the time that passed; None where none did."""
        return self.trials / self.wall_s if self.wall_s > 0 else None


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """A campaign in numbers.

    Attributes:
        check: the device's latest check for this target, whose peak the shares refer to.
        environments: the different ones that trials ran in, in the order they appeared.
        layers: in the order of the network.
        failures: most frequent first.
        advised: how many kernels NVIDIA's compiler says of that they are slow, by the code of what it says.
        boards: how they were, the worst first; none where a campaign had no inventory, or is older than such records.
    """

    campaign: Campaign
    check: DeviceCheck | None
    environments: tuple[Mapping[str, str], ...]
    layers: tuple[LayerRow, ...]
    failures: tuple[FailureGroup, ...]
    totals: Totals
    advised: Mapping[str, int] = field(default_factory=dict)
    boards: tuple[BoardHealth, ...] = ()

    @property
    def cache(self) -> str:
        """The mode in which the trials were timed."""
        return cache_mode(self.environments[0] if self.environments else {})

    @property
    def estimated_by(self) -> str:
        """The model that the numbers come from; empty where they were measured."""
        return next((found for one in self.environments if (found := one.get(ESTIMATED_BY))), "")


def summarize(
    store: Store,
    campaign_name: str,
    macs_by_workload: Mapping[str, int],
    min_gain: float = 0.01,
    watch: Callable[[Trial], None] = lambda _: None,
) -> CampaignSummary:
    """What a campaign found so far; its trials are read once.

    Args:
        macs_by_workload: multiply-adds of one call; rates of others are not known.
        watch: is told each trial of the campaign as it goes by.

    Raises:
        StoreError: no such campaign.
    """
    campaign = next(store.query(Campaign, campaign=campaign_name), None)
    if campaign is None:
        raise StoreError(f"no such campaign in the store: {campaign_name}")
    check = _latest_check(store, campaign)
    peak_ops_per_s = check.peak_ops_per_s if check else None
    counts = _Counts()
    duels = list(store.query(Duel, campaign=campaign_name))
    events = list(store.query(BoardEvent, campaign=campaign_name))
    counts.stamps = {campaign.created_at, *(duel.started_at for duel in duels)}
    counts.stamps |= {event.happened_at for event in events}

    def own_trials() -> Iterator[Trial]:
        for trial in store.query(Trial, campaign=campaign_name):
            counts.add(trial)
            watch(trial)
            if (trial.candidate.target, trial.device) == (campaign.target, campaign.device):
                yield trial

    found = list(contests_of(duels, own_trials()))
    clock = WallClock(counts.stamps)
    rows = _rows(campaign, found, counts.by_workload, min_gain, macs_by_workload, peak_ops_per_s)
    failures = sorted(counts.failures.values(), key=lambda group: -group.count)
    return CampaignSummary(
        campaign,
        check,
        tuple(counts.environments),
        tuple(rows),
        tuple(failures),
        _totals(rows, counts.by_workload, clock.total_s),
        dict(counts.advised),
        board_health(events, clock),
    )


@dataclass(frozen=True, slots=True)
class Outline:
    """A campaign's layers and totals alone: what can be told without reading all trials.

    Attributes:
        totals: without the time that passed.
        last_at: when the last trial was recorded, as it says itself; empty without trials.
    """

    layers: tuple[LayerRow, ...]
    totals: Totals
    last_at: str


def outline(store: Store, campaign: Campaign, min_gain: float = 0.01) -> Outline:
    """What a campaign found so far; of a store that counts, no more trials are read than decide.

    A verdict tells then whether a layer is faster, and not why it is not.
    """
    duels = list(store.query(Duel, campaign=campaign.name))
    tally = tally_of(store, campaign.name)
    # A damaged row may say another target or device: all are read before the campaign's own are chosen.
    found = list(contests_of(duels, deciding_trials(store, duels, {"campaign": campaign.name})))
    own = [each for each in found if (each.task.target, each.task.device) == (campaign.target, campaign.device)]
    rows = _rows(campaign, own, tally.outcomes, min_gain)
    return Outline(tuple(rows), _totals(rows, tally.outcomes, 0.0), tally.last_at)


def _rows(
    campaign: Campaign,
    found: Iterable[Contest],
    outcomes: Mapping[str, Mapping[Outcome, int]],
    min_gain: float,
    macs_by_workload: Mapping[str, int] | None = None,
    peak_ops_per_s: float | None = None,
) -> list[LayerRow]:
    by_workload = {contest.task.workload: contest for contest in found}
    return [
        _row(
            campaign,
            workload,
            by_workload.get(workload),
            _Scale((macs_by_workload or {}).get(workload), peak_ops_per_s),
            outcomes.get(workload, {}),
            min_gain,
        )
        for workload in dict.fromkeys([*campaign.layers, *by_workload])
    ]


def _latest_check(store: Store, campaign: Campaign) -> DeviceCheck | None:
    latest = None
    for check in store.query(DeviceCheck, target=campaign.target, device=campaign.device):
        latest = check
    return latest


@dataclass(frozen=True, slots=True)
class _Scale:
    """What turns times and cycles into rates."""

    macs: int | None
    peak_ops_per_s: float | None

    def timed(self, trial: Trial, times_s: Sequence[float]) -> TimedSchedule | None:
        if trial.estimate is not None:
            cycles = trial.estimate.cycles
            per_cycle = 2 * self.macs / cycles if self.macs is not None else None
            return TimedSchedule(trial.candidate, trial.sequence, None, 0.0, 0, None, None, cycles, per_cycle)
        if not times_s:
            return None
        median_s = median(times_s)
        ops_per_s = 2 * self.macs / median_s if self.macs is not None else None
        share = ops_per_s / self.peak_ops_per_s if ops_per_s is not None and self.peak_ops_per_s is not None else None
        return TimedSchedule(trial.candidate, trial.sequence, median_s, spread(times_s), len(times_s), ops_per_s, share)


class _Counts:
    """What is counted while the trials of a campaign go by."""

    def __init__(self) -> None:
        self.by_workload: dict[str, Counter[Outcome]] = {}
        self.environments: list[Mapping[str, str]] = []
        self.failures: dict[tuple[Outcome, str], FailureGroup] = {}
        self.stamps: set[str] = set()
        self.advised: Counter[str] = Counter()

    def add(self, trial: Trial) -> None:
        self.by_workload.setdefault(trial.candidate.workload, Counter())[trial.outcome] += 1
        self.stamps.add(trial.started_at)
        if trial.environment not in self.environments:
            self.environments.append(trial.environment)
        observed = trial.measurement.observed if trial.measurement else {}
        self.advised.update(name.removeprefix(ADVICE) for name in observed if name.startswith(ADVICE))
        if trial.outcome is not Outcome.OK:
            key = (trial.outcome, trial.error_class)
            before = self.failures.get(key)
            count, example = (before.count, before.example) if before else (0, trial)
            self.failures[key] = FailureGroup(*key, count + 1, example)


def _row(
    campaign: Campaign,
    workload: str,
    contest: Contest | None,
    scale: _Scale,
    outcomes: Mapping[Outcome, int],
    min_gain: float,
) -> LayerRow:
    default = best = None
    speedup, verdict = None, Verdict.NOTHING
    if contest is not None:
        speedup, verdict = _verdict(contest, min_gain)
        chosen = contest.best(min_gain)
        if chosen is not None:
            best = scale.timed(chosen.trial, chosen.times_s)
            default = scale.timed(contest.default, chosen.default_times_s)
    return LayerRow(
        workload=workload,
        label=layer_label(workload),
        count=campaign.layers.get(workload, 0),
        names=tuple(campaign.names.get(workload, ())),
        macs=scale.macs,
        default=default,
        best=best,
        speedup=speedup,
        verdict=verdict,
        outcomes=dict(outcomes),
    )


def _verdict(contest: Contest, min_gain: float) -> tuple[Speedup | None, Verdict]:
    if contest.fastest is None:
        return None, Verdict.NOTHING
    if contest.default.outcome is not Outcome.OK:
        return None, Verdict.DEFAULT_FAILED
    rival = contest.winner(min_gain)
    if rival is not None:
        return rival.speedup, Verdict.FASTER
    rival = contest.strongest()
    if rival is not None and rival.speedup is not None:
        # An interval that ends below the smallest gain that matters settles it: nothing was missed.
        return (rival.speedup, Verdict.NOISE) if rival.speedup.high >= 1 + min_gain else (None, Verdict.DEFAULT)
    looks_faster = _time_of(contest.default) >= _time_of(contest.fastest) * (1 + min_gain)
    return None, Verdict.NOT_COMPARED if looks_faster else Verdict.DEFAULT


def _time_of(trial: Trial) -> float:
    return cost(trial) if trial.outcome is Outcome.OK else float("inf")


def _totals(rows: Sequence[LayerRow], by_workload: Mapping[str, Mapping[Outcome, int]], wall_s: float) -> Totals:
    pairs = [(row.count, row.default, row.best) for row in rows if row.default is not None and row.best is not None]
    default_s = sum(count * (default.median_s or 0.0) for count, default, _ in pairs)
    best_s = sum(count * (best.median_s or 0.0) for count, _, best in pairs)
    default_cycles = sum(count * (default.estimated_cycles or 0.0) for count, default, _ in pairs)
    best_cycles = sum(count * (best.estimated_cycles or 0.0) for count, _, best in pairs)
    # One campaign is measured or estimated, not both.
    speedup = (default_s or default_cycles) / (best_s or best_cycles) if best_s or best_cycles else None
    layers, compared = sum(row.count for row in rows), sum(count for count, _, _ in pairs)
    outcomes: Counter[Outcome] = Counter()
    for counted in by_workload.values():
        outcomes.update(counted)
    return Totals(layers, compared, default_s, best_s, default_cycles, best_cycles, speedup, dict(outcomes), wall_s)

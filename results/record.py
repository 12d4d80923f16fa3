"""What is remembered: candidates, trials, duels, checks, campaigns, how boards were, comparisons with libraries.

Frozen values of plain data. They cross every border of the project, and they are what a store keeps.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from int8tune.results.errors import RecordError

Config = Mapping[str, int | str | bool]
_as_text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class Outcome(StrEnum):
    """The final state of a trial. A failed candidate is data; a lost device is not (the trial is queued again)."""

    OK = "ok"
    REJECTED = "rejected"
    BUILD_FAILED = "build_failed"
    BUILD_TIMEOUT = "build_timeout"
    WRONG_ANSWER = "wrong_answer"
    RUN_FAILED = "run_failed"
    RUN_TIMEOUT = "run_timeout"
    DEVICE_LOST = "device_lost"


ESTIMATED_BY = "estimated_by"
"""In the environment of a record, the model that an estimate comes from."""


ADVICE = "advice_"
"""Among what was observed of a trial, the beginning of names such as `advice_C7515`: how often a GPU's compiler said
by this code that it makes the kernel slow."""


CACHE_BYTES = "cache_bytes_"
"""In the environment of a device check, the beginning of names such as `cache_bytes_L2`: the size of that cache."""


class CacheMode(StrEnum):
    """Where a kernel finds its data and weights when it is timed. Times of one mode say nothing about the other's.

    A record has it in its environment, under `cache`; records from before there was a choice have not: they are `WARM`.
    """

    WARM = "warm"
    """Where the call before left them."""
    COLD = "cold"
    """Outside the core's second-level cache: each call takes another copy of its arguments."""
    NETWORK = "network"
    """Data where the call before left them, as the layer before would; weights where a run of all other layers leaves
    them: each call takes another copy of its constants, of as many as the network's weights are together."""


def cache_mode(environment: Mapping[str, str]) -> str:
    """The mode in which a record with this environment was timed."""
    return environment.get("cache", CacheMode.WARM)


def as_in_networks(trials: Iterable[Trial]) -> list[Trial]:
    """Those of the trials that were timed as in a network; without any, those with warm caches."""
    found = list(trials)
    inside = [trial for trial in found if cache_mode(trial.environment) == CacheMode.NETWORK]
    return inside or [trial for trial in found if cache_mode(trial.environment) == CacheMode.WARM]


@dataclass(frozen=True)
class Candidate:
    """One way to compute one workload on one target."""

    workload: str
    target: str
    template: str
    template_version: int
    config: Config

    @cached_property
    def id(self) -> str:
        """A stable name: equal candidates have equal ids in every process and on every machine."""
        text = _as_text([self.workload, self.target, self.template, self.template_version, dict(self.config)])
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Raw times of one kernel.

    Attributes:
        times_s: seconds per call, one value per repeat, in the order they were taken.
        calls_per_repeat: calls that one repeat averages over.
        observed: what was seen around it, such as `probe_before_s`, `load_1min`.
    """

    times_s: tuple[float, ...]
    calls_per_repeat: int
    observed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.times_s:
            raise RecordError("a measurement needs at least one time")
        for time_s in self.times_s:
            if not (math.isfinite(time_s) and time_s > 0):
                raise RecordError(f"times must be finite and positive: {time_s}")
        if self.calls_per_repeat < 1:
            raise RecordError(f"calls_per_repeat must be at least 1: {self.calls_per_repeat}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model of a CPU says of one kernel that was verified, but not timed; never mixed with measured times.

    The model's name is in the record's environment, under `ESTIMATED_BY`.
    """

    cycles: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.cycles) and self.cycles > 0):
            raise RecordError(f"estimated cycles must be finite and positive: {self.cycles}")


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate's way through build, verification and timing, and how it ended.

    Attributes:
        sequence: position in its campaign, from 0; the search saw the trials in this order.
        measurement, estimate: one of them if the outcome is `OK`.
        binary: sha256 of the built kernel, empty when there was none.
        reused_from: id of the candidate with the same binary whose measurement this is, or empty.
        error: one line for a person, empty when the outcome is `OK`.
        environment: CPU, governor, OS, versions of TVM, LLVM and this project, cache mode.
        started_at: wall-clock time in ISO 8601 UTC; a label: reports order records by it, nothing is decided by it.
    """

    campaign: str
    sequence: int
    candidate: Candidate
    outcome: Outcome
    measurement: Measurement | None
    device: str
    environment: Mapping[str, str]
    started_at: str
    build_s: float = 0.0
    run_s: float = 0.0
    binary: str = ""
    reused_from: str = ""
    error_class: str = ""
    error: str = ""
    attempts: int = 1
    estimate: Estimate | None = None

    def __post_init__(self) -> None:
        known = (self.measurement is not None) + (self.estimate is not None)
        if known != (self.outcome is Outcome.OK):
            raise RecordError(f"a trial has times, or else an estimate, if it is `ok`, and only then: {self.outcome}")
        if self.outcome is Outcome.DEVICE_LOST:
            raise RecordError("a lost device is not a result: the trial must be queued again")
        if self.sequence < 0:
            raise RecordError(f"a sequence number is at least 0: {self.sequence}")


@dataclass(frozen=True, slots=True)
class Duel:
    """Two candidates of one workload timed in turn in one session; `a_times_s[i]` was taken next to `b_times_s[i]`."""

    campaign: str
    workload: str
    target: str
    device: str
    a: str
    b: str
    a_times_s: tuple[float, ...]
    b_times_s: tuple[float, ...]
    environment: Mapping[str, str]
    started_at: str

    def __post_init__(self) -> None:
        if not self.a_times_s or len(self.a_times_s) != len(self.b_times_s):
            raise RecordError(f"a duel needs pairs of times: {len(self.a_times_s)} and {len(self.b_times_s)}")
        times_s = (*self.a_times_s, *self.b_times_s)
        if not (math.isfinite(sum(times_s)) and min(times_s) > 0):
            raise RecordError("a duel's times must be finite and positive")


@dataclass(frozen=True, slots=True)
class DeviceCheck:
    """What one core of a device can do, as measured.

    Attributes:
        peak_ops_per_s: int8 operations per second (a multiply and an add are two) of the dot-product loop.
        bandwidth_bytes_per_s: read bandwidth by level, keys such as `L1`, `L2`, `L3`, `memory`.
        noise: relative spread (interquartile range / median) of the peak loop's times.
    """

    device: str
    target: str
    peak_ops_per_s: float
    bandwidth_bytes_per_s: Mapping[str, float]
    noise: float
    environment: Mapping[str, str]
    started_at: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.peak_ops_per_s) and self.peak_ops_per_s > 0):
            raise RecordError(f"a peak must be finite and positive: {self.peak_ops_per_s}")


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign as it was started: a resumed one must agree with every field.

    Attributes:
        name: letters, digits, `.`, `_`, `-`; at most 64.
        network: the network's name.
        device: the device's name.
        target: name of the target profile.
        strategy: name of the search strategy.
        seed: of all its randomness.
        trials_per_task: budget of one layer.
        layers: workload key -> how often the network runs it.
        names: workload key -> what the network calls the layers that have it, where it names them.
    """

    name: str
    network: str
    device: str
    target: str
    strategy: str
    seed: int
    trials_per_task: int
    layers: Mapping[str, int]
    created_at: str
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CampaignRun:
    """One run of the program for a campaign, which may have several; kept when it begins, and once more when it ends.

    No campaign needs it to go on. Both entries have the same `run`; one without the other was killed, or is still
    running.

    Attributes:
        run: a name of its own, drawn at random.
        host, user: where and by whom it was started; the device may be another machine.
        command: what was typed, without its secrets.
        version: of this program.
        commit: of the checkout it ran from, with `-dirty` where files were changed; empty where it was installed.
        cpu: the host's model.
        started_at, ended_at: wall-clock time in ISO 8601 UTC; the latter is empty while it runs.
        ending: such as `finished`, `out of time`, `interrupted` or `failed`; empty while it runs.
    """

    campaign: str
    run: str
    host: str
    user: str
    command: str
    version: str
    commit: str
    cpu: str
    started_at: str
    ended_at: str = ""
    ending: str = ""


def runs_of(entries: Iterable[CampaignRun]) -> list[CampaignRun]:
    """Each run once, as it is known last, in the order in which they began."""
    return list({entry.run: entry for entry in entries}.values())


class BoardEventKind(StrEnum):
    """What became known of a board."""

    GOOD_CANARY = "good canary"
    BAD_CANARY = "bad canary"
    QUARANTINED = "quarantined"
    """It is off: what it says is not believed."""
    LOST = "lost"
    """It is off: it can't be reached."""
    BACK = "back"
    """A good canary of a board that was off."""

    @property
    def is_off(self) -> bool:
        return self in (BoardEventKind.QUARANTINED, BoardEventKind.LOST)


@dataclass(frozen=True, slots=True)
class BoardEvent:
    """How a board of a campaign was at a moment: its canary, a kernel of known work, was judged, or it went off.

    Attributes:
        canary_s: seconds per call of the canary; 0 where the board did not say, or was not asked.
        cause: why the canary was bad, or the board went off; one line, empty of a good canary.
        happened_at: wall-clock time in ISO 8601 UTC.
    """

    campaign: str
    board: str
    kind: BoardEventKind
    canary_s: float
    cause: str
    happened_at: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.canary_s) and self.canary_s >= 0):
            raise RecordError(f"a canary's time must be finite, and at least 0: {self.canary_s}")


@dataclass(frozen=True, slots=True)
class Entrant:
    """How one library did on one layer of a bench.

    Attributes:
        workload: the layer as this library computed it: types and the sides of the padding may differ.
        times_s: seconds per call, one value per run, in the order they were taken; empty unless `OK`.
        overhead_times_s: the same of its smallest layer, which is all call and no work; empty where that is not known.
        error: one line for a person, empty when the outcome is `OK`.
    """

    name: str
    version: str
    workload: str
    outcome: Outcome
    times_s: tuple[float, ...] = ()
    overhead_times_s: tuple[float, ...] = ()
    error: str = ""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != bool(self.times_s):
            raise RecordError(f"an entrant has times if and only if it is `ok`: {self.name}: {self.outcome.value}")
        if not all(math.isfinite(time_s) and time_s > 0 for time_s in (*self.times_s, *self.overhead_times_s)):
            raise RecordError(f"an entrant's times must be finite and positive: {self.name}")


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One layer computed by this library and by others, in turn: value `i` of all times was taken in round `i`.

    Attributes:
        bench: name of the run that it belongs to.
        candidate: what this library ran.
        is_tuned: whether that came from a campaign's records; else it is the template's default.
        threads: that each library could use, on as many cores.
        peak_ops_per_s: int8 operations per second of these cores' dot-product loops, one value per round.
    """

    bench: str
    candidate: Candidate
    is_tuned: bool
    device: str
    threads: int
    ours: Entrant
    peers: tuple[Entrant, ...]
    peak_ops_per_s: tuple[float, ...]
    environment: Mapping[str, str]
    started_at: str

    def __post_init__(self) -> None:
        counts = {len(times) for times in (self.peak_ops_per_s, *(e.times_s for e in self.entrants)) if times}
        if len(counts) > 1:
            raise RecordError(f"the times of a bench must be taken in the same rounds: {sorted(counts)}")
        if not all(math.isfinite(peak) and peak > 0 for peak in self.peak_ops_per_s):
            raise RecordError("a peak must be finite and positive")
        if self.threads < 1:
            raise RecordError(f"a library needs a thread at least: {self.threads}")

    @property
    def entrants(self) -> tuple[Entrant, ...]:
        return self.ours, *self.peers

    @property
    def workload(self) -> str:
        return self.candidate.workload

    @property
    def target(self) -> str:
        return self.candidate.target


Entry = Campaign | CampaignRun | BoardEvent | Trial | Duel | DeviceCheck | BenchResult

"""What a simulated farm did, in numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.rpc.farm.entries import Concluded, Entry, Issued, Returned, Submitted, Turned
from int8tune.rpc.farm.events import CanaryAnswered, Command, Event, Reached, Refused
from int8tune.rpc.farm.simulation.values import SICKNESSES, Fault, Kill
from int8tune.rpc.farm.values import Phase, State, Verdict


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long something was waited for."""

    name: str
    count: int
    mean_s: float
    median_s: float
    p99_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class BoardUse:
    """What a board did: shares of the whole time with trials, with canaries, and off."""

    board: str
    trials: int
    measuring: float
    checking: float
    off: float


@dataclass(frozen=True, slots=True)
class Found:
    """A sickness, and how long until its board was taken off; None: it never was."""

    kind: str
    board: str
    after_s: float | None
    after_trials: int | None


@dataclass(frozen=True, slots=True)
class FarmReport:
    """A simulated farm's run.

    Attributes:
        attempts: sessions of trials, more than the trials where some were repeated.
        campaigns_s: when each campaign's last trial was concluded.
        refused: answers that came too late.
    """

    duration_s: float
    trials: int
    attempts: int
    verdicts: Mapping[Verdict, int]
    boards: Sequence[BoardUse]
    waits: Sequence[Waiting]
    found: Sequence[Found]
    campaigns_s: Mapping[str, float]
    refused: int

    @property
    def trials_per_s(self) -> float:
        return self.trials / self.duration_s if self.duration_s else 0.0

    @property
    def utilisation(self) -> float:
        """The mean share of the time in which boards measured."""
        return float(np.mean([use.measuring for use in self.boards])) if self.boards else 0.0


@dataclass(slots=True)
class _Lease:
    board: str
    trial: str
    began_s: float
    phase: str
    phase_s: float


@dataclass(slots=True)
class _Use:
    trials: int = 0
    measuring_s: float = 0.0
    checking_s: float = 0.0
    off_s: float = 0.0
    off_since_s: float | None = 0.0
    fence: int = 0


class Accounting:
    """Watches a simulated farm and adds up what it sees."""

    def __init__(self, boards: Sequence[str]) -> None:
        self._uses = {board: _Use() for board in boards}
        self._leases: dict[int, _Lease] = {}
        self._waits: dict[str, list[float]] = defaultdict(list)
        self._since: dict[str, float] = {}
        self._submitted: dict[str, tuple[str, float]] = {}
        self._verdicts: Counter[Verdict] = Counter()
        self._sick: dict[str, list[tuple[Fault, int]]] = defaultdict(list)
        self._found: list[Found] = []
        self._campaigns_s: dict[str, float] = {}
        self._attempts = self._refused = 0

    def __call__(self, now_s: float, what: Event | Entry | Command | Fault | Kill) -> None:
        match what:
            case Reached(_, fence, phase):
                if lease := self._leases.get(fence):
                    self._enter(lease, phase, now_s)
            case Issued():
                self._issue(what, now_s)
            case Returned(fence, board, trial, verdict):
                self._end(fence, now_s)
                if verdict is not None:
                    self._uses[board].trials += 1
                    self._waits["answer"].append(now_s - self._submitted[trial][1])
                self._since[trial] = now_s
            case CanaryAnswered(_, fence):
                self._end(fence, now_s)
            case Concluded(trial, verdict):
                self._conclude(trial, verdict, now_s)
            case Submitted(trial):
                self._submitted[trial.id] = (trial.campaign, now_s)
                self._since[trial.id] = now_s
            case Turned(board, state):
                self._turn(board, state, now_s)
            case Fault():
                if what.kind in SICKNESSES:
                    self._sick[what.board].append((what, self._uses[what.board].trials))
            case Refused():
                self._refused += 1

    def report(self, now_s: float) -> FarmReport:
        """All of it, up to now."""
        missed = [Found(fault.kind, board, None, None) for board, sick in self._sick.items() for fault, _ in sick]
        return FarmReport(
            duration_s=now_s,
            trials=self._verdicts.total(),
            attempts=self._attempts,
            verdicts=dict(sorted(self._verdicts.items())),
            boards=[self._use(board, use, now_s) for board, use in self._uses.items()],
            waits=[_waiting(name, values) for name, values in sorted(self._waits.items())],
            found=[*self._found, *missed],
            campaigns_s=dict(self._campaigns_s),
            refused=self._refused,
        )

    def _issue(self, entry: Issued, now_s: float) -> None:
        use = self._uses[entry.board]
        self._leases.pop(use.fence, None)
        use.fence = entry.fence
        self._leases[entry.fence] = _Lease(entry.board, entry.trial, now_s, Phase.CONNECT, now_s)
        if entry.trial:
            self._attempts += 1
            if (since_s := self._since.pop(entry.trial, None)) is not None:
                self._waits["queue"].append(now_s - since_s)

    def _enter(self, lease: _Lease, phase: str, now_s: float) -> None:
        if lease.trial:
            self._waits[lease.phase].append(now_s - lease.phase_s)
        lease.phase, lease.phase_s = phase, now_s

    def _end(self, fence: int, now_s: float) -> None:
        if (lease := self._leases.pop(fence, None)) is None:
            return
        self._enter(lease, "", now_s)
        use = self._uses[lease.board]
        if lease.trial:
            use.measuring_s += now_s - lease.began_s
        else:
            use.checking_s += now_s - lease.began_s
            if use.off_since_s is not None:
                use.off_s += now_s - use.off_since_s
                use.off_since_s = None

    def _conclude(self, trial: str, verdict: Verdict, now_s: float) -> None:
        campaign, submitted_s = self._submitted.pop(trial)
        answered_s = self._since.pop(trial, None)
        if verdict is Verdict.OK and answered_s is not None:
            self._waits["confirmation"].append(now_s - answered_s)
        self._waits["total"].append(now_s - submitted_s)
        self._verdicts[verdict] += 1
        self._campaigns_s[campaign] = now_s

    def _turn(self, board: str, state: State, now_s: float) -> None:
        use = self._uses[board]
        if state not in (State.QUARANTINED, State.LOST):
            return
        if use.off_since_s is None:
            use.off_since_s = now_s
        for fault, trials in self._sick.pop(board, []) if state is State.QUARANTINED else ():
            self._found.append(Found(fault.kind, board, now_s - fault.at_s, use.trials - trials))

    def _use(self, board: str, use: _Use, now_s: float) -> BoardUse:
        off_s = use.off_s + (now_s - use.off_since_s if use.off_since_s is not None else 0.0)
        whole_s = now_s or 1.0
        return BoardUse(board, use.trials, use.measuring_s / whole_s, use.checking_s / whole_s, off_s / whole_s)


def _waiting(name: str, values: Sequence[float]) -> Waiting:
    median_s, p99_s = np.quantile(values, [0.5, 0.99])
    return Waiting(name, len(values), float(np.mean(values)), float(median_s), float(p99_s), float(max(values)))

"""What a simulation is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from int8tune.rpc.farm.values import Board, Trial, Verdict


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a healthy board behaves.

    Attributes:
        speed: by what its kernels' times are multiplied.
        noise: standard deviation of a time's logarithm.
        latency_s: of a message, in either direction.
        connect_s: from the start of a session until it takes files.
        transfer_s: until they are there.
        session_s: what a session takes beside its kernel.
        canary_s: what the canary takes on a board of speed 1.
        heartbeat_s: how often it says that it is there.
        reboot_s: how long it is away when it is switched off and on.
    """

    speed: float = 1.0
    noise: float = 0.005
    latency_s: float = 0.001
    connect_s: float = 0.002
    transfer_s: float = 0.005
    session_s: float = 0.02
    canary_s: float = 0.1
    heartbeat_s: float = 4.0
    reboot_s: float = 20.0


@dataclass(frozen=True, slots=True)
class SimulatedBoard:
    """A board of the inventory, and how it behaves."""

    board: Board
    behaviour: Behaviour = Behaviour()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial whose end is known: what a healthy board finds, and how long its kernel keeps that board busy.

    Attributes:
        build_s: after which its program is there, where it is not there from the beginning.
    """

    trial: Trial
    verdict: Verdict = Verdict.OK
    seconds: float = 0.2
    build_s: float = 0.5


class FaultKind(StrEnum):
    """What may happen to a board.

    `CRASH`: its agent dies, connections are refused for a while. `FREEZE`: it stands still, then goes on and answers
    late. `UNPLUG`: it is gone, silently. `SLOW`: times are multiplied, until a canary showed it. `FLAKY`: candidates
    crash or are wrong now and then. `HANGS`: candidates time out now and then. `CORRUPT`: values are wrong now and
    then, the canary's, too. `LOSSY`: messages are lost or come twice. `STRANGE`: it answers for another candidate.
    `RESTART`: its system starts anew, and is back at once: what it ran is lost, and what it was ill with is gone,
    whether a canary showed that or not.
    """

    CRASH = "crash"
    FREEZE = "freeze"
    UNPLUG = "unplug"
    SLOW = "slow"
    FLAKY = "flaky"
    HANGS = "hangs"
    CORRUPT = "corrupt"
    LOSSY = "lossy"
    STRANGE = "strange"
    RESTART = "restart"


# Faults of boards that go on working: it takes a canary or a second board to find them.
SICKNESSES = frozenset({FaultKind.SLOW, FaultKind.FLAKY, FaultKind.HANGS, FaultKind.CORRUPT})


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a board.

    Attributes:
        strength: a factor of `SLOW`, a probability of the others that have one.
    """

    kind: FaultKind
    board: str
    at_s: float
    lasts_s: float
    strength: float = 1.0


@dataclass(frozen=True, slots=True)
class Kill:
    """The coordinator dies, and another one starts later.

    Attributes:
        after_steps: of all coordinators together; before and after entries are written, and each command, is one.
    """

    after_steps: int
    away_s: float = 2.0

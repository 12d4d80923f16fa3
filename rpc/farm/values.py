"""What the scheduler is told: boards, campaigns, trials, and the rules it goes by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a trial ends, each in exactly one way."""

    OK = "ok"
    WRONG = "wrong"
    BUILD_FAILED = "build-failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    INFRA_FAILED = "infra-failed"


# What a board may answer of a candidate.
ANSWERS = frozenset({Verdict.OK, Verdict.WRONG, Verdict.CRASHED, Verdict.TIMED_OUT})


class State(StrEnum):
    """What a board is doing.

    `CHECKING` is a canary that is due, `SUSPECT` one that has to say whether the board or a candidate is guilty.
    """

    UNKNOWN = "unknown"
    CHECKING = "checking"
    READY = "ready"
    BUSY = "busy"
    COOLING = "cooling"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    LOST = "lost"


class Phase(StrEnum):
    """Where a session is. Each phase has a limit of its own."""

    CONNECT = "connect"
    TRANSFER = "transfer"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a board's sessions may wait.

    Attributes:
        grace_s: how long after a candidate's own limit its board has to say so.
        silence_s: a board that was not heard for so long is lost; None: it is not listened for.
        total_s: of a session, whatever its phases take.
        cooldown_s: how long the board rests after each session.
    """

    connect_s: float = 8.0
    transfer_s: float = 10.0
    grace_s: float = 1.0
    silence_s: float | None = 12.0
    total_s: float = 900.0
    cooldown_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Board:
    """A board that may be sent trials of its target whose tags it has all.

    Attributes:
        canary_s: what the canary kernel takes on it; None: what it takes the first time.
        canary_every: trials from one canary to the next at most.
        canary_tolerance: takes the place of the rules' own; None: it does not.
        power_cycle: whether it can be switched off and on again.
    """

    name: str
    target: str
    tags: frozenset[str] = frozenset()
    limits: Limits = Limits()
    canary_s: float | None = None
    canary_every: int = 50
    canary_tolerance: float | None = None
    power_cycle: bool = False


@dataclass(frozen=True, slots=True)
class Campaign:
    """Whose trials share the boards. Beside each other, campaigns get board time in proportion to their priorities."""

    name: str
    priority: float = 1.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate to be measured.

    Attributes:
        id: unique among all trials of all campaigns.
        run_limit_s: the candidate's own limit, which its board keeps.
        built: whether there is a program to send; if not, `Built` says so later.
    """

    id: str
    campaign: str
    target: str
    tags: frozenset[str] = frozenset()
    run_limit_s: float = 10.0
    built: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """By what the scheduler decides.

    Attributes:
        canary_tolerance: by which share a canary may be slower or faster than it was known to be.
        canary_limit_s: the canary's own limit.
        slow_canaries: as many that took too long, one at once after the other, take a board off; one fewer where it was
            off before. What a neighbour on shared hardware does comes and goes, what a board ails from stays.
        idle_s: a board without work for so long has its last results confirmed by a canary.
        streak: as many different candidates failing in a row take a board off.
        false_alarms: as many candidates that failed on a board and were right on others take it off ...
        window: ... where this many of its trials lie between them at most.
        retries: how often a trial is tried again that could not be measured.
        most_attempts: of a trial, whatever the reasons.
        build_s: how long a trial may wait for its program.
        queue_s: how long a trial may wait for its turn.
        board_s: how long trials may wait where no board that could measure them is healthy.
        first_delay_s: after which a board that was taken off is looked at again; it doubles each time ...
        longest_delay_s: ... up to this.
        lost_delay_s: the first delay of a board that could not be reached.
        forgive_after: good canaries in a row after which delays are short again.
        power_cycle_after: looks in vain after which a board is switched off and on.
        power_cycle_rest_s: how long it is not switched again: it may still be starting.
    """

    canary_tolerance: float = 0.1
    canary_limit_s: float = 5.0
    slow_canaries: int = 2
    idle_s: float = 1.0
    streak: int = 3
    false_alarms: int = 2
    window: int = 50
    retries: int = 3
    most_attempts: int = 12
    build_s: float = 600.0
    queue_s: float = 86_400.0
    board_s: float = 1800.0
    first_delay_s: float = 10.0
    longest_delay_s: float = 600.0
    lost_delay_s: float = 0.5
    forgive_after: int = 3
    power_cycle_after: int = 2
    power_cycle_rest_s: float = 120.0

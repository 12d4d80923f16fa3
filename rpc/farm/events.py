"""What the scheduler hears of, and what it asks for.

Events come in with the time; a `Decision` goes out. Its entries are written to the journal, all or none, before any of
its commands is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass

from int8tune.rpc.farm.entries import Entry
from int8tune.rpc.farm.values import Campaign, Phase, Trial, Verdict


@dataclass(frozen=True, slots=True)
class Open:
    """A campaign begins, or goes on."""

    campaign: Campaign


@dataclass(frozen=True, slots=True)
class Close:
    """A campaign is over: what is left of its trials is dropped."""

    campaign: str


@dataclass(frozen=True, slots=True)
class Submit:
    """A trial is to be measured. One that is known already is not taken twice."""

    trial: Trial


@dataclass(frozen=True, slots=True)
class Built:
    """A trial has its program; or it has none, and why."""

    trial: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reached:
    """A session is in its next phase."""

    board: str
    fence: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class Answered:
    """A board says how its trial ended."""

    board: str
    fence: int
    trial: str
    verdict: Verdict
    error: str = ""


@dataclass(frozen=True, slots=True)
class CanaryAnswered:
    """A board has run the canary: whether every value was right, and how long a call took.

    Attributes:
        boot: which start of the board's system that was; empty where the board does not say.
    """

    board: str
    fence: int
    exact: bool
    seconds: float
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A session ended without an answer: no connection, or it broke.

    Attributes:
        gone: whether it is known that the board can't be reached just now.
    """

    board: str
    fence: int
    error: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """A board says that it is there."""

    board: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Open | Close | Submit | Built | Reached | Answered | CanaryAnswered | Dropped | Heard | Tick


@dataclass(frozen=True, slots=True)
class Start:
    """Measure a trial on a board; all that comes back carries the fence."""

    board: str
    fence: int
    trial: Trial


@dataclass(frozen=True, slots=True)
class Check:
    """Run the canary on a board."""

    board: str
    fence: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a session; nobody waits for its answer."""

    board: str
    fence: int


@dataclass(frozen=True, slots=True)
class PowerCycle:
    """Switch a board off and on again."""

    board: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer was not taken: its lease is over, or it was never given."""

    board: str
    fence: int


Command = Start | Check | Cancel | PowerCycle | Refused


@dataclass(frozen=True, slots=True)
class Decision:
    """What one event led to."""

    entries: tuple[Entry, ...]
    commands: tuple[Command, ...]

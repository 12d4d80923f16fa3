"""The journal's entries: all that must outlive the coordinator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from int8tune.results.typed_json import from_json
from int8tune.rpc.farm.values import Campaign, State, Trial, Verdict


@dataclass(frozen=True, slots=True)
class Began:
    """A coordinator began.

    Attributes:
        host: which start of its own system that was.
        canary: the sha256 of the canary's library: times of another one say nothing.
    """

    host: str
    canary: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A campaign began."""

    campaign: Campaign


@dataclass(frozen=True, slots=True)
class Closed:
    """A campaign is over."""

    campaign: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """A trial was accepted: it will be concluded."""

    trial: Trial


@dataclass(frozen=True, slots=True)
class ProgramBuilt:
    """A trial has its program."""

    trial: str


@dataclass(frozen=True, slots=True)
class Issued:
    """A board was given a lease, of a trial or, where that is empty, of the canary. No fence is given twice."""

    fence: int
    board: str
    trial: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Returned:
    """A lease of a trial is over.

    Attributes:
        verdict: what the board answered; it counts when a canary was good after it. None: nothing.
        counts: whether it is one of the times that the trial could not be measured.
    """

    fence: int
    board: str
    trial: str
    verdict: Verdict | None
    cause: str
    counts: bool


@dataclass(frozen=True, slots=True)
class Voided:
    """What a board answered of a trial is not believed any more."""

    board: str
    trial: str
    cause: str


@dataclass(frozen=True, slots=True)
class Blamed:
    """A trial failed and the canary was good after it: another board is asked."""

    fence: int
    board: str
    trial: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Cleared:
    """A trial that was blamed of a wrong answer was right on this board: one more is asked."""

    fence: int
    board: str
    trial: str


@dataclass(frozen=True, slots=True)
class Concluded:
    """A trial has its final state.

    Attributes:
        fence: of the lease whose answer it is; 0 where it is none's.
        board: of that lease.
    """

    trial: str
    verdict: Verdict
    fence: int
    board: str
    cause: str


@dataclass(frozen=True, slots=True)
class Turned:
    """A board is in another state."""

    board: str
    state: State
    cause: str


@dataclass(frozen=True, slots=True)
class CanaryJudged:
    """What a board's canary said of it.

    Attributes:
        seconds: what a call took; 0 where the board did not say.
        fault: what was wrong; empty where it was good.
    """

    board: str
    seconds: float
    fault: str


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What the canary takes on a board."""

    board: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Booted:
    """A board's canary was good, and its system was another start than that of the good one before."""

    board: str
    boot: str


Entry = (
    Began
    | Opened
    | Closed
    | Submitted
    | ProgramBuilt
    | Issued
    | Returned
    | Voided
    | Blamed
    | Cleared
    | Concluded
    | Turned
    | CanaryJudged
    | Calibrated
    | Booted
)
_KINDS: dict[str, type[Entry]] = {kind.__name__: kind for kind in Entry.__args__}


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """The entry as an object of JSON, its kind under `kind`."""
    fields = asdict(entry)
    if isinstance(entry, Submitted):
        fields["trial"]["tags"] = sorted(entry.trial.tags)
    return {"kind": type(entry).__name__} | fields


def entry_from_json(value: object) -> Entry:
    """The entry that `entry_to_json` made this of.

    Raises:
        ValueError: it is none.
    """
    try:
        fields = from_json(dict[str, Any], value)
        kind = from_json(str, fields.pop("kind", None))
        return from_json(_KINDS[kind], fields)
    except (KeyError, ValueError) as error:
        raise ValueError(f"no entry of a farm's journal: {str(error)[:200]}: {str(value)[:200]}") from error

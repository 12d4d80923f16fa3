"""What is known for good: the journal's entries, added up. A coordinator that died is rebuilt from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from int8tune.rpc.farm.entries import (
    Began,
    Blamed,
    Booted,
    Calibrated,
    CanaryJudged,
    Cleared,
    Closed,
    Concluded,
    Entry,
    Issued,
    Opened,
    ProgramBuilt,
    Returned,
    Submitted,
    Turned,
    Voided,
)
from int8tune.rpc.farm.values import State, Trial, Verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """What a board answered of a trial."""

    fence: int
    board: str
    verdict: Verdict
    cause: str


@dataclass(slots=True)
class OpenTrial:
    """A trial that is not concluded, and what was found out about it.

    Attributes:
        lease: under which a board has it now.
        answer: of a board whose next canary decides what it is worth.
        blames: failures after which the canary was good.
        cleared_by: boards on which a blamed trial was right.
        failures: how often it could not be measured.
    """

    trial: Trial
    built: bool
    lease: Issued | None = None
    attempts: int = 0
    failures: int = 0
    answer: Answer | None = None
    blames: list[Answer] = field(default_factory=list)
    cleared_by: list[str] = field(default_factory=list)
    failed_on: list[str] = field(default_factory=list)

    @property
    def avoid(self) -> set[str]:
        """Boards that have had it: what they would say is no news."""
        return {blame.board for blame in self.blames} | {*self.cleared_by} | {*self.failed_on}


class Ledger:
    """Adds up entries.

    Attributes:
        began: the last beginning, if it was written.
        campaigns: priorities of those that are open.
        open: trials that are not concluded, in the order they came.
        done: verdicts of those that are, by campaign.
        canaries_s: what the canary takes, by board.
        boots: which start of its system each board's last good canary was, where it said.
        states: each board's last state with its cause.
        fence: the last that was given.
    """

    def __init__(self) -> None:
        self.began: Began | None = None
        self.campaigns: dict[str, float] = {}
        self.open: dict[str, OpenTrial] = {}
        self.done: dict[str, dict[str, Verdict]] = {}
        self.canaries_s: dict[str, float] = {}
        self.boots: dict[str, str] = {}
        self.states: dict[str, tuple[State, str]] = {}
        self.fence = 0

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        ledger = cls()
        for entry in entries:
            ledger.add(entry)
        return ledger

    def knows(self, trial: Trial) -> bool:
        return trial.id in self.open or trial.id in self.done.get(trial.campaign, ())

    def add(self, entry: Entry) -> None:
        """Take in one more entry."""
        match entry:
            case Issued():
                self._issue(entry)
            case Returned():
                self._return(entry)
            case Concluded(trial, verdict):
                open_trial = self.open.pop(trial)
                self.done[open_trial.trial.campaign][trial] = verdict
            case Submitted(trial):
                self.open[trial.id] = OpenTrial(trial, trial.built)
            case Turned(board, state, cause):
                self.states[board] = (state, cause)
            case Calibrated(board, seconds):
                self.canaries_s[board] = seconds
            case CanaryJudged():
                pass  # for people: what a board's next canary says is another matter
            case Began():
                self.began = entry
            case Booted(board, boot):
                self.boots[board] = boot
            case ProgramBuilt(trial):
                self.open[trial].built = True
            case Opened(campaign):
                self.campaigns[campaign.name] = campaign.priority
                self.done.setdefault(campaign.name, {})
            case Closed(campaign):
                self._close(campaign)
            case _:
                self._weigh(entry)

    def _issue(self, entry: Issued) -> None:
        self.fence = max(self.fence, entry.fence)
        if entry.trial:
            open_trial = self.open[entry.trial]
            open_trial.lease = entry
            open_trial.attempts = entry.attempt

    def _return(self, entry: Returned) -> None:
        if (open_trial := self.open.get(entry.trial)) is None:
            return
        open_trial.lease = None
        if entry.verdict is not None:
            open_trial.answer = Answer(entry.fence, entry.board, entry.verdict, entry.cause)
        elif entry.counts:
            open_trial.failures += 1
            open_trial.failed_on.append(entry.board)

    def _weigh(self, entry: Voided | Blamed | Cleared) -> None:
        open_trial = self.open[entry.trial]
        answer, open_trial.answer = open_trial.answer, None
        if isinstance(entry, Blamed) and answer:
            open_trial.blames.append(answer)
        elif isinstance(entry, Cleared):
            open_trial.cleared_by.append(entry.board)
        elif isinstance(entry, Voided):
            open_trial.answer = answer if answer and answer.board != entry.board else None
            open_trial.blames = [blame for blame in open_trial.blames if blame.board != entry.board]

    def _close(self, campaign: str) -> None:
        self.campaigns.pop(campaign, None)
        self.done.pop(campaign, None)
        for trial in [trial for trial, open_trial in self.open.items() if open_trial.trial.campaign == campaign]:
            del self.open[trial]

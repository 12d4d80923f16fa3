"""The contract of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from int8tune.results.record import Entry, Outcome, Trial

E = TypeVar("E", bound=Entry)


class Store(Protocol):
    """A place where entries are kept for ever: they are added, never changed and never removed.

    A store is used by one thread at a time.
    """

    def append(self, entries: Sequence[Entry]) -> None:
        """Add all entries or, when an error is raised, none of them; they are durable when the call returns.

        Raises:
            StoreError: a campaign's name, or a trial's candidate or sequence number in its campaign, is taken; or the
                campaign of a trial or duel is not there; or the store is closed.
            RecordError: a value that can't be kept, such as a NaN among the observations.
            StoreWriteError: the entries could not be written.
        """

    def query(
        self,
        kind: type[E],
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[E]:
        """Iterate over the entries of one kind, as they were when the first was taken, in the order they were added.

        Trials come campaign by campaign, by sequence number.

        Raises:
            ValueError: a filter on something that entries of this kind don't have.
            StoreError: the store is closed.
            ForeignStoreError: a damaged row.
        """

    def close(self) -> None:
        """Let go of the store. Closing twice is allowed."""


@runtime_checkable
class ClaimingStore(Store, Protocol):
    """A store that several processes write at once: each of them other campaigns."""

    def claim(self, campaign: str) -> None:
        """Be the only writer of a campaign, which need not be there, until the store is closed.

        Adding to it does the same; this is for who must know before that nobody else will add to what it reads.

        Raises:
            StoreLockedError: another process writes it; the message has its host, its process and since when.
            StoreAwayError: the store can't be reached.
        """


@dataclass(frozen=True, slots=True)
class Before:
    """The trials of other campaigns that were started before a campaign was.

    Attributes:
        campaign: theirs are left out.
        moment: when it was started, in ISO 8601 UTC as `started_at` has it; texts are compared.
        is_alike: of a trial's environment, whether its times can be compared with the campaign's.
    """

    campaign: str
    target: str
    device: str
    moment: str
    is_alike: Callable[[Mapping[str, str]], bool]

    def has(self, trial: Trial) -> bool:
        """Whether it is one of them; its target and device are looked at elsewhere."""
        return trial.campaign != self.campaign and trial.started_at < self.moment and self.is_alike(trial.environment)


@runtime_checkable
class SelectiveStore(Store, Protocol):
    """A store that finds some trials without reading the others; what it returns comes in the order of `query`.

    Of a store that can't do that, `results.selection` reads all and keeps the same ones.
    """

    def first_trials(
        self,
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[Trial]:
        """The first trial of each task by sequence: of each workload, target and device in each campaign.

        Raises: as `query`.
        """

    def trials_of(self, campaign: str, candidates: Collection[str]) -> Iterator[Trial]:
        """A campaign's trials of the candidates with these ids, a thousand at most.

        Raises: as `query`.
        """

    def spread_trials(self, before: Before, most: int) -> Iterator[Trial]:
        """Trials that another campaign can learn from: all of them if they are at most `most`.

        Else every n-th of each task by sequence, beginning with the first: with the smallest n that leaves at most
        `most`, apart from the one more that a task may have whose number n does not divide.

        Raises: as `query`.
        """


@dataclass(frozen=True, slots=True)
class Tally:
    """A campaign's trials, counted.

    Attributes:
        outcomes: by workload, how many ended in each way.
        last_at: the latest `started_at`, as texts are compared; empty without trials.
    """

    outcomes: Mapping[str, Mapping[Outcome, int]]
    last_at: str = ""


@runtime_checkable
class CountingStore(SelectiveStore, Protocol):
    """A store that counts trials, and finds those that were added since, without reading the others.

    Of a store that can't do that, `results.selection` and `results.following` read all.
    """

    def tally(self, campaign: str) -> Tally:
        """Count a campaign's trials.

        Raises: as `query`.
        """

    def trials_after(self, campaign: str, row: int) -> Iterator[tuple[int, Trial]]:
        """A campaign's trials behind a row, 0 for all, each with its row; what is added later has a higher one.

        Raises: as `query`.
        """

"""The contract of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from int8tune.results.record import Entry

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

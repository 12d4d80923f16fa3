"""A store in memory, for tests and trial runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from int8tune.results.base import E
from int8tune.results.codec import codec_of, encode
from int8tune.results.errors import StoreError
from int8tune.results.record import BoardEvent, Campaign, CampaignRun, Duel, Entry, Trial

Key = tuple[str, ...] | tuple[str, str, int]


class MemoryStore:
    """A `Store` that accepts and refuses what `SqliteStore` does, and forgets everything with the process."""

    def __init__(self) -> None:
        self._kept: list[tuple[Entry, dict[str, str | None]]] = []
        self._taken: set[Key] = set()
        self._closed = False

    def append(self, entries: Sequence[Entry]) -> None:
        self._require_open()
        taken: set[Key] = set()
        for entry in entries:
            if isinstance(entry, Trial | Duel | CampaignRun | BoardEvent):
                key: Key = ("campaign", entry.campaign)
                if key not in self._taken and key not in taken:
                    raise StoreError(f"no such campaign in the store: {entry.campaign}")
            for key, message in _unique(entry):
                if key in self._taken or key in taken:
                    raise StoreError(message)
                taken.add(key)
        kept = [(entry, _facts(entry)) for entry in entries]
        self._taken |= taken
        self._kept += kept

    def query(
        self,
        kind: type[E],
        *,
        campaign: str | None = None,
        workload: str | None = None,
        target: str | None = None,
        device: str | None = None,
    ) -> Iterator[E]:
        self._require_open()
        chosen = codec_of(kind).filters(campaign=campaign, workload=workload, target=target, device=device)
        return self._matching(kind, chosen)

    def close(self) -> None:
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _matching(self, kind: type[E], chosen: Sequence[tuple[str, str]]) -> Iterator[E]:
        found = [
            entry
            for entry, facts in self._kept
            if isinstance(entry, kind) and all(facts[name] == value for name, value in chosen)
        ]
        if kind is Trial:
            order = {entry.name: place for place, (entry, _) in enumerate(self._kept) if isinstance(entry, Campaign)}
            found.sort(
                key=lambda entry: (order[entry.campaign], entry.sequence) if isinstance(entry, Trial) else (0, 0)
            )
        yield from found


def _facts(entry: Entry) -> dict[str, str | None]:
    """What filters compare. Raises `RecordError` for what a file would not keep."""
    values = encode(entry)
    name = entry.name if isinstance(entry, Campaign) else getattr(entry, "campaign", None)
    return {"campaign": name, **{key: values.get(key) for key in ("workload", "target", "device")}}


def _unique(entry: Entry) -> list[tuple[Key, str]]:
    """What no other entry may have too, each with the message if one has."""
    if isinstance(entry, Campaign):
        return [(("campaign", entry.name), f"the store has a campaign of this name already: {entry.name}")]
    if not isinstance(entry, Trial):
        return []
    start = f"campaign `{entry.campaign}` has a trial"
    return [
        (("candidate", entry.campaign, entry.candidate.id), f"{start} of this candidate already: {entry.candidate.id}"),
        (("sequence", entry.campaign, entry.sequence), f"{start} with this sequence number already: {entry.sequence}"),
    ]

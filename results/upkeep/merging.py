"""Stores joined into a new one: each entry once, campaigns that differ under names of their own, damage set aside."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from int8tune.results.atomic import write_atomic
from int8tune.results.base import Store
from int8tune.results.codec import encode, to_json
from int8tune.results.errors import UpkeepError
from int8tune.results.record import BoardEvent, Campaign, CampaignRun, DeviceCheck, Duel, Entry, Trial
from int8tune.results.upkeep.file_snapshot import OF_ALL, OF_CAMPAIGNS, DamagedRow, Snapshot, snapshot
from int8tune.results.upkeep.new_file import new_store

ENTRIES_AT_ONCE = 2000
LONGEST_NAME = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeptApart:
    """A campaign whose name another one had already: other content, so both are kept."""

    store: Path
    campaign: str
    renamed: str


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of merging.

    Attributes:
        out: the new store.
        campaigns, trials: how many it has.
        repeated: entries that were there before, from a store named earlier.
        apart: campaigns that have another name in the new store.
        damaged: rows that can't be read.
        damaged_file: where they are, one JSON object a line; None without any.
    """

    out: Path
    campaigns: int
    trials: int
    repeated: int
    apart: tuple[KeptApart, ...]
    damaged: tuple[DamagedRow, ...]
    damaged_file: Path | None


@dataclass(slots=True)
class _Known:
    """A campaign of the new store: what it holds, as digests."""

    campaign: Campaign
    trials: dict[int, bytes] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def has_same(self, other: _Known) -> bool:
        """Whether the two are one campaign, of which each may know a part."""
        if replace(other.campaign, name=self.campaign.name) != self.campaign:
            return False
        shared = self.trials.keys() & other.trials.keys()
        candidates = self.sequences.keys() & other.sequences.keys()
        return all(self.trials[number] == other.trials[number] for number in shared) and all(
            self.sequences[name] == other.sequences[name] for name in candidates
        )

    def add(self, trial: Trial) -> None:
        # The campaign may have another name in the new store.
        self.trials[trial.sequence] = digest_of(replace(trial, campaign=""))
        self.sequences[trial.candidate.id] = trial.sequence


class _Merge:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}
        self._others: set[bytes] = set()
        self.repeated = 0
        self.apart: list[KeptApart] = []

    @property
    def campaigns(self) -> int:
        return len(self._known)

    @property
    def trials(self) -> int:
        return sum(len(known.trials) for known in self._known.values())

    def add(self, taken: Snapshot) -> None:
        """Add what a file has and the new store does not."""
        campaigns = list(taken.entries(Campaign))
        for campaign in campaigns:
            self._add_campaign(taken, campaign)
        for kind in OF_ALL:
            self._append(self._unseen(taken.entries(kind)))
        taken.find_orphans([campaign.name for campaign in campaigns])

    def _add_campaign(self, taken: Snapshot, campaign: Campaign) -> None:
        found = _Known(campaign)
        for trial in taken.entries(Trial, campaign.name):
            found.add(trial)
        name = self._name_of(found)
        if name not in self._known:
            self._store.append([replace(campaign, name=name)])
            self._known[name] = _Known(replace(campaign, name=name))
            if name != campaign.name:
                self.apart.append(KeptApart(taken.path, campaign.name, name))
        else:
            self.repeated += 1
        for kind in OF_CAMPAIGNS:
            self._append(self._new(taken.entries(kind, campaign.name), self._known[name]))

    def _name_of(self, found: _Known) -> str:
        """The name of the campaign that this is; else its own if it is free, or with a number: `NAME.2`."""
        for name in _numbered(found.campaign.name):
            known = self._known.get(name)
            if known is None or known.has_same(found):
                return name
        raise AssertionError("names do not end")

    def _new(self, entries: Iterable[Trial | Duel | CampaignRun | BoardEvent], known: _Known) -> Iterator[Entry]:
        for entry in entries:
            own = replace(entry, campaign=known.campaign.name)
            if not isinstance(own, Trial):
                yield from self._unseen([own])
            elif own.sequence in known.trials:
                self.repeated += 1
            else:
                known.add(own)
                yield own

    def _unseen(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if (digest := digest_of(entry)) in self._others:
                self.repeated += 1
                continue
            self._others.add(digest)
            yield entry

    def _append(self, entries: Iterable[Entry]) -> None:
        for some in _batches(entries):
            self._store.append(some)


def merge_stores(stores: Sequence[Path], out: Path) -> Merged:
    """Join results files into a new one, which is there whole or not at all; the files themselves stay as they are.

    Entries that are equal are kept once. Campaigns of one name are one if they were started alike at the same moment
    and no trial contradicts; else they are kept apart: the one of the store that is named first keeps the name, the
    next is `NAME.2`. Rows that can't be read go to `OUT.damaged.jsonl`.

    Raises:
        UpkeepError: a file has the name of the new one already.
        StoreError: one of the stores can't be read as a whole, or the new one not be written.
    """
    damaged: list[DamagedRow] = []
    aside = out.with_name(f"{out.name}.damaged.jsonl")
    if aside.exists():
        raise UpkeepError(f"there is a file of this name already: {aside}")
    with new_store(out) as store:
        merge = _Merge(store)
        for path in stores:
            with snapshot(path) as taken:
                merge.add(taken)
                damaged += taken.damaged.values()
        if damaged:
            write_atomic(aside, "".join(map(_line, damaged)))
    return Merged(
        out,
        merge.campaigns,
        merge.trials,
        merge.repeated,
        tuple(merge.apart),
        tuple(damaged),
        aside if damaged else None,
    )


def copy_campaigns(taken: Snapshot, names: Sequence[str], store: Store) -> int:
    """Copy campaigns and the checks of their devices into an empty store; how many trials they have.

    Raises:
        StoreError: a row of theirs can't be read, or the copy not be written.
    """
    devices, trials = set(), 0
    chosen = [campaign for campaign in taken.entries(Campaign) if campaign.name in names]
    for campaign in chosen:
        devices.add((campaign.device, campaign.target))
        store.append([campaign])
        for kind in OF_CAMPAIGNS:
            for some in _batches(taken.entries(kind, campaign.name)):
                trials += len(some) if kind is Trial else 0
                store.append(some)
    checks = [one for one in taken.entries(DeviceCheck) if (one.device, one.target) in devices]
    store.append(checks)
    return trials


def digest_of(entry: Entry) -> bytes:
    """Equal for equal entries, whichever store they are in."""
    environment = getattr(entry, "environment", {})
    text = to_json([type(entry).__name__, getattr(entry, "campaign", ""), encode(entry), dict(environment)], "an entry")
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in itertools.count(2):
        ending = f".{number}"
        yield name[: LONGEST_NAME - len(ending)] + ending


def _batches(entries: Iterable[T]) -> Iterator[tuple[T, ...]]:
    source = iter(entries)
    while some := tuple(itertools.islice(source, ENTRIES_AT_ONCE)):
        yield some


def _line(row: DamagedRow) -> str:
    values = {name: repr(value) if isinstance(value, bytes) else value for name, value in row.values.items()}
    about = {"store": str(row.store), "table": row.table, "row": row.row, "fault": row.fault, "values": values}
    return json.dumps(about) + "\n"

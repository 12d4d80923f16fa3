"""Looks at campaigns again and again, and reads no more of their records than may have changed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from int8tune.results.base import Store
from int8tune.results.errors import ResultsError
from int8tune.results.following import FollowedCampaign
from int8tune.results.record import Campaign
from int8tune.results.snapshot import CampaignSnapshot
from int8tune.results.stores import STORE_FILE, open_store
from int8tune.results.text import printable
from int8tune.rpc.farm.status_file import latest_reports
from int8tune.tuner.board_states import BoardState
from int8tune.tuner.campaign_status import CampaignStatus, all_statuses, place_of
from int8tune.tuner.watching.overview import CampaignView, Overview, Place, newest_first

MOST_CAMPAIGNS = 20
# How long campaigns and boards are shown once they have ended.
LATELY_S = 86_400.0
LONGEST_FAULT = 300
# Records of which nothing tells whether they changed are read again after so long.
_READ_AGAIN_S = 60.0
_LONG_AGO_S = 600.0


class Watcher:
    """Watches one place with records, or all places in which a campaign of this machine's user ran of late.

    It is used by one thread at a time.
    """

    def __init__(self, where: str | Path | None = None, usual: Path | None = None) -> None:
        """Begin; nothing is opened.

        Args:
            where: a results folder, a results file, or a URL; None: all places.
            usual: a folder that is looked at, too, if there are records, where `where` is None.
        """
        self._where = where
        self._usual = usual
        self._open: dict[str, _Records] = {}

    def look(self) -> Overview:
        """How everything is now. What can't be read is a fault of its place."""
        now = time.time()
        statuses = all_statuses()
        places = self._places(statuses, now)
        for gone in self._open.keys() - places.keys():
            self._open.pop(gone).close()
        found = [self._look_at(name, where, statuses, now) for name, where in places.items()]
        campaigns = newest_first([campaign for _, own in found for campaign in own], now)
        shown = campaigns[:MOST_CAMPAIGNS]
        boards = tuple(_boards({campaign.name for campaign in shown} if self._where is not None else None, now))
        left_out = len(campaigns) - len(shown) + sum(records.unread for records in self._open.values())
        return Overview(now, tuple(place for place, _ in found), tuple(shown), boards, left_out)

    def close(self) -> None:
        for records in self._open.values():
            records.close()
        self._open.clear()

    def _places(self, statuses: Iterable[CampaignStatus], now: float) -> dict[str, str | Path]:
        """By the names that campaigns call them."""
        if self._where is not None:
            return {place_of(self._where): self._where}
        usual = {place_of(self._usual): self._usual} if self._usual and (self._usual / STORE_FILE).exists() else {}
        return usual | {each.place: each.place for each in statuses if _is_of_late(each, now)}

    def _look_at(
        self, name: str, where: str | Path, statuses: Iterable[CampaignStatus], now: float
    ) -> tuple[Place, list[CampaignView]]:
        own = {status.campaign: status for status in statuses if status.place == name}
        records = self._open.setdefault(name, _Records(where))
        fault = records.refresh(own, now)
        names = dict.fromkeys([*records.snapshots, *(key for key, each in own.items() if _is_of_late(each, now))])
        views = [CampaignView(name, each, records.snapshots.get(each), own.get(each)) for each in names]
        return Place(name, fault), views


@dataclass(slots=True)
class _Records:
    """The records of one place, as they were read last; `unread` are campaigns beyond those that are shown."""

    where: str | Path
    snapshots: dict[str, CampaignSnapshot] = field(default_factory=dict)
    unread: int = 0
    _store: Store | None = None
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)
    _followed: dict[str, FollowedCampaign] = field(default_factory=dict)

    def refresh(self, statuses: dict[str, CampaignStatus], now: float) -> str:
        """Read what may have changed; why that can't be read, or an empty text."""
        try:
            if self._store is None:
                self._store = open_store(self.where, readonly=True)
            self._read(self._store, statuses, now)
        except (ResultsError, OSError) as error:
            self.close()
            return printable(" ".join(str(error).split()))[:LONGEST_FAULT]
        return ""

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        self._seen.clear()
        self._followed.clear()

    def _read(self, store: Store, statuses: dict[str, CampaignStatus], now: float) -> None:
        stamp = self._stamp()
        known = {campaign.name: campaign for campaign in store.query(Campaign)}
        chosen = _latest(known.values(), statuses)
        self.unread = len(known) - len(chosen)
        self.snapshots = {each.name: self.snapshots[each.name] for each in chosen if each.name in self.snapshots}
        self._followed = {name: self._followed[name] for name in self.snapshots if name in self._followed}
        for campaign in chosen:
            if self._may_have_changed(campaign.name, stamp, statuses.get(campaign.name), now):
                self.snapshots[campaign.name] = self._follow(campaign).look(store)
                self._seen[campaign.name] = (stamp, now)

    def _follow(self, campaign: Campaign) -> FollowedCampaign:
        """A campaign of this name may have been removed, and another one be there: that is read from the start."""
        known = self._followed.get(campaign.name)
        if known is None or known.campaign != campaign:
            known = self._followed[campaign.name] = FollowedCampaign(campaign)
        return known

    def _may_have_changed(self, name: str, stamp: object, status: CampaignStatus | None, now: float) -> bool:
        if name not in self._seen or name not in self.snapshots:
            return True
        before, read_at = self._seen[name]
        if stamp is not None and stamp == before:
            return False
        if status and (status.is_current or status.written_at > read_at):
            return True
        # The writer of a results file is one process: what changed is another campaign, most likely.
        last_at = self.snapshots[name].last_at or 0.0
        return now - last_at < _LONG_AGO_S or now - read_at > _READ_AGAIN_S

    def _stamp(self) -> object:
        """What changes with a results file; None where nothing tells."""
        path = Path(self.where)
        file = path if path.is_file() else path / STORE_FILE
        try:
            found = [each.stat() for each in (file, file.with_name(f"{file.name}-wal")) if each.exists()]
        except OSError:
            return None
        return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found] or None


def _latest(campaigns: Iterable[Campaign], statuses: dict[str, CampaignStatus]) -> list[Campaign]:
    """Those that are read: of more than are shown the ones that were heard of, or begun, last."""

    def key(campaign: Campaign) -> tuple[bool, float, str]:
        status = statuses.get(campaign.name)
        return (status is not None and status.is_current, status.written_at if status else 0.0, campaign.created_at)

    return sorted(campaigns, key=key, reverse=True)[:MOST_CAMPAIGNS]


def _is_of_late(status: CampaignStatus, now: float) -> bool:
    return status.is_current or now - status.written_at < LATELY_S


def _boards(campaigns: set[str] | None, now: float) -> Iterator[BoardState]:
    """Boards that are in use, or were lately; of these campaigns only, if any are named."""
    for report in sorted(latest_reports(), key=lambda report: (report.board, report.campaign)):
        if campaigns is not None and report.campaign not in campaigns:
            continue
        if report.is_current or now - report.written_at < LATELY_S:
            yield BoardState(report.board, report)

"""An index of all campaigns, with a page of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.atomic import write_atomic
from int8tune.results.base import Store
from int8tune.results.comparison.of_store import SeenTrials, side_of_campaign
from int8tune.results.errors import ExportError, StoreError
from int8tune.results.history import History, PastCampaign, histories
from int8tune.results.record import Campaign, CampaignRun, runs_of
from int8tune.results.redaction import without_password
from int8tune.results.stores import open_store
from int8tune.tuner.publish import write_page

INDEX = "index.html"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class ReportIndex:
    """An index, as it was written.

    Attributes:
        page: the index's own.
        histories: of each network, target and device its campaigns.
        damaged: what could not be read, a line each.
    """

    page: Path
    histories: tuple[History, ...]
    damaged: tuple[str, ...]

    @property
    def campaigns(self) -> int:
        """That have a page."""
        return sum(len(history.campaigns) for history in self.histories)


def write_index(folder: Path, results: Sequence[str | Path]) -> ReportIndex:
    """Write a page of every campaign, and the index that leads to them. What can't be read of several is left out.

    Raises:
        StoreError: none of the records can be read.
        ExportError: a file can't be written.
    """
    from int8tune.results.report.index_page import render_index  # takes long to import, and few commands write pages

    _make(folder)
    pages = _Pages(folder)
    damaged: list[str] = []
    campaigns: list[PastCampaign] = []
    for place in results:
        try:
            with closing(open_store(place, readonly=True)) as store:
                shown = without_password(str(place))
                campaigns += [pages.campaign(store, each, shown) for each in list(store.query(Campaign))]
        except StoreError as error:
            if len(results) == 1:
                raise
            damaged.append(" ".join(str(error).split()))
    if not campaigns and damaged:
        raise StoreError("; ".join(damaged))
    found = histories(campaigns)
    write_atomic(folder / INDEX, render_index(found, damaged))
    return ReportIndex(folder / INDEX, found, tuple(damaged))


class _Pages:
    """Writes reports, each under a name of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken = {INDEX}

    def campaign(self, store: Store, campaign: Campaign, place: str) -> PastCampaign:
        name = self._name(campaign.name)
        seen = SeenTrials()
        summary = write_page(store, campaign.name, self._folder / name, seen.add)
        runs = runs_of(store.query(CampaignRun, campaign=campaign.name))
        side = side_of_campaign(store, campaign, place, seen)
        return PastCampaign(summary, side, place, name, runs[-1] if runs else None)

    def _name(self, campaign: str) -> str:
        """A file's name: the campaign's own, if that is one and free."""
        name = f"{campaign}.html" if _PLAIN.fullmatch(campaign) else ""
        number = len(self._taken)
        while not name or name.lower() in self._taken:
            name, number = f"campaign-{number}.html", number + 1
        self._taken.add(name.lower())
        return name


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        why = "there is a file of this name" if folder.exists() else (error.strerror or str(error)).lower()
        raise ExportError(f"the folder can't be made ({why}): {folder}") from error

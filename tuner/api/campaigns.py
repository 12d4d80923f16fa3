"""The campaigns of stores: listed, shown, joined, renamed, put aside and removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.results.errors import NoSuchCampaignError, UpkeepError
from int8tune.results.record import Campaign, CampaignRun, runs_of
from int8tune.results.redaction import hidden_secrets
from int8tune.results.stores import STORE_FILE, is_url, open_store
from int8tune.results.summary import CampaignSummary, summarize
from int8tune.results.upkeep.changes import (
    Archived,
    did_you_mean,
    removal_file,
)
from int8tune.results.upkeep.changes import (
    archive_campaigns as archive_in_file,
)
from int8tune.results.upkeep.changes import (
    rename_campaign as rename_in_file,
)
from int8tune.results.upkeep.listing import CampaignRow, campaign_rows_of, is_older
from int8tune.results.upkeep.merging import Merged, merge_stores
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.campaign_name import require_name
from int8tune.tuner.folders import bundles_path, journal_path, make_folder
from int8tune.tuner.publish import macs_of

if TYPE_CHECKING:
    import pandas

Where = str | Path


@dataclass(frozen=True, slots=True, repr=False)
class Campaigns:
    """Campaigns of one store or several, in the order in which these were named."""

    rows: tuple[CampaignRow, ...]

    def __iter__(self) -> Iterator[CampaignRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each campaign."""
        return frame_of([asdict(row) for row in self.rows])

    def __repr__(self) -> str:
        return f"<{listed(len(self.rows), 'campaign')}: {', '.join(row.campaign for row in self.rows)}>"


@dataclass(frozen=True, slots=True)
class CampaignDetails:
    """One campaign with all that is known of it.

    Attributes:
        summary: its layers, failures and totals.
        runs: of the program, who started them, and how; none in records from before they were kept.
    """

    summary: CampaignSummary
    runs: tuple[CampaignRun, ...]


def campaigns(where: Where | Sequence[Where] = DEFAULT_RESULTS) -> Campaigns:
    """The campaigns of results folders, results files, or URLs that an installed package opens.

    Raises:
        StoreError: one of them is not there, or can't be read.
    """
    places = [where] if isinstance(where, str | Path) else list(where)
    return Campaigns(tuple(row for place in places for row in _rows_of(place)))


def show_campaign(name: str, results: Where = DEFAULT_RESULTS) -> CampaignDetails:
    """One campaign: how it was started, its runs, layers and failures.

    Raises:
        NoSuchCampaignError: it is not there; the message says which was meant.
        StoreError: the records can't be read.
    """
    store = open_store(results, readonly=True)
    try:
        found = {campaign.name: campaign for campaign in store.query(Campaign)}
        if name not in found:
            raise NoSuchCampaignError(did_you_mean(name, list(found)))
        summary = summarize(store, name, macs_of(found[name].layers))
        return CampaignDetails(summary, tuple(runs_of(store.query(CampaignRun, campaign=name))))
    finally:
        store.close()


def merge_records(stores: Sequence[Where], out: Where) -> Merged:
    """Join results folders or files into a new one, each entry once; what is joined stays as it is.

    Campaigns of one name are one if they were started alike at the same moment and no trial contradicts; else each is
    kept: that of the store that is named first has the name, the next is `NAME.2`. Rows that can't be read are set
    aside, with their place, in `OUT.damaged.jsonl`.

    Args:
        stores: results folders or files.
        out: a file whose name ends in `.db`; else a folder.

    Raises:
        UpkeepError: there is a file of this name already.
        StoreError: a store can't be read, or the new one not be written.
    """
    files = [store_file(where) for where in stores]
    path = Path(out)
    return merge_stores(files, path if path.suffix == ".db" else make_folder(path) / STORE_FILE)


def rename_campaign(old: str, new: str, results: Where = DEFAULT_RESULTS) -> None:
    """Give a campaign another name in the records; its report and best log keep theirs.

    Raises:
        SpecError: the new name is none.
        NoSuchCampaignError: the old one is not there.
        UpkeepError: there is a campaign of the new name already, or it waits for boards or bundles.
        StoreError: the records can't be read or written, or a campaign is writing to them.
    """
    require_name(new)
    path = store_file(results)
    _require_at_rest(path, [old])
    rename_in_file(path, old, new)


def archive_campaigns(
    names: str | Sequence[str], out: Where, results: Where = DEFAULT_RESULTS, *, move: bool = False
) -> Archived:
    """Copy campaigns, and the checks of their devices, into a results file of their own, for `merge_records`.

    Args:
        names: of campaigns.
        out: the new results file.
        results: the folder or file of the records.
        move: remove them from where they are, once the new file is whole and on the disk.

    Raises:
        NoSuchCampaignError: one of them is not there.
        UpkeepError: there is a file of the new name already, or a campaign waits for boards or bundles.
        StoreError: a file can't be read or written, or a campaign is writing to the one that is to be changed.
    """
    chosen, path = [names] if isinstance(names, str) else list(names), store_file(results)
    if move:
        _require_at_rest(path, chosen)
    return archive_in_file(path, chosen, Path(out), move=move)


def prune_campaigns(
    names: str | Sequence[str] = (),
    results: Where = DEFAULT_RESULTS,
    *,
    older_than_s: float | None = None,
    yes: bool = False,
) -> tuple[Campaigns, Archived | None]:
    """Remove campaigns from the records; without `yes`, say which these would be.

    What is removed lies in a results file beside the records, which may be deleted or merged back.

    Args:
        names: of campaigns.
        results: the folder or file of the records.
        older_than_s: all of which nothing is known since so many seconds.
        yes: remove them.

    Raises:
        NoSuchCampaignError: one of them is not there.
        UpkeepError: neither was said, or a campaign waits for boards or bundles.
        StoreError: the records can't be read or written, or a campaign is writing to them.
    """
    named = [names] if isinstance(names, str) else list(names)
    if not named and older_than_s is None:
        raise UpkeepError("say which campaigns are to be removed: their names, or an age")
    path = store_file(results)
    rows = {row.campaign: row for row in _rows_of(results)}
    for name in named:
        if name not in rows:
            raise NoSuchCampaignError(did_you_mean(name, list(rows)))
    old = [name for name, row in rows.items() if older_than_s is not None and is_older(row, older_than_s)]
    chosen = list(dict.fromkeys([*named, *old]))
    found = Campaigns(tuple(rows[name] for name in chosen))
    _require_at_rest(path, chosen)
    if not yes or not chosen:
        return found, None
    return found, archive_in_file(path, chosen, removal_file(path), move=True)


def store_file(where: Where) -> Path:
    """The results file of a folder, or the file itself.

    Raises:
        UpkeepError: a URL.
    """
    if is_url(where):
        raise UpkeepError(f"only results folders and files can be joined and changed so: {hidden_secrets(str(where))}")
    path = Path(where)
    return path if path.is_file() else path / STORE_FILE


def _rows_of(where: Where) -> list[CampaignRow]:
    store = open_store(where, readonly=True)
    try:
        size = None if is_url(where) else store_file(where).stat().st_size
        return list(campaign_rows_of(store, hidden_secrets(str(where)), size))
    finally:
        store.close()


def _require_at_rest(path: Path, names: Sequence[str]) -> None:
    """Raises: UpkeepError: boards or bundles still have work of a campaign, and know it by its name."""
    for name in names:
        for waiting in (journal_path(path.parent, name), bundles_path(path.parent, name)):
            if waiting.exists():
                raise UpkeepError(f"campaign `{name}` is not finished, work of it is noted in: {waiting}")

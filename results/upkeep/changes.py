"""Changes of a results file that is there: a campaign renamed, put into a file of its own, or removed.

Each is one transaction of SQLite under the writer's lock: it happened or it did not, whenever the process is killed,
it is refused while a campaign writes, and who reads sees the state before or after. What is removed lies in a file of
its own before it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, delete, select, update

from int8tune.results.codec import checksum
from int8tune.results.errors import DamagedRowError, NoSuchCampaignError, UpkeepError
from int8tune.results.schema import campaigns, environments, metadata
from int8tune.results.sqlite_file import resolved
from int8tune.results.store import SqliteStore
from int8tune.results.upkeep.file_snapshot import Snapshot, names_in, snapshot, snapshot_of_open
from int8tune.results.upkeep.merging import LONGEST_NAME, copy_campaigns
from int8tune.results.upkeep.new_file import new_store

MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Archived:
    """Campaigns in a file of their own.

    Attributes:
        removed: whether they are in no other file any more.
    """

    file: Path
    campaigns: tuple[str, ...]
    trials: int
    removed: bool


def rename_campaign(path: Path, old: str, new: str) -> None:
    """Give a campaign of a results file another name.

    Raises:
        NoSuchCampaignError: there is none of the old name.
        UpkeepError: there is one of the new name already.
        StoreError: the file can't be read or written, or a campaign is writing to it.
    """
    with snapshot(path) as taken:
        names = require_campaigns(taken, [old])
        _require_whole(taken)
    if new in names:
        raise UpkeepError(f"there is a campaign of this name already: {new}")
    with SqliteStore(path) as store, store.transaction() as connection:
        row = dict(connection.execute(select(campaigns).where(campaigns.c.name == old)).mappings().one())
        row["name"] = new
        values = {"name": new, "checksum": checksum(campaigns, row)}
        connection.execute(update(campaigns).where(campaigns.c.id == row["id"]).values(values))


def archive_campaigns(path: Path, names: Sequence[str], out: Path, *, move: bool = False) -> Archived:
    """Copy campaigns, and the checks of their devices, into a results file of their own, which can be merged back.

    Args:
        move: remove them from where they are, once the new file is whole and on the disk.

    Raises:
        NoSuchCampaignError: one of them is not there.
        UpkeepError: there is a file of the new name already.
        StoreError: a file can't be read or written, or a campaign is writing to the one that is to be changed.
    """
    chosen = tuple(dict.fromkeys(names))
    with snapshot(path) as taken:
        require_campaigns(taken, chosen)
        if not move:
            return Archived(out, chosen, _copy(taken, chosen, out), removed=False)
    with SqliteStore(path) as store:
        # Nobody writes from here on, so that what is removed is what was copied.
        with snapshot_of_open(resolved(path, readonly=True)) as taken:
            trials = _copy(taken, chosen, out)
        with store.transaction() as connection:
            _remove(connection, chosen)
        store.compact()
    return Archived(out, chosen, trials, removed=True)


def removal_file(path: Path) -> Path:
    """Where `prune` keeps what it removes from a results file."""
    return path.with_name(f"{path.stem}.removed-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}{path.suffix}")


def require_campaigns(taken: Snapshot, wanted: Sequence[str]) -> list[str]:
    """All names of a store.

    Raises:
        NoSuchCampaignError: a wanted one is not among them; the message says which was meant.
    """
    names = names_in(taken)
    for name in wanted:
        if name not in names:
            raise NoSuchCampaignError(did_you_mean(name, names))
    return names


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """What is said of a campaign that is not there."""
    near = difflib.get_close_matches(name[:LONGEST_NAME], names, n=1)
    known = f"did you mean `{near[0]}`?" if near else f"the records have: {', '.join(names[:MOST_SHOWN]) or 'none'}"
    return f"no such campaign `{name[:LONGEST_NAME]}`, {known}"


def _copy(taken: Snapshot, names: Sequence[str], out: Path) -> int:
    require_campaigns(taken, names)
    with new_store(out) as store:
        trials = copy_campaigns(taken, names, store)
        _require_whole(taken)
    return trials


def _require_whole(taken: Snapshot) -> None:
    """Raises: DamagedRowError: rows were found that can't be read; they would be lost without a word."""
    if taken.damaged:
        first = next(iter(taken.damaged.values()))
        where = f"{len(taken.damaged)} rows, such as row {first.row} of {first.table}"
        raise DamagedRowError(f"the results file is damaged ({where}): {taken.path}")


def _remove(connection: Connection, names: Sequence[str]) -> None:
    own = select(campaigns.c.id).where(campaigns.c.name.in_(names))
    for table in metadata.tables.values():
        if "campaign_id" in table.c:
            connection.execute(delete(table).where(table.c.campaign_id.in_(own)))
    connection.execute(delete(campaigns).where(campaigns.c.name.in_(names)))
    used = [select(table.c.environment_id) for table in metadata.tables.values() if "environment_id" in table.c]
    kept = used[0].union(*used[1:])
    connection.execute(delete(environments).where(environments.c.id.not_in(kept)))

"""What a campaign says of itself while it runs: a small file, read by whoever watches it from another process."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from int8tune.results.json_forms import number_within, one_line
from int8tune.results.redaction import without_password
from int8tune.results.stores import STORE_FILE
from int8tune.results.text import printable
from int8tune.rpc.errors import StatusFileError
from int8tune.rpc.process.status_files import (
    LONGEST_LINE,
    LONGEST_TEXT,
    Count,
    Moment,
    ShortLine,
    Writer,
    read_status_file,
    state_folder,
    write_status,
)

FAILED, INTERRUPTED = "failed", "interrupted"
MOST_FILES = 1000
_Amount = Annotated[float, number_within(0, 1e9)]
_URL = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/@]*@)?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """A campaign as its process saw it last. Moments are seconds since 1970, for people.

    Attributes:
        place: the results folder, or the URL, of its records.
        trials: the budget of all layers; `trials_done` of them are recorded, `resumed` of these by earlier runs.
        left_s: an estimate, at `written_at`; None where there is none.
        ending: why it ended, `failed` by an error; empty while it runs.
        error: that error in a line.
        writer: the campaign's process.
    """

    place: Annotated[str, one_line(LONGEST_LINE)]
    campaign: ShortLine
    network: ShortLine
    tasks: Count
    tasks_done: Count
    trials: Count
    trials_done: Count
    resumed: Count
    per_minute: _Amount
    started_at: Moment
    left_s: _Amount | None
    written_at: Moment
    ending: ShortLine
    error: ShortLine
    writer: Writer

    @property
    def is_current(self) -> bool:
        """Whether the campaign still runs."""
        return not self.ending and self.writer.is_alive


def campaigns_folder() -> Path:
    """Where the campaigns of this machine say how they are."""
    return state_folder() / "campaigns"


def place_of(where: str | Path) -> str:
    """What campaigns call the place of their records: a folder's path, or a URL without its user and password."""
    if url := _URL.fullmatch(without_password(str(where))):
        return printable(f"{url[1]}{url[2]}")
    path = Path(where).resolve()
    return printable(str(path.parent if path.name == STORE_FILE else path))


def status_path(place: str, campaign: str) -> Path:
    key = hashlib.sha256(f"{place}\n{campaign}".encode(errors="surrogateescape")).hexdigest()[:24]
    return campaigns_folder() / f"{key}.json"


def write_campaign_status(status: CampaignStatus) -> None:
    """Replace a campaign's file.

    Raises:
        OSError: it can't be written.
    """
    write_status(status_path(status.place, status.campaign), asdict(status))


def read_status(path: Path) -> CampaignStatus | None:
    """What a campaign said last; None where there is no such file.

    Raises:
        StatusFileError: it can't be read, or has something else in it.
    """
    try:
        return read_status_file(path, CampaignStatus)
    except (OSError, ValueError) as error:
        raise StatusFileError(f"{path}: {printable(str(error))[:LONGEST_TEXT]}") from error


def all_statuses() -> list[CampaignStatus]:
    """The status of each campaign of this machine that said it well in the last weeks; newest first."""
    return sorted(_readable(), key=lambda status: -status.written_at)


def _readable() -> Iterator[CampaignStatus]:
    with suppress(OSError):
        for path in sorted(campaigns_folder().glob("*.json"))[:MOST_FILES]:
            with suppress(StatusFileError):
                if status := read_status(path):
                    yield status

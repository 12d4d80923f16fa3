"""Finds out what a side of a comparison is: records, a best log, or JSON of a bench."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from int8tune.results.best_log import HEADER
from int8tune.results.comparison.of_best_log import side_of_best_log
from int8tune.results.comparison.of_json import MOST_BYTES, side_of_json
from int8tune.results.comparison.of_store import side_of_store
from int8tune.results.comparison.side import Side
from int8tune.results.errors import ComparisonError
from int8tune.results.metaschedule import BEST_LOG, RECORDS
from int8tune.results.redaction import without_password
from int8tune.results.stores import open_store

SEPARATOR = "::"
_SQLITE = b"SQLite format 3\0"
_AUTOTVM = b'{"input": ['
_SHOWN = 12


def read_side(where: str, campaign: str | None = None) -> Side:
    """What was found there.

    Args:
        where: a results folder, a results file or a URL, with `::NAME` for a campaign or a bench in it; a best log; a
            folder that was exported for MetaSchedule; what `int8tune bench --format json` printed; or a file of
            pytest-benchmark's.
        campaign: of records that name none themselves.

    Raises:
        ComparisonError: it is none of these, or it is not clear which campaign.
        StoreError: the records can't be read.
        BestLogError: the best log has faults.
    """
    place, separator, named = where.rpartition(SEPARATOR)
    # An address of IPv6 in a URL has such a separator, too.
    if not separator or "/" in named or Path(where).exists():
        place, named = where, ""
    path = Path(place)
    if (path / RECORDS).is_file():
        return _side_of_database(path)
    if "://" in place or path.is_dir() or not path.exists() or _begins(path, _SQLITE):
        with closing(open_store(place, readonly=True)) as store:
            return side_of_store(store, without_password(place), named or campaign)
    if named:
        raise ComparisonError(f"only records have campaigns, leave `{SEPARATOR}{named[:60]}` out: {place}")
    if _begins(path, b'{"' + HEADER.encode()):
        return side_of_best_log(path)
    if _begins(path, _AUTOTVM):
        raise ComparisonError(f"a log of AutoTVM, which times 32-bit sums and not layers of 8 bits: {place}")
    return side_of_json(_content(path), place)


def _side_of_database(folder: Path) -> Side:
    """The side of a MetaSchedule database, whose layers the best log beside it names."""
    if not (folder / BEST_LOG).is_file():
        what = f"a database of MetaSchedule without `{BEST_LOG}`, which says what layers of ours its records are"
        raise ComparisonError(f"{what}: {folder}")
    return side_of_best_log(folder / BEST_LOG)


def _begins(path: Path, start: bytes) -> bool:
    return _content(path, len(start) + _SHOWN).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(start)


def _content(path: Path, most_bytes: int = MOST_BYTES + 1) -> bytes:
    """What a file begins with, which must be a regular one, as others might never end.

    Raises:
        ComparisonError: it can't be read, or is empty or no text.
    """
    try:
        if not path.is_file():
            raise ComparisonError(f"not a file: {path}")
        with path.open("rb") as file:
            content = file.read(most_bytes)
    except OSError as error:
        raise ComparisonError(f"the file can't be read ({error.strerror}): {path}") from error
    if not content:
        raise ComparisonError(f"the file is empty (0 bytes): {path}")
    if not content.startswith(_SQLITE) and content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        start = json.dumps(content[:_SHOWN].decode("latin-1"))
        raise ComparisonError(f"neither records nor a best log nor JSON (it begins with {start}): {path}")
    return content

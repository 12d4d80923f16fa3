"""What waits on this host's disk for the database: acknowledged entries, until they are handed over."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from int8tune.results.atomic import sync_folder
from int8tune.results.bounded_json import parse_json
from int8tune.results.codec import codec_of, codec_of_table, encode, to_json
from int8tune.results.errors import NotOwnFileError, RecordError, StoreError, StoreWriteError
from int8tune.results.held import Held, hold_own
from int8tune.results.own_files import make_own_folder
from int8tune.results.record import Entry
from int8tune.results.typed_json import from_json

SUFFIX = ".spool"
REFUSED = ".refused"
MOST_LINE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call added: all of it is in the database one day, or none.

    Attributes:
        number: rises from one to the next of a writer.
    """

    number: int
    entries: tuple[Entry, ...]

    @property
    def campaigns(self) -> tuple[str, ...]:
        """Names of those that the entries belong to."""
        return tuple(dict.fromkeys(name for name in map(campaign_of, self.entries) if name))


def campaign_of(entry: Entry) -> str:
    """The name of the campaign that an entry is, or belongs to; empty of those of devices."""
    return str(getattr(entry, "name", "") or getattr(entry, "campaign", ""))


class Spool:
    """A file of one writer: a line for each batch, with a checksum, on the disk when `add` returns.

    Its lock says whether the writer lives.

    Attributes:
        writer: whose it is.
    """

    def __init__(self, path: Path) -> None:
        """Take the file, which is made where there is none.

        Raises:
            BlockingIOError: another process has it.
            StoreWriteError: it can't be made.
        """
        self.path = path
        self.writer = UUID(path.stem)
        try:
            self._file: Held = hold_own(path)
            sync_folder(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            self._file.lock()
        except BaseException:
            self._file.close()
            raise
        self._size = self._whole()

    @property
    def is_empty(self) -> bool:
        return not self._size

    def add(self, batch: Batch) -> None:
        """Raises: StoreWriteError: it is not kept, because of a full disk, say."""
        line = _line_of(batch)
        try:
            if os.pwrite(self._file.descriptor, line, self._size) < len(line):
                raise OSError(28, os.strerror(28))
            os.fsync(self._file.descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.descriptor, self._size)
            raise _unwritable(self.path, error) from error
        self._size += len(line)

    def batches(self, start: int = 0) -> Iterator[tuple[Batch | None, bytes, int]]:
        """What waits: each batch, its line and where it ends. None for a batch where the line is damaged."""
        with self.path.open("rb") as file:
            file.seek(start)
            end = start
            while end < self._size and (line := file.readline(MOST_LINE_BYTES)):
                end += len(line)
                yield _batch_of(line), line, end

    def drop(self, end: int) -> bool:
        """Forget all if that ends there; whether it did."""
        if end < self._size:
            return False
        try:
            os.ftruncate(self._file.descriptor, 0)
            os.fsync(self._file.descriptor)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._size = 0
        return True

    def set_aside(self, line: bytes) -> Path:
        """Keep a line that the database will never have in a file beside this one; that file."""
        path = self.path.with_suffix(REFUSED)
        try:
            with path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.parent)
        except OSError as error:
            raise _unwritable(path, error) from error
        return path

    def _whole(self) -> int:
        """The size without what was not written to its end: nobody was told that it is safe."""
        end = torn = 0
        with self.path.open("rb") as file:
            while line := file.readline(MOST_LINE_BYTES):
                torn = 0 if line.endswith(b"\n") else len(line)
                end += len(line)
        return end - torn

    def close(self) -> None:
        """Let go of the file, and remove it where nothing waits."""
        if self._file.descriptor >= 0:
            if self.is_empty:
                self.path.unlink(missing_ok=True)
            self._file.close()


def spool_folder(files: Path, database: UUID) -> Path:
    """Where those of a database are, in a folder of results.

    Raises:
        StoreWriteError: it can't be made.
    """
    folder = files / "spool" / str(database)
    try:
        files.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            make_own_folder(path)
            sync_folder(path.parent)
    except NotOwnFileError:
        raise
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def abandoned(folder: Path) -> Iterator[Spool]:
    """Spools of writers that are gone; each is held by who takes it, who closes it."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with contextlib.suppress(BlockingIOError, ValueError):
            yield Spool(path)


def _line_of(batch: Batch) -> bytes:
    entries = [_as_json(entry) for entry in batch.entries]
    text = to_json([batch.number, entries], "what is added")
    if len(text) > MOST_LINE_BYTES // 2:
        raise StoreWriteError(f"more than {MOST_LINE_BYTES // 2} bytes can't wait for the database: {len(text)}")
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _as_json(entry: Entry) -> Sequence[Any]:
    codec = codec_of(type(entry))
    environment = dict(getattr(entry, "environment")) if codec.has_environment else {}  # noqa: B009
    return [codec.table.name, campaign_of(entry) if codec.has_campaign else "", environment, encode(entry)]


def _batch_of(line: bytes) -> Batch | None:
    """What a line says; None where it was not written whole, or is damaged."""
    checksum, _, content = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != f"{zlib.crc32(content):08x}".encode():
        return None
    try:
        number, entries = parse_json(content, most_bytes=MOST_LINE_BYTES)
        return Batch(from_json(int, number), tuple(map(_entry_of, entries)))
    except (ValueError, LookupError, TypeError, RecordError):
        return None


def _entry_of(found: Sequence[Any]) -> Entry:
    table, campaign, environment, values = found
    codec = codec_of_table(table)
    own: Mapping[str, Any] = {column.name: None for column in codec.table.c} | values
    texts = from_json(dict[str, str], environment)
    entry: Entry = codec.decode(dict(own), from_json(str, campaign), texts)
    return entry


def _unwritable(path: Path, error: OSError) -> StoreError:
    if isinstance(error, NotOwnFileError):
        return StoreWriteError(f"{error.strerror}: {path}")
    return StoreWriteError(f"what waits for the database can't be written ({error.strerror}): {path}")

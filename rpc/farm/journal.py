"""A journal in a file: a line for each decision, whole or not there."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from int8tune.results.atomic import sync_folder
from int8tune.results.bounded_json import parse_json
from int8tune.results.own_files import open_own
from int8tune.rpc.errors import JournalError, ProtocolError
from int8tune.rpc.farm.entries import Concluded, Entry, entry_from_json, entry_to_json
from int8tune.rpc.protocol import reply_from_json, reply_to_json
from int8tune.rpc.request import Reply
from int8tune.rpc.wire.fields import Fields, anything, integer, many
from int8tune.rpc.wire.fields import text as any_text

LARGEST_BYTES = 1 << 30
_LONGEST_LINE = 1 << 24


class JournalFile:
    """Appends decisions. What `write` returned from is there after a crash, of the program or of the machine; of the
    program alone where it does not wait for the disk (`waits_for_disk`).

    A line that was being written when the machine stopped is cut off when the file is opened again.

    Attributes:
        entries: what the file had when it was opened.
        replies: by trial and fence, what boards had answered of trials that were not concluded then.
    """

    def __init__(self, path: Path, *, waits_for_disk: bool = True) -> None:
        """
        Raises:
            JournalError: the file is damaged elsewhere than at its end.
            OSError: it can't be read or written, or is a link.
        """
        self.entries: list[Entry] = []
        self.replies: dict[str, dict[int, Reply]] = {}
        self._waits_for_disk = waits_for_disk
        whole_bytes = 0
        self._path = path
        self._file = open_own(path, os.O_RDWR | os.O_APPEND, 0o600)
        try:
            if os.fstat(self._file).st_size > LARGEST_BYTES:
                raise JournalError(f"{path}: must have at most {LARGEST_BYTES} bytes")
            with path.open("rb") as lines:
                for number, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE), b""), 1):
                    if not self._read(number, line):
                        self._check_last(number, lines.read(1))
                        break
                    whole_bytes += len(line)
            os.ftruncate(self._file, whole_bytes)
            os.fsync(self._file)
            sync_folder(path.parent)
        except BaseException:
            os.close(self._file)
            raise
        self._end = whole_bytes

    def write(self, entries: Sequence[Entry], replies: Mapping[str, Mapping[int, Reply]] | None = None) -> None:
        """Add a decision's entries, all or none, and the replies that they are about.

        Raises:
            OSError: they could not be written; none of them is in the file.
        """
        if not entries:
            return
        said = [
            [trial, fence, reply_to_json(reply)]
            for trial, by_fence in (replies or {}).items()
            for fence, reply in by_fence.items()
        ]
        value = {"entries": [entry_to_json(entry) for entry in entries], "replies": said}
        text = json.dumps(value, separators=(",", ":")).encode()
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            if self._waits_for_disk:
                os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(line)

    def close(self) -> None:
        os.close(self._file)

    def _read(self, number: int, line: bytes) -> bool:
        """Take in a line; whether its end and its checksum are there and right."""
        checksum, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
            return False
        try:
            fields = Fields("", parse_json(text), ("entries", "replies"))
            entries = [entry_from_json(entry) for entry in fields.read("entries", many(anything))]
            for trial, fence, reply in fields.read("replies", many(_answer)):
                self.replies.setdefault(trial, {})[fence] = reply
        except (ValueError, ProtocolError) as error:
            raise JournalError(f"{self._path}:{number}: {error}") from error
        self.entries += entries
        for entry in entries:
            if isinstance(entry, Concluded):
                self.replies.pop(entry.trial, None)
        return True

    def _check_last(self, number: int, rest: bytes) -> None:
        if rest:
            raise JournalError(f"{self._path}:{number}: damaged, and lines follow it")


def _answer(place: str, value: object) -> tuple[str, int, Reply]:
    """A trial's name, a fence, and what its board replied."""
    trial, fence, reply = many(anything)(place, value)
    return any_text(f"{place}[0]", trial), integer(1, 1 << 62)(f"{place}[1]", fence), reply_from_json(reply, None)

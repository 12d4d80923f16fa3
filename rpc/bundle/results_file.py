"""What comes home from a device: a line for each result, with a checksum, whole or not there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.atomic import sync_folder
from int8tune.results.bounded_json import parse_json
from int8tune.results.own_files import open_own
from int8tune.rpc.bundle.archive import Bundle, require_file
from int8tune.rpc.bundle.manifest import is_id
from int8tune.rpc.errors import BundleResultsError, ProtocolError
from int8tune.rpc.protocol import capabilities_from_json, capabilities_to_json, reply_from_json, reply_to_json
from int8tune.rpc.request import Capabilities, Reply
from int8tune.rpc.wire.fields import Fields, line

LARGEST_BYTES = 1 << 28
_LONGEST_LINE = 1 << 20
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Began:
    """A run began, on this device; the results after it are from there."""

    bundle: str
    campaign: str
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class Result:
    """An item was measured; `reply` is to be read against the item's request."""

    bundle: str
    item: str
    reply: object


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that can't be read, and why."""

    why: str


Line = Began | Result | Damage


def read_lines(path: Path) -> Iterator[tuple[int, Line]]:
    """The lines with their numbers. Nothing of what they say is known to be true.

    Raises:
        OSError: the file can't be read.
    """
    require_file(path)
    if path.stat().st_size > LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"results have at most {LARGEST_BYTES} bytes", str(path))
    with path.open("rb") as file:
        number = 0
        while data := file.readline(_LONGEST_LINE):
            number += 1
            is_whole = data.endswith(b"\n")
            while not data.endswith(b"\n") and (data := file.readline(_LONGEST_LINE)):
                pass
            yield number, _parsed(data[:-1]) if is_whole else Damage("it is cut off, or too long")


class ResultsFile:
    """The results of one bundle on one device, to go on with. What `add` returned from is there after a power failure.

    Attributes:
        replies: by item.
    """

    def __init__(self, path: Path, bundle: Bundle) -> None:
        """
        Raises:
            BundleResultsError: another process has it open, or it is another bundle's or another device's.
            OSError: it can't be read or written, or is a link.
        """
        self.replies: dict[str, Reply] = {}
        self._path = path
        self._bundle = bundle
        self._device: Capabilities | None = None
        self._file = open_own(path, os.O_RDWR | os.O_APPEND, 0o644)
        try:
            self._lock()
            self._cut_torn_line()
            self._read()
        except BaseException:
            self.close()
            raise

    def begin(self, device: Capabilities) -> None:
        """Note where the results that follow come from.

        Raises:
            BundleResultsError: those that are there come from another CPU.
        """
        if self._device and self._device.cpu != device.cpu:
            raise BundleResultsError(
                f"these results were begun on {self._device.cpu}, this device is {device.cpu}: {self._path}"
            )
        campaign = self._bundle.manifest.campaign
        self._write({"campaign": campaign, "device": capabilities_to_json(device)})

    def add(self, item: str, reply: Reply) -> None:
        """Raises: OSError: it could not be written; nothing of it is in the file."""
        self._write({"item": item, "reply": reply_to_json(reply)})
        self.replies[item] = reply

    def close(self) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BundleResultsError(f"another process measures this bundle: {self._path}") from error

    def _cut_torn_line(self) -> None:
        """What was being written when the machine stopped."""
        size_bytes = os.fstat(self._file).st_size
        if size_bytes > LARGEST_BYTES:
            raise BundleResultsError(f"results have at most {LARGEST_BYTES} bytes: {size_bytes}: {self._path}")
        os.ftruncate(self._file, self._path.read_bytes().rfind(b"\n") + 1)
        sync_folder(self._path.parent)

    def _read(self) -> None:
        requests = {item.id: item.request for item in self._bundle.manifest.items}
        for number, found in read_lines(self._path):
            if isinstance(found, Damage):
                continue  # what it said is measured again
            if found.bundle != self._bundle.id:
                raise BundleResultsError(f"{self._path}:{number}: results of another bundle: {found.bundle[:16]}")
            if isinstance(found, Began):
                self._device = found.capabilities
            elif found.item in requests:
                with contextlib.suppress(ProtocolError):
                    self.replies[found.item] = reply_from_json(found.reply, requests[found.item])

    def _write(self, value: Mapping[str, object]) -> None:
        text = json.dumps({"bundle": self._bundle.id, **value}, separators=(",", ":"), allow_nan=False).encode()
        end = os.fstat(self._file).st_size
        rest = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)
            error.filename = str(self._path)
            raise


def _parsed(data: bytes) -> Line:
    checksum, _, text = data.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return Damage("its checksum does not match")
    try:
        value = parse_json(text)
        kind = "item" if isinstance(value, dict) and "item" in value else "campaign"
        fields = Fields("", value, ("bundle", kind, "reply" if kind == "item" else "device"))
        bundle = fields.read("bundle", line)
        if not is_id(bundle):
            raise ProtocolError(f"no bundle's name: {bundle[:_SHOWN]!r}")
        if kind == "item":
            return Result(bundle, fields.read("item", line), fields.read("reply", lambda _, reply: reply))
        capabilities = fields.read("device", lambda _, device: capabilities_from_json(device))
        return Began(bundle, fields.read("campaign", line), capabilities)
    except (ValueError, ProtocolError) as error:
        return Damage(str(error)[:_SHOWN])

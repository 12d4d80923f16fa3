"""A disk whose power may fail after any event: what its files may be then."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.support.program.disk_events import DiskEvent

# A disk writes a sector whole or not at all.
SECTOR_BYTES = 512

Files = dict[str, bytes]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at a place; what lies between the end of the file and them is zeros."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        self.hole().apply(content)
        content[self.offset : self.offset + len(self.data)] = self.data

    def hole(self) -> Stretch:
        """What it does to the file's size."""
        return Stretch(self.offset + len(self.data))

    def sectors(self) -> Iterator[Write]:
        place = self.offset
        while (done := place - self.offset) < len(self.data):
            end = (place // SECTOR_BYTES + 1) * SECTOR_BYTES
            yield Write(place, self.data[done : done + end - place])
            place = end


@dataclass(frozen=True, slots=True)
class Stretch:
    """At least this size."""

    size_bytes: int

    def apply(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.size_bytes - len(content))))


@dataclass(frozen=True, slots=True)
class Cut:
    """Exactly this size."""

    size_bytes: int

    def apply(self, content: bytearray) -> None:
        del content[self.size_bytes :]
        Stretch(self.size_bytes).apply(content)


Change = Write | Stretch | Cut


@dataclass(eq=False, slots=True)
class _File:
    """A file without its name: what is on the disk, and what may be.

    Attributes:
        mapped: it is changed by memory, too, which nobody sees: nothing is known of its content.
    """

    synced: bytes = b""
    changes: list[Change] = field(default_factory=list)
    mapped: bool = False

    def sync(self) -> None:
        self.synced = self.with_changes(self.changes)
        self.changes = []

    def with_changes(self, changes: Sequence[Change]) -> bytes:
        if not changes:
            return self.synced
        content = bytearray(self.synced)
        for change in changes:
            change.apply(content)
        return bytes(content)


@dataclass(frozen=True, slots=True)
class _Rename:
    """A file has a name, or none, and its old name no more. Each is done whole, or not at all."""

    file: _File
    old: str
    new: str

    def apply(self, names: dict[str, _File]) -> None:
        if self.old and names.get(self.old) is self.file:
            del names[self.old]
        if self.new:
            names[self.new] = self.file


@dataclass(frozen=True, slots=True)
class Variant:
    """What a disk may have done of what nobody has waited for.

    Attributes:
        names, changes: what it did of the changes of the folder, and of those of a file.
    """

    name: str
    names: Callable[[Sequence[_Rename], random.Random], Sequence[_Rename]]
    changes: Callable[[Sequence[Change], random.Random], Sequence[Change]]


def _all(changes: Sequence[T], _dice: random.Random) -> Sequence[T]:
    return changes


def _none(_changes: Sequence[T], _dice: random.Random) -> Sequence[T]:
    return ()


def _some(changes: Sequence[T], dice: random.Random) -> Sequence[T]:
    share = dice.random()
    return [change for change in changes if dice.random() < share]


def _any_order(changes: Sequence[Change], dice: random.Random) -> Sequence[Change]:
    chosen = list(_some(changes, dice))
    dice.shuffle(chosen)
    return chosen


def _torn(changes: Sequence[Change], dice: random.Random) -> Sequence[Change]:
    """Some sectors of each write."""
    pieces: list[Change] = []
    for change in changes:
        pieces += change.sectors() if isinstance(change, Write) else [change]
    return _some(pieces, dice)


def _holes(changes: Sequence[Change], dice: random.Random) -> Sequence[Change]:
    """The size of the file, which is in the folder's journal, with some of its content."""
    share = dice.choice((0.0, 0.5))
    return [
        change.hole() if isinstance(change, Write) and dice.random() >= share else change
        for change in (changes if dice.random() < 0.75 else ())
    ]


WRITTEN = Variant("written", _all, _all)
VARIANTS = (
    Variant("synced", _none, _none),
    WRITTEN,
    Variant("some", _some, _any_order),
    Variant("torn", _some, _torn),
    Variant("holes", _all, _holes),
    Variant("nameless", _none, _all),
)


@dataclass(frozen=True, slots=True)
class CrashState:
    """What the next start may find.

    Attributes:
        event: how many events had happened.
        said: on standard output, until then.
        key: equal for files of equal names and contents, where the content matters.
    """

    event: int
    variant: str
    said: bytes
    files: Files
    key: bytes


class Disk:
    """One folder. A file's changes are there for good once it was synced, its name once the folder was."""

    def __init__(self, folder: Path, indifferent: tuple[str, ...] = ()) -> None:
        """A disk that has synced what is in the folder.

        Args:
            indifferent: endings of the names of files whose content matters to nobody.
        """
        self._indifferent = indifferent
        self._synced: dict[str, _File] = {}
        self._renames: list[_Rename] = []
        self._names: dict[str, _File] = {}
        self._by_inode: dict[int, _File] = {}
        for path in folder.iterdir():
            file = self._by_inode[path.stat().st_ino] = _File(path.read_bytes())
            self._synced[path.name] = self._names[path.name] = file

    def happen(self, event: DiskEvent) -> None:
        """Do what a program did."""
        if event.kind == "o":
            if not event.offset:
                self._rename(self._made(event.inode), "", event.name)
        elif event.kind == "r":
            self._rename(self._names[event.name], event.name, event.to)
        elif event.kind == "u":
            self._rename(self._names[event.name], event.name, "")
        elif event.kind == "d":
            self._synced, self._renames = dict(self._names), []
        elif event.kind != "s":
            self._change(self._by_inode[event.inode], event)

    def after_power_loss(self, variant: Variant, dice: random.Random) -> tuple[Files, bytes]:
        """The files that may be found, and the key of `CrashState`."""
        names = dict(self._synced)
        for rename in variant.names(self._renames, dice):
            rename.apply(names)
        files, digest = {}, hashlib.blake2b(digest_size=16)
        for name in sorted(names):
            content = names[name].with_changes(variant.changes(names[name].changes, dice))
            if names[name].mapped:
                content = dice.randbytes(len(content))
            files[name] = content
            matters = not names[name].mapped and not name.endswith(self._indifferent)
            digest.update(f"{name} {len(content)} ".encode() + content if matters else name.encode())
        return files, digest.digest()

    def _made(self, inode: int) -> _File:
        # The number of a file that is gone may be given again.
        file = self._by_inode[inode] = _File()
        return file

    def _rename(self, file: _File, old: str, new: str) -> None:
        self._renames.append(_Rename(file, old, new))
        self._renames[-1].apply(self._names)

    def _change(self, file: _File, event: DiskEvent) -> None:
        if event.kind == "f":
            file.sync()
        elif event.kind == "m":
            file.mapped = True
        else:
            file.changes.append(Write(event.offset, event.data) if event.kind == "w" else Cut(event.offset))


def crash_states(
    disk: Disk, events: Iterable[DiskEvent], variants: Sequence[Variant] = VARIANTS, draws: int = 1
) -> Iterator[CrashState]:
    """Each variant after each event, drawn so often; the same events give the same states."""
    said = b""
    for number, event in enumerate(events, 1):
        disk.happen(event)
        if event.kind == "s":
            said += event.data
        for variant, draw in itertools.product(variants, range(draws)):
            dice = random.Random(f"{number} {variant.name} {draw}")
            files, key = disk.after_power_loss(variant, dice)
            yield CrashState(number, variant.name, said, files, key)


def lay_out(files: Mapping[str, bytes], folder: Path) -> None:
    """Make a folder's files these."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)

"""Folders of limited size: archives cut into parts, a table with the sha256 of each, and programs that join them."""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 50 << 20
TABLE = "kit.json"
# xz's own: how hard it tries. Six takes minutes of a core for TVM's compiler, and saves a piece.
PRESETS = range(10)
USUAL_PRESET = 6
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Archive:
    """A compressed archive of a folder.

    Attributes:
        steps: that need it.
    """

    path: Path
    steps: tuple[int, ...]


def write_archive(folder: Path, path: Path, preset: int = USUAL_PRESET) -> None:
    """Pack a folder's content, always the same for the same content."""
    # Instructions of x86 in a form in which they repeat: a library is a tenth smaller.
    filters = ({"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": preset})
    with lzma.open(path, "wb", format=lzma.FORMAT_XZ, filters=filters) as stream:  # noqa: SIM117
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for file in sorted(folder.rglob("*")):
                archive.add(file, str(file.relative_to(folder)), recursive=False, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def write_pieces(
    archives: Sequence[Archive], programs: Sequence[Path], folder: Path, most_bytes: int = MOST_BYTES
) -> list[Path]:
    """Cut archives, in their order, into the folders `piece-1`, `piece-2`, ... Each of them has all programs.

    Raises:
        ValueError: the programs alone are as large as a piece may be.
    """
    table: dict[str, dict[str, Any]] = {}
    # Beside the programs, room for the table, which is known in the end.
    room = most_bytes - sum(path.stat().st_size for path in programs) - (64 << 10)
    if room <= 0:
        raise ValueError(f"the programs of a piece leave no room in {most_bytes:,} bytes")
    pieces, left = [_new_piece(folder, 1)], room
    for archive in archives:
        parts: list[dict[str, Any]] = []
        with archive.path.open("rb") as stream:
            while archive.path.stat().st_size > stream.tell():
                if left == 0:
                    pieces.append(_new_piece(folder, len(pieces) + 1))
                    left = room
                name = f"{archive.path.name}.{len(parts):02d}"
                size, digest = _copy(stream, pieces[-1] / name, left)
                parts.append({"name": name, "bytes": size, "sha256": digest, "piece": len(pieces)})
                left -= size
        table[archive.path.name] = {"steps": archive.steps, "sha256": sha256_of(archive.path), "parts": parts}
    for piece in pieces:
        (piece / TABLE).write_text(json.dumps(table, indent=1))
        for program in programs:
            shutil.copyfile(program, piece / program.name)
    return pieces


def pieces_of_step(table: Mapping[str, Mapping[str, Any]], step: int) -> list[int]:
    """The numbers of the pieces that a step needs."""
    needed = [archive for archive in table.values() if step in archive["steps"]]
    return sorted({part["piece"] for archive in needed for part in archive["parts"]})


def _new_piece(folder: Path, number: int) -> Path:
    piece = folder / f"piece-{number}"
    shutil.rmtree(piece, ignore_errors=True)
    piece.mkdir(parents=True)
    return piece


def _copy(stream: BinaryIO, to: Path, most_bytes: int) -> tuple[int, str]:
    """Copy so many bytes at most: how many, and their sha256."""
    digest, size = hashlib.sha256(), 0
    with to.open("wb") as written:
        while chunk := stream.read(min(_CHUNK, most_bytes - size)):
            digest.update(chunk)
            size += written.write(chunk)
    return size, digest.hexdigest()


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

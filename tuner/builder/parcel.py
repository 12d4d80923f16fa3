"""A build's result and its files as one value of bytes, as it travels from another machine.

Four bytes of length, big-endian, a JSON object, then the contents of the files that it lists. Files are named
`PLACE/NAME`; each end has a folder of its own for a place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from int8tune.results.bounded_json import parse_json
from int8tune.rpc.request import Case, Program
from int8tune.tuner.errors import ParcelError

Places = Mapping[str, Path]

_LENGTH = struct.Struct(">I")
_NAME = re.compile(r"([a-z]+)/([A-Za-z0-9_][A-Za-z0-9._-]*)")


def pack(said: Mapping[str, Any], places: Places, names: Iterable[str], known: Mapping[str, str]) -> bytes:
    """A parcel of a JSON object and files.

    Args:
        known: sha256 by name of the files that the other end has; those that are the same travel without content.
    """
    files: list[dict[str, Any]] = []
    contents: list[bytes] = []
    for name in names:
        content = path_of(name, places).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        files.append({"name": name, "sha256": digest, "size_bytes": len(content)})
        if known.get(name) == digest:
            files[-1]["size_bytes"] = None
        else:
            contents.append(content)
    header = json.dumps({"said": said, "files": files}).encode()
    return b"".join((_LENGTH.pack(len(header)), header, *contents))


def unpack(parcel: bytes, places: Places, known: Mapping[str, str]) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Write a parcel's files; its JSON object, and the sha256 of each file.

    Raises:
        ParcelError: it is cut or damaged, or a file's name or content is not what it must be. Nothing was written then.
    """
    try:
        (length,) = _LENGTH.unpack_from(parcel)
        start = _LENGTH.size + length
        header = parse_json(parcel[_LENGTH.size : start])
        said, files = header["said"], header["files"]
        digests: dict[str, str] = {file["name"]: file["sha256"] for file in files}
        sizes = [file["size_bytes"] for file in files]
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise ParcelError(f"a build's result is damaged: {error}") from error
    contents: dict[Path, bytes] = {}
    for (name, digest), size in zip(digests.items(), sizes, strict=True):
        if known.get(name, digest if size is not None else "") != digest:
            raise ParcelError(f"two workers made a shared file differently: {name[:80]}")
        if size is None:
            continue
        contents[path_of(name, places)] = content = parcel[start : start + size]
        start += size
        if hashlib.sha256(content).hexdigest() != digest:
            raise ParcelError(f"a build's file is not what was sent, its sha256 differs: {name[:80]}")
    for path, content in contents.items():
        _write(path, content)
    return said, digests


def path_of(name: str, places: Places) -> Path:
    """Where a file is at this end.

    Raises:
        ParcelError: the name is no `PLACE/NAME` of a place that is there.
    """
    match = _NAME.fullmatch(name)
    if not match or match[1] not in places:
        raise ParcelError(f"a build's file has a name that is not allowed: {name[:80]!r}")
    return places[match[1]] / match[2]


def name_of(path: str, places: Places) -> str:
    """The name of a file at this end."""
    place = next(place for place, folder in places.items() if Path(path).parent == folder)
    return f"{place}/{Path(path).name}"


def files_of(program: Program) -> list[str]:
    """A program's files, each once."""
    cases = [file for case in program.cases for file in (*case.inputs, case.expected)]
    return list(dict.fromkeys([program.library, *cases]))


def moved(program: Program, place: Callable[[str], str]) -> Program:
    """The program with another name or path for each of its files."""
    cases = tuple(Case(tuple(map(place, case.inputs)), place(case.expected)) for case in program.cases)
    return replace(program, library=place(program.library), cases=cases)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{uuid.uuid4().hex}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)  # noqa: PTH105

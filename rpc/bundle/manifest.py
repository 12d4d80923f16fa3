"""What a bundle holds: a manifest in JSON, whose sha256 is the bundle's name everywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from int8tune.results.bounded_json import parse_json
from int8tune.rpc.agent.runtime_files import names_of
from int8tune.rpc.errors import BundleError, ProtocolError
from int8tune.rpc.inventory.boards import ARCHITECTURES
from int8tune.rpc.protocol import program_from_json, request_from_json, request_to_json
from int8tune.rpc.request import Case, Program, Request
from int8tune.rpc.wire.fields import Fields, Reader, integer, line, many, table, text

FORMAT = 1
MANIFEST = "manifest.json"
LONGEST_BYTES = 32 << 20
KINDS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("agent", *names_of(has_gpu=False)),
    "gpu": ("agent", *names_of(has_gpu=True)),
}
"""Kinds of devices, each with what its bundles carry beside candidates and the runner."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"(?!.*(^|/)\.\.?(/|$))[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,3}")
_LARGEST_FILE = 1 << 32
_LARGEST_BUNDLE = 1 << 34
_MOST_FILES = 100_000
_MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Item:
    """One session: a candidate, a layer's duels or the device's own peak loop.

    Attributes:
        id: names it in the results.
        label: of the layer, for people.
        candidates: what is measured, in the order of the request's programs: template, config and the like.
        request: its files are named as they are in the bundle.
    """

    id: str
    label: str
    candidates: tuple[Mapping[str, Any], ...]
    request: Request


@dataclass(frozen=True, slots=True)
class File:
    """One of a bundle's files."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says of itself.

    Attributes:
        kind: of device, one of `KINDS`.
        version: of the program that made it.
        started_at: when the campaign was.
        device: what records call it.
        needs: CPU features that the candidates' code uses, by the names that Linux gives them.
        suite: what the cases were made by, and from which seed.
        canary: the peak loop, whose values and time say whether the device is well.
        agent: the name of what sessions run in.
        files: all others of the archive.
    """

    kind: str
    version: str
    campaign: str
    started_at: str
    device: str
    target: str
    architecture: str
    needs: frozenset[str]
    threads: int
    suite: str
    canary: Program
    agent: str
    items: tuple[Item, ...]
    files: Mapping[str, File]


def manifest_to_json(manifest: Manifest) -> bytes:
    """The manifest as it is kept: the same bytes for the same content."""
    values = {
        "format": FORMAT,
        **{field.name: getattr(manifest, field.name) for field in dataclasses.fields(Manifest)},
        "needs": sorted(manifest.needs),
        "canary": dataclasses.asdict(manifest.canary),
        "items": [
            {"id": i.id, "label": i.label, "candidates": i.candidates, "request": request_to_json(i.request)}
            for i in manifest.items
        ],
        "files": {name: dataclasses.asdict(file) for name, file in manifest.files.items()},
    }
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def manifest_from_json(content: bytes) -> Manifest:
    """Raises: BundleError: it is none, or of another version."""
    try:
        value = parse_json(content, most_bytes=LONGEST_BYTES)
        if isinstance(value, dict) and value.get("format") != FORMAT:
            raise BundleError(
                f"a bundle of another version, format {FORMAT} is known here: {value.get('format')!r:.20}"
            )
        manifest = _read(value)
        _check_names(manifest)
    except (ValueError, ProtocolError) as error:
        raise BundleError(f"the bundle's manifest can't be read: {error}") from error
    return manifest


def id_of(manifest: bytes) -> str:
    """The bundle's name: the sha256 of its manifest."""
    return hashlib.sha256(manifest).hexdigest()


def is_id(value: object) -> bool:
    """Whether this may be a bundle's name."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def programs_of(manifest: Manifest) -> Iterator[Program]:
    """All programs; those of several items several times."""
    yield manifest.canary
    for item in manifest.items:
        yield from item.request.programs
        if item.request.probe:
            yield item.request.probe


def files_of(programs: Sequence[Program]) -> Iterator[str]:
    """The files of programs; those of several programs several times."""
    for program in programs:
        yield program.library
        for case in program.cases:
            yield from (*case.inputs, case.expected)


def located(program: Program, folder: Path) -> Program:
    """The program with its files in this folder."""
    cases = tuple(
        Case(tuple(str(folder / name) for name in case.inputs), str(folder / case.expected)) for case in program.cases
    )
    return dataclasses.replace(program, library=str(folder / program.library), cases=cases)


def located_request(request: Request, folder: Path) -> Request:
    """The request with its files in this folder."""
    programs = tuple(located(program, folder) for program in request.programs)
    probe = located(request.probe, folder) if request.probe else None
    return dataclasses.replace(request, programs=programs, probe=probe)


def _read(value: object) -> Manifest:
    fields = Fields("", value, ("format", *(field.name for field in dataclasses.fields(Manifest))))
    return Manifest(
        kind=fields.read("kind", _one_of(tuple(KINDS))),
        version=fields.read("version", line),
        campaign=fields.read("campaign", line),
        started_at=fields.read("started_at", line),
        device=fields.read("device", line),
        target=fields.read("target", line),
        architecture=fields.read("architecture", _one_of(ARCHITECTURES)),
        needs=frozenset(fields.read("needs", many(line))),
        threads=fields.read("threads", integer(1, _MOST_THREADS)),
        suite=fields.read("suite", line),
        canary=fields.read("canary", program_from_json),
        agent=fields.read("agent", line),
        items=fields.read("items", many(_item)),
        files=fields.read("files", table(_file)),
    )


def _item(place: str, value: object) -> Item:
    fields = Fields(place, value, ("id", "label", "candidates", "request"))
    return Item(
        id=fields.read("id", line),
        label=fields.read("label", line),
        candidates=fields.read("candidates", many(_candidate)),
        request=fields.read("request", lambda _, value: request_from_json(value)),
    )


def _candidate(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"field `{place}` must be an object")
    return value


def _file(place: str, value: object) -> File:
    fields = Fields(place, value, ("size_bytes", "sha256"))
    return File(fields.read("size_bytes", integer(0, _LARGEST_FILE)), fields.read("sha256", _digest))


def _digest(place: str, value: object) -> str:
    if not is_id(value):
        raise ProtocolError(f"field `{place}` must be a sha256: {value!r:.60}")
    return text(place, value)


def _one_of(known: Sequence[str]) -> Reader[str]:
    def read(place: str, value: object) -> str:
        if value not in known:
            raise ProtocolError(f"field `{place}` must be one of {', '.join(known)}: {value!r:.60}")
        return str(value)

    return read


def _check_names(manifest: Manifest) -> None:
    """Raises: ProtocolError: a file that is used is not there, or a name leads elsewhere."""
    size_bytes = sum(file.size_bytes for file in manifest.files.values())
    if len(manifest.files) > _MOST_FILES or size_bytes > _LARGEST_BUNDLE:
        most = f"{_MOST_FILES} files with {_LARGEST_BUNDLE} bytes"
        raise ProtocolError(f"a bundle must have at most {most}: {len(manifest.files)} with {size_bytes}")
    for name in manifest.files:
        if not _NAME.fullmatch(name):
            raise ProtocolError(f"no name of a file: {name!r:.60}")
    ids = [item.id for item in manifest.items]
    if len(set(ids)) < len(ids):
        raise ProtocolError("two items have the same id")
    for name in files_of(list(programs_of(manifest))):
        if name not in manifest.files:
            raise ProtocolError(f"a file of a program is not in the bundle: {name!r:.60}")

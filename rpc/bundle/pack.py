"""Makes a bundle's file. The same content gives the same file."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from int8tune.results.atomic import replacement
from int8tune.rpc.agent.build import Bundle as AgentBundle
from int8tune.rpc.bundle.archive import AGENT_FOLDER, FILES_FOLDER
from int8tune.rpc.bundle.carried import carried_code
from int8tune.rpc.bundle.manifest import KINDS, MANIFEST, File, Manifest, id_of, manifest_to_json
from int8tune.rpc.request import Case, Program, Request

_FIRST_LINE = b"#!/usr/bin/env python3\n"
# The oldest moment that a zip archive can name: it is no secret when a file was made, but it would make others of it.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_DIGITS = 24


class Packer:
    """Gathers programs, whose own files may then go: each content is kept once, named by its sha256."""

    def __init__(self, folder: Path, agent: AgentBundle, kind: str = "cpu") -> None:
        """
        Args:
            folder: an empty one, for as long as this is used.
            agent: what the device needs.
            kind: of device, one of `rpc.bundle.manifest.KINDS`.
        """
        self._folder = folder
        self._agent = agent
        self._kind = kind
        self._files: dict[str, File] = {}
        self._known: dict[tuple[str, int, int], str] = {}

    def program(self, program: Program) -> Program:
        """Take in a program; the same with the names that its files have in the bundle.

        Raises:
            OSError: a file can't be read, or kept.
        """
        cases = tuple(Case(tuple(map(self._keep, case.inputs)), self._keep(case.expected)) for case in program.cases)
        return dataclasses.replace(program, library=self._keep(program.library), cases=cases)

    def request(self, request: Request) -> Request:
        """The same of all programs of a request."""
        programs = tuple(map(self.program, request.programs))
        return dataclasses.replace(
            request, programs=programs, probe=self.program(request.probe) if request.probe else None
        )

    def finish(self, manifest: Manifest) -> bytes:
        """The manifest as it is written: the kind, the agent's name, and the names and digests of all files are set."""
        files = {**self._files, **{name: _file(content) for name, content in carried_code().items()}}
        files |= {name: _file(source.read_bytes()) for name, source in self._agent_files().items()}
        whole = dataclasses.replace(manifest, kind=self._kind, agent=self._agent.name, files=files)
        return manifest_to_json(whole)

    def write(self, path: Path, manifest: bytes) -> None:
        """Write the bundle of what `finish` gave, whole or not at all.

        Raises:
            OSError: it can't be written.
        """
        contents: dict[str, bytes | Path] = {**carried_code(), MANIFEST: manifest, **self._agent_files()}
        contents |= {name: self._folder / name for name in self._files}
        with replacement(path) as file:
            _write_archive(file, manifest, contents)
            os.fchmod(file.fileno(), 0o755)

    def _agent_files(self) -> dict[str, Path]:
        return {f"{AGENT_FOLDER}/{name}": self._agent.folder / name for name in KINDS[self._kind]}

    def _keep(self, source: str) -> str:
        """Keep a file, unless its content is there; its name."""
        status = Path(source).stat()
        key = (source, status.st_ino, status.st_mtime_ns)
        if key not in self._known:
            content = Path(source).read_bytes()
            kept = _file(content)
            name = f"{FILES_FOLDER}/{kept.sha256[:_DIGITS]}{Path(source).suffix}"
            if name not in self._files:
                self._files[name] = kept
                (self._folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(source, self._folder / name)
            self._known[key] = name
        return self._known[key]


def _file(content: bytes) -> File:
    return File(len(content), hashlib.sha256(content).hexdigest())


def _write_archive(file: IO[bytes], manifest: bytes, contents: Mapping[str, bytes | Path]) -> None:
    file.write(_FIRST_LINE)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = id_of(manifest).encode()
        for name, content in sorted(contents.items()):
            info = zipfile.ZipInfo(name, _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content if isinstance(content, bytes) else content.read_bytes())

"""Boards for the tests: an agent's folder on this machine, and a real sshd on loopback in front of such folders."""

from __future__ import annotations

import functools
import platform
import shutil
from pathlib import Path

import pytest

from rpc.agent_bundle import Bundle, compilers, launcher, make_bundle
from rpc.errors import ProvisionError
from rpc.inventory import Board, Limits, TransportKind

CACHE = Path(__file__).resolve().parent.parent / ".pytest_cache" / "int8tune"
LIMITS = Limits(connect_s=10.0, transfer_s=10.0, memory_bytes=1 << 30)


def board(name: str = "here") -> Board:
    return Board(name=name, transport=TransportKind.SSH, address="127.0.0.1", limits=LIMITS)


@functools.cache
def bundle_for(architecture: str) -> Bundle:
    """Made once for all runs; skips the test where no compiler of this machine makes such code."""
    try:
        command = compilers(architecture)[0]
    except ProvisionError as error:
        pytest.skip(str(error))
    return make_bundle(architecture, CACHE, command)


def install(folder: Path) -> Path:
    """An agent's folder of this machine, without SSH; what starts it."""
    bundle = bundle_for(platform.machine())
    folder.mkdir()
    for file in bundle.files:
        shutil.copy(bundle.folder / file, folder / file)
    (folder / "agent").chmod(0o700)
    (folder / "bundle").write_text(bundle.name + "\n")
    (folder / "run").write_text(launcher())
    (folder / "run").chmod(0o700)
    return folder / "run"

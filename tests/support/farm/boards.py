"""Boards for the tests: an agent's folder on this machine, and a real sshd on loopback in front of such folders."""

from __future__ import annotations

import contextlib
import functools
import platform
import shutil
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from int8tune.rpc.agent.build import MARK, Bundle, compilers, make_bundle
from int8tune.rpc.board.local_agent import install_agent
from int8tune.rpc.errors import ProvisionError
from int8tune.rpc.inventory.boards import Board, Limits, TimingKind, TransportKind
from tests.sshd import Sshd
from tests.support.places import ROOT

CACHE = ROOT / ".pytest_cache" / "int8tune"
LIMITS = Limits(connect_s=10.0, transfer_s=10.0, memory_bytes=1 << 30)

AT_ANY_SPEED = "canary_tolerance = 100\n"
"""A line for a board in an inventory where times do not matter: other tests, and other machines, slow it down."""

A53 = ("qemu-aarch64-static", "-cpu", "cortex-a53", "-L", "/usr/aarch64-linux-gnu")
CROSS_COMPILER = "aarch64-linux-gnu-gcc"


def board(name: str = "here") -> Board:
    return Board(name=name, transport=TransportKind.SSH, address="127.0.0.1", limits=LIMITS)


def board_behind(sshd: Sshd, name: str, folder: Path) -> Board:
    """A board of this machine's own kind."""
    return replace(
        board(name),
        port=sshd.port,
        user=sshd.user,
        key_file=sshd.user_key,
        host_key=sshd.host_key,
        folder=str(folder),
    )


def a53_behind(sshd: Sshd, folder: Path) -> Board:
    """A Cortex-A53, as QEMU's user mode has it; its times are no measurements."""
    plain = board_behind(sshd, "a53", folder)
    return replace(plain, emulator=A53, architecture="aarch64", timing=TimingKind.NONE)


def why_no_a53() -> str:
    """Why there is none here; empty if there is one."""
    missing = [name for name in (A53[0], CROSS_COMPILER) if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


def marked(folder: str) -> list[psutil.Process]:
    """All processes that agents of a folder started, wherever they hang in the tree."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get(MARK) == folder:
                found.append(process)
    return found


def listeners(folder: str) -> list[str]:
    """What listens on a port, of what this process has started, and the agents of a folder; no server of tests is."""
    found = []
    for process in (*psutil.Process().children(recursive=True), *marked(folder)):
        with contextlib.suppress(psutil.NoSuchProcess):
            if not process.name().startswith(("sshd", "postgres")):
                ports = process.net_connections("inet")
                found += [f"{process.name()} {port.laddr}" for port in ports if port.status in ("LISTEN", "NONE")]
    return found


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
    return install_agent(folder, bundle_for(platform.machine()))

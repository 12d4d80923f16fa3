"""Bundles for the tests: kernels of `rpc_kernels` packed by hand, and a Python that has no packages to run them."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from int8tune.rpc.agent.build import Bundle as AgentBundle
from int8tune.rpc.bundle.archive import Bundle, open_bundle
from int8tune.rpc.bundle.manifest import Item, Manifest
from int8tune.rpc.bundle.pack import Packer
from tests.support.farm.boards import bundle_for
from tests.support.kernels.rpc_kernels import BRIEF, Kernels
from tests.support.program.cli_program import Ended

LIMIT_S = 60.0
AT_ANY_SPEED = ("--canary-tolerance", "100")
"""As boards.AT_ANY_SPEED."""


def pack(
    path: Path,
    kernels: Kernels,
    items: Mapping[str, Sequence[str]],
    *,
    needs: Sequence[str] = (),
    architecture: str = "",
    canary: str = "good",
    run_limit_s: float = 2.0,
    campaign: str = "small",
    agent: AgentBundle | None = None,
) -> Bundle:
    """A bundle of kernels by their entries, for this machine."""
    folder = path.parent / f"{path.stem}.staging"
    folder.mkdir()
    packer = Packer(folder, agent or bundle_for(architecture or platform.machine()))
    requests = {
        name: packer.request(kernels.request(*entries, run_limit_s=run_limit_s, probe="takes_a_while", timing=BRIEF))
        for name, entries in items.items()
    }
    manifest = Manifest(
        kind="cpu",
        version="0",
        campaign=campaign,
        started_at="2026-01-01T00:00:00+00:00",
        device="node",
        target="any",
        architecture=architecture or platform.machine(),
        needs=frozenset(needs),
        threads=1,
        suite="none",
        canary=packer.program(kernels.program(canary)),
        agent="",
        items=tuple(Item(name, f"layer of {name}", ({"entry": name},), request) for name, request in requests.items()),
        files={},
    )
    packer.write(path, packer.finish(manifest))
    return open_bundle(path)


@functools.cache
def bare_python(folder: Path) -> Path:
    """A Python with the standard library alone, by its own environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True, timeout=LIMIT_S)
    return folder / "bare" / "bin" / "python"


def run(python: Path, bundle: Path, *arguments: object) -> Ended:
    """Run a bundle to its end, as on a device: nothing of this project is in reach."""
    done = subprocess.run(
        [python, "-I", bundle, *AT_ANY_SPEED, *map(str, arguments)],
        capture_output=True,
        timeout=LIMIT_S,
        cwd="/",
        env=bare(),
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def start(
    python: Path,
    bundle: Path,
    *arguments: object,
    stderr: int | IO[bytes] = subprocess.PIPE,
    speed: Sequence[str] = AT_ANY_SPEED,
) -> subprocess.Popen[bytes]:
    """Start a bundle."""
    command = [str(python), "-I", str(bundle), *speed, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd="/", env=bare())


def bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TVM", "VIRTUAL"))}

"""The linker ends with the process that started it, however that is arranged."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.program.waiting import wait_until

LINK = """
from pathlib import Path
from int8tune.compiler.toolchain.linker import link_objects
link_objects(Path("out.so"), [Path("in.o")])
"""
SLEEPS, FAILS = "exec sleep 300", "echo some words >&2; echo the last line >&2; exit 3"


@pytest.fixture(params=["setpriv", "another setpriv", "no setpriv"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder of programs: all that a PATH with it has."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "sleep", "true", *["setpriv"] * (request.param == "setpriv")):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"not installed: {name}")
        (folder / name).symlink_to(found)
    if request.param == "another setpriv":
        write_program(folder / "setpriv", "echo unrecognized option >&2; exit 1")
    return folder


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def linking(tools: Path, linker: str) -> subprocess.Popen[str]:
    write_program(tools / "ld", linker)
    (tools.parent / "in.o").write_bytes(bytes(64))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", LINK],
        cwd=tools.parent,
        env={**os.environ, "PATH": str(tools)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_linker_ends_with_the_process_that_started_it(tools: Path) -> None:
    with linking(tools, SLEEPS) as build:
        started = psutil.Process(build.pid)
        wait_until(lambda: [each.name() for each in started.children()] == ["sleep"], limit_s=60.0)
        (linker,) = started.children()
        build.kill()
        try:
            wait_until(lambda: not linker.is_running() or linker.status() == psutil.STATUS_ZOMBIE, limit_s=10.0)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                linker.kill()


def test_what_a_linker_says_last_is_the_error(tools: Path) -> None:
    with linking(tools, FAILS) as build:
        _, said = build.communicate(timeout=30)
    assert said.splitlines()[-1] == "RuntimeError: the linker failed: the last line"

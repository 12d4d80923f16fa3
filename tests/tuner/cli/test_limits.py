"""A machine that gives too little, open files, addresses, room or names: one line says so, and how much is needed."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.process.limits import LEAST_ADDRESS_BYTES, LEAST_OPEN_FILES
from int8tune.schedules.target import Target
from int8tune.tuner.builder.job import Job
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import measuring_and_build_cores
from tests.support.program.build_processes import build_server
from tests.support.program.campaigns import SMALL
from tests.support.program.cli_program import LIMIT_S, Ended, command, write_table
from tests.support.program.mounts import mounted

pytestmark = pytest.mark.promise(15)

SOFT_LIMIT_RAISED = """
import resource
from int8tune.rpc.process.limits import require_limits
require_limits()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "small.json")


def limited(arguments: list[object], limit: int, value: int) -> Ended:
    """Run the program to its end under a limit, soft and hard."""
    process = subprocess.Popen(
        ["bash", "-c", 'read -r _ && exec "$@"', "shell", *command(*arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    resource.prlimit(process.pid, limit, (value, value))
    out, err = process.communicate(b"go\n", timeout=LIMIT_S)
    return Ended(process.returncode, out.decode(), err.decode())


def assert_one_line(ended: Ended, message: str) -> None:
    lines = [line for line in ended.err.splitlines() if not line.startswith("measuring, ")]
    assert (ended.code, len(lines)) == (1, 2), ended.err
    assert re.fullmatch(f"error: {message}", lines[0]), lines[0]
    assert lines[1].startswith("hint: ")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        (resource.RLIMIT_NOFILE, 64, rf"the limit on open files \(ulimit -n\) must be at least {LEAST_OPEN_FILES}: 64"),
        (
            resource.RLIMIT_AS,
            2 << 30,
            rf"the limit on addresses \(ulimit -v\) must be at least {LEAST_ADDRESS_BYTES >> 10} KiB: 2097152",
        ),
    ],
    ids=["open files", "addresses"],
)
@pytest.mark.parametrize("words", [["tune", "small.json"], ["devices", "check"]], ids=["tune", "check"])
def test_a_limit_that_is_too_low(
    table: Path, monkeypatch: pytest.MonkeyPatch, words: list[object], limit: int, value: int, message: str
) -> None:
    monkeypatch.chdir(table.parent)
    assert_one_line(limited(words, limit, value), message)


def test_a_limit_that_may_be_raised_is() -> None:
    process = subprocess.run(
        ["bash", "-c", 'ulimit -Sn 64 && exec "$@"', "shell", sys.executable, "-c", SOFT_LIMIT_RAISED],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert int(process.stdout) == LEAST_OPEN_FILES


def test_builds_keep_to_a_lower_limit_on_addresses(generic: Target, tmp_path: Path) -> None:
    """It is no reason for all of them to fail."""
    measuring, building = measuring_and_build_cores()
    with BuildPool(building, measuring[-1], tmp_path / "log") as pool:
        build_server().rlimit(psutil.RLIMIT_AS, (LEAST_ADDRESS_BYTES, LEAST_ADDRESS_BYTES))
        pool.submit(Job("1", generic, str(tmp_path / "1"), LIMIT_S, SMALL, suite=str(tmp_path / "suite")))
        (built,) = pool.collect(LIMIT_S)
    assert built.outcome is Outcome.OK, built.error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=16m", "tmpfs") as disk:
        yield disk


@pytest.mark.thorough
def test_too_little_room_is_said_before_anything_is_measured(table: Path, small_disk: Path) -> None:
    ended = limited(["tune", table, "--results", small_disk / "results"], resource.RLIMIT_CORE, 0)
    message = rf"no space left on device: a campaign needs 32 MiB, there are 1[56] MiB at {small_disk}/results/.*"
    assert_one_line(ended, message)
    assert not (small_disk / "results" / ".work").exists()


@pytest.mark.thorough
def test_a_folder_whose_name_is_no_utf8(table: Path, tmp_path: Path) -> None:
    results = os.fsencode(tmp_path) + b"/r\xff"
    ended = limited(["tune", table, "--results", os.fsdecode(results)], resource.RLIMIT_CORE, 0)
    assert_one_line(ended, r"a results folder's path must be UTF-8, in a locale of UTF-8: b'/.*/r\\xff'")
    assert not Path(os.fsdecode(results)).exists()

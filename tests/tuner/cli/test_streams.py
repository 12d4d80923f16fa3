"""A program whose standard streams are closed, full, or gone: what it records and says does not depend on them."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.support.program.cli_program import (
    CONV,
    LIMIT_S,
    Ended,
    command,
    count_trials,
    end,
    int8tune,
    start,
    wait_for_trials,
    write_table,
)
from tests.support.run.thinned import one_in

pytestmark = [pytest.mark.alone, pytest.mark.promise(20)]

TRIALS = 2
BEFORE = 2
HAS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
# What a shell makes of its command's streams, and whether its results are still to be seen on stdout.
STREAMS = {
    "reader of the progress is gone": ("2> >(head -c 1 >&-)", True),
    "all are closed": ("<&- >&- 2>&-", False),
    "reader of the results is gone": ("> >(true)", False),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "small.json", [{"name": "a", "count": 1, "workload": CONV}])


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder in which the device was checked before, which saves each campaign some seconds."""
    folder = tmp_path_factory.mktemp("checked")
    ended = int8tune(*tune(write_table(folder / "small.json"), folder / "results", 1), "--name", "before")
    assert ended.code == 0, ended.err
    return folder / "results"


@pytest.fixture
def results(checked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checked, tmp_path / "results"))


def tune(table: Path, results: Path, trials: int = TRIALS) -> list[object]:
    return ["tune", table, "--results", results, "--trials", trials, "--strategy", "random"]


def in_shell(arguments: list[object], redirections: str) -> Ended:
    """Run the program to its end with its streams as a shell makes them."""
    script = f'"$@" {redirections}'
    done = subprocess.run(
        ["bash", "-c", script, "shell", *command(*arguments)], capture_output=True, timeout=LIMIT_S, check=False
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.thorough
@pytest.mark.parametrize("streams", one_in(3, STREAMS))
def test_a_campaign_does_without_its_streams(table: Path, results: Path, streams: str) -> None:
    redirections, shows = STREAMS[streams]
    ended = in_shell(tune(table, results), redirections)
    assert (ended.code, ended.errors) == (0, [])
    assert count_trials(results) == BEFORE + TRIALS
    assert ended.out.startswith("small on local (") is shows
    assert (results / "small.best.jsonl").exists()


@HAS_FULL
@pytest.mark.thorough
def test_progress_on_a_full_disk_is_dropped(table: Path, results: Path) -> None:
    ended = in_shell(tune(table, results), "2> /dev/full")
    assert ended.code == 0
    assert ended.out.startswith("small on local (")
    assert count_trials(results) == BEFORE + TRIALS


@HAS_FULL
@pytest.mark.parametrize("arguments", [["--help"], ["templates", "list"]])
def test_data_on_a_full_disk_is_one_line(arguments: list[object]) -> None:
    ended = in_shell(arguments, "> /dev/full")
    assert (ended.code, ended.errors) == (1, ["error: no space left on device"])
    assert len(ended.err.splitlines()) == 2


@HAS_FULL
@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-"])
def test_an_error_that_nobody_can_read_has_its_exit_code(redirection: str) -> None:
    assert in_shell(["tune", "--tirals"], redirection) == Ended(2, "", "")


@pytest.mark.thorough
def test_a_hangup_is_a_clean_end(table: Path, results: Path) -> None:
    process = start(*tune(table, results, 500))
    wait_for_trials(results, BEFORE + 2)
    stopped = end(process, signal.SIGHUP, limit_s=10)
    assert stopped.code == 130
    assert "interrupted; to go on: int8tune tune" in stopped.err
    assert not (results / ".work").exists()


@pytest.mark.thorough
def test_a_hangup_that_is_ignored_stays_so(table: Path, results: Path) -> None:
    """As nohup has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start(*tune(table, results, 8))
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for_trials(results, BEFORE + 1)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert count_trials(results) == BEFORE + 8


@pytest.mark.thorough
def test_a_terminal_that_is_closed_is_a_clean_end(table: Path, results: Path) -> None:
    """Nothing can be written to it any more, and the hangup may come twice."""
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*tune(table, results, 500)), preexec_fn=lambda: os.login_tty(theirs), pass_fds=[theirs]
    )
    os.close(theirs)
    os.set_blocking(terminal, False)
    deadline = time.monotonic() + LIMIT_S
    while count_trials(results) < BEFORE + 2 and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            while os.read(terminal, 1 << 16):
                pass
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    try:
        assert process.wait(10) == 130
    finally:
        process.kill()
    assert psutil.wait_procs(family, timeout=3)[1] == []
    recorded = count_trials(results) - BEFORE
    assert recorded >= 2
    assert not (results / ".work").exists()
    assert (results / "small.best.jsonl").exists()
    assert f"going on: {recorded} trials" in int8tune(*tune(table, results, recorded + 1)).err
    assert count_trials(results) == BEFORE + recorded + 1

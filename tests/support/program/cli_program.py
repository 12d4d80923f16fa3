"""The program itself, started as a person starts it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from int8tune.tuner.cli.program import run
from tests.support.run.started import note_started

CONV = "conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8"
DEPTHWISE = "dwconv2d-u8s8-1x9x9x32-k3x3x1-s1-p1-float.c-u8"
LIMIT_S = 60.0
START_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, with its output as text."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """Lines of stderr that say what went wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "int8tune", *map(str, arguments)]


def int8tune(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: int | IO[str] = subprocess.PIPE,
    limit_s: float = LIMIT_S,
) -> Ended:
    """Run the program to its end."""
    done = subprocess.run(
        command(*arguments),
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=limit_s,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        check=False,
    )
    return Ended(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())


def in_process(*arguments: object) -> Ended:
    """Run the program to its end without a process of its own, where what it says is all that matters."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run([str(argument) for argument in arguments])
    return Ended(code, out.getvalue(), err.getvalue())


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start the program; `end` takes its output."""
    return note_started(subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE))


def end(process: subprocess.Popen[bytes], *signals: signal.Signals, limit_s: float) -> Ended:
    """Send signals, and expect that the program and all its children end within `limit_s`."""
    family = _children(process)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    try:
        out, err = process.communicate(timeout=limit_s)
    finally:
        process.kill()
    _, alive = psutil.wait_procs(family, timeout=3)
    assert alive == []
    return Ended(process.returncode, out.decode(), err.decode())


def _children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Processes that a running program has started; waits for one, because between two steps there is none."""
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        if family := psutil.Process(process.pid).children(recursive=True):
            return family
        time.sleep(0.002)
    raise AssertionError(f"no child was seen in {START_LIMIT_S:.0f} s; the program's exit code is {process.poll()}")


def write_table(path: Path, layers: Sequence[Mapping[str, object]] | None = None, name: str = "small") -> Path:
    """Write a layer table of two small layers, or of those given."""
    if layers is None:
        layers = [{"name": "a", "count": 1, "workload": CONV}, {"name": "b", "count": 2, "workload": DEPTHWISE}]
    table = {"format": 1, "name": name, "description": "for tests", "input": "1x8x8x16", "layers": layers}
    path.write_text(json.dumps(table))
    return path


def tune_on_boards(inventory: Path, folder: Path, devices: str, trials: int, *options: object) -> Ended:
    """Tune two small layers, with `folder / "results"` for what comes of it."""
    where = ("--inventory", inventory, "--results", folder / "results", "--devices", devices)
    table = write_table(folder / "small.json")
    return int8tune("tune", table, "--strategy", "random", "--trials", trials, *where, *options)


def wait_for_trials(results: Path, count: int, limit_s: float = 90.0) -> None:
    """Wait until a campaign that runs has recorded so many trials."""
    deadline = time.monotonic() + limit_s
    while count_trials(results) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def count_trials(results: Path) -> int:
    try:
        connection = sqlite3.connect(f"file:{results / 'records.db'}?mode=ro", uri=True)
        try:
            return int(connection.execute("SELECT count(*) FROM trials").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.OperationalError:  # not there yet
        return 0

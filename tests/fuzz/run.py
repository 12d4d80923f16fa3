"""Changes files, has them read by a process of its own, and says what came of it."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.fuzz.kinds import KINDS
from tests.support.places import PYTHON_PATH

# Of a processor; a busy neighbour takes none of it.
LIMIT_S = 10.0
# A child that waits for something which never comes.
SILENCE_S = 120.0
START_S = 120.0


@dataclass(slots=True)
class Outcomes:
    """What came of the files of a kind.

    Attributes:
        failures: seeds that did not end as they must, each with what happened.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)


class Reader:
    """A process that reads files of a kind; another one after each that hangs or dies."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._process: subprocess.Popen[str] | None = None

    def read(self, folder: Path) -> tuple[str, str]:
        """How reading a folder ended, and more about that."""
        process = self._process = self._process or self._start()
        assert process.stdin
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
        line = self._line(process, LIMIT_S, SILENCE_S)
        if line:
            answer = json.loads(line)
            return answer["outcome"], answer["what"]
        ended = process.poll()
        self.close()
        return ("hang", f"over {LIMIT_S:g} s") if ended is None else ("crash", f"exit code {ended}")

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.fuzz.child", self._kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )
        if self._line(process, START_S, 2 * START_S) != "ready":
            process.kill()
            process.communicate()
            raise RuntimeError(f"the reader of `{self._kind}` did not start: python -m tests.fuzz.child {self._kind}")
        return process

    def _line(self, process: subprocess.Popen[str], limit_s: float, silence_s: float) -> str:
        """What it says next; nothing where it ends, or takes too long."""
        assert process.stdout
        began, used_s = time.monotonic(), _used_s(process.pid)
        while not select.select([process.stdout], [], [], 0.2)[0]:
            if _used_s(process.pid) - used_s > limit_s or time.monotonic() - began > silence_s:
                return ""
        line = process.stdout.readline().strip()
        if not line:
            process.wait(SILENCE_S)
        return line


def change(kind: str, seed: int, sample: Path, folder: Path) -> None:
    """Make a folder with what a seed makes of a sample."""
    rng = random.Random(f"{kind}-{seed}")
    shutil.copytree(sample, folder)
    pattern = rng.choice(list(KINDS[kind].mutations))
    path = rng.choice(sorted(folder.glob(pattern)))
    data = path.read_bytes()
    mutation = rng.choice(KINDS[kind].mutations[pattern])
    try:
        path.write_bytes(mutation(data, rng))
    except (KeyError, IndexError, TypeError, ValueError):
        path.write_bytes(data[: rng.randrange(len(data))])  # nothing there that could be changed so


def fuzz(kind: str, seeds: range, until: float, kept: Path | None = None) -> Outcomes:
    """Read what the seeds make until a moment of `time.monotonic`; what fails is kept in a folder."""
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as made, Reader(kind) as reader:
        sample = Path(made) / "sample"
        sample.mkdir()
        KINDS[kind].make(sample)
        for seed in seeds:
            if time.monotonic() > until:
                break
            folder = Path(made) / "changed"
            change(kind, seed, sample, folder)
            untouched = Path(made) / "untouched"
            if kept:
                shutil.copytree(folder, untouched)
            outcome, what = reader.read(folder)
            outcomes.counts[outcome] += 1
            if outcome not in ("read", "refused"):
                outcomes.failures[seed] = f"{outcome}: {what}"
                if kept:
                    shutil.copytree(untouched, kept / f"{kind}-{seed}", dirs_exist_ok=True)
            shutil.rmtree(folder)
            shutil.rmtree(untouched, ignore_errors=True)
    return outcomes


def _used_s(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system

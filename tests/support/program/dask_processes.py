"""A Dask cluster of real processes on loopback, started as a person starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.support.places import PYTHON_PATH

START_LIMIT_S = 30.0
END_LIMIT_S = 10.0
ON_LOOPBACK = ("--host=127.0.0.1", "--dashboard-address=127.0.0.1:0", "--no-dashboard")
"""Without an address, Dask serves pages on all interfaces even where it shows no dashboard."""


class DaskProcesses:
    """A scheduler and its workers; `faulty_build_server` can be imported by them."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = ON_LOOPBACK,
    ) -> None:
        paths = os.pathsep.join(filter(None, [PYTHON_PATH, os.environ.get("PYTHONPATH")]))
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": paths, **(environment or {})}
        self._log = (folder / "dask.log").open("ab")
        self._processes: list[subprocess.Popen[bytes]] = []
        said = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port=0", f"--scheduler-file={said}", *options)
        deadline = time.monotonic() + START_LIMIT_S
        while not said.exists() or not said.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.address: str = json.loads(said.read_text())["address"]

    def add_worker(self, *options: str) -> psutil.Process:
        """A worker of one thread; without options on loopback, and without the nanny that starts it again."""
        local = self._folder / f"worker-{len(self._processes)}"
        own = ("--nthreads=1", f"--local-directory={local}", *(options or (*ON_LOOPBACK, "--no-nanny")))
        return psutil.Process(self._start("worker", self.address, *own).pid)

    def close(self) -> None:
        """End all and everything that they started."""
        family = [child for started in self._processes for child in _family(started)]
        for started in self._processes:
            started.kill()
            started.wait(END_LIMIT_S)
        _, alive = psutil.wait_procs(family, timeout=END_LIMIT_S)
        self._log.close()
        assert alive == []

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=self._environment
        )
        self._processes.append(process)
        return process


def _family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []

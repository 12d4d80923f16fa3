"""A Dask cluster of real processes on loopback, started as a person starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

START_LIMIT_S = 30.0
END_LIMIT_S = 10.0


class DaskProcesses:
    """A scheduler and its workers; `faulty_build_server` can be imported by them."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        tests = Path(__file__).parent
        paths = os.pathsep.join(filter(None, [str(tests.parent), str(tests), os.environ.get("PYTHONPATH")]))
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": paths, **(environment or {})}
        self._log = (folder / "dask.log").open("ab")
        self._processes: list[subprocess.Popen[bytes]] = []
        said = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={said}")
        deadline = time.monotonic() + START_LIMIT_S
        while not said.exists() or not said.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.address: str = json.loads(said.read_text())["address"]

    def add_worker(self) -> psutil.Process:
        """A worker of one thread, without the nanny that starts it again."""
        local = self._folder / f"worker-{len(self._processes)}"
        options = ("--nthreads=1", "--no-nanny", "--host=127.0.0.1", f"--local-directory={local}")
        return psutil.Process(self._start("worker", self.address, *options).pid)

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
        command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
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

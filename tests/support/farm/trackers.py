"""A stock TVM RPC tracker and stock servers on loopback, as existing farms have them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from int8tune.rpc.agent.build import MARK, compilers
from int8tune.rpc.errors import TrackerError
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.process import processes
from int8tune.rpc.tracker.client import Tracker
from int8tune.rpc.tracker.files import make_files
from tests.support.farm.boards import AT_ANY_SPEED, CACHE, LIMITS, bundle_for
from tests.support.program.waiting import wait_until

KEY = "x86"
ARCHITECTURE = os.uname().machine
_STOCK = "INT8TUNE_STOCK"
_START_LIMIT_S = 60.0


@dataclass
class StockFarm:
    """A tracker with servers. Their sessions' folders are in `folder`, each server's in its own."""

    folder: Path
    port: int
    mark: str
    servers: list[psutil.Popen] = field(default_factory=list)

    def add(self, count: int = 1, key: str = KEY) -> list[psutil.Popen]:
        """Start servers, and wait until the tracker knows them."""
        known = self.known(key)
        for _ in range(count):
            work = self.folder / str(len(self.servers))
            work.mkdir()
            options = ["--tracker", f"127.0.0.1:{self.port}", "--key", key, *_port(_free_port(), or_behind=100)]
            self.servers.append(_start("rpc_server", options, self.mark, work))
        wait_until(lambda: self.known(key) == known + count, _START_LIMIT_S)
        return self.servers[-count:]

    def known(self, key: str = KEY) -> int:
        with contextlib.closing(Tracker.connect("127.0.0.1", self.port, _soon())) as tracker:
            return tracker.servers(_soon()).get(key, 0)

    def board(self, name: str = "rasp", key: str = KEY) -> Board:
        return Board(
            name=name,
            transport=TransportKind.TRACKER,
            address="127.0.0.1",
            port=self.port,
            tracker_key=key,
            architecture=ARCHITECTURE,
            limits=LIMITS,
        )

    def toml(self, name: str = "rasp", more: str = "") -> str:
        way = f'transport = "tracker"\naddress = "127.0.0.1"\nport = {self.port}\ntracker_key = "{KEY}"'
        return f'[[boards]]\nname = "{name}"\n{way}\narchitecture = "{ARCHITECTURE}"\n{AT_ANY_SPEED}{more}\n'

    def agents(self) -> list[psutil.Process]:
        """All processes that agents on these servers started, and they themselves."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(MARK, "").startswith(str(self.folder)):
                    found.append(process)
        return found

    def left(self) -> list[Path]:
        """Files of sessions."""
        # Folders may go while they are walked through, which `walk` takes for empty.
        return [Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names]


def family(server: psutil.Process) -> list[psutil.Process]:
    """A server and all that it has started."""
    return [server, *server.children(recursive=True)]


def send_all(to: list[psutil.Process], number: signal.Signals) -> None:
    for process in to:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@contextlib.contextmanager
def running_tracker(folder: Path, servers: int = 1) -> Iterator[StockFarm]:
    folder.mkdir(exist_ok=True)
    mark = f"{_STOCK}={secrets.token_hex(8)}"
    port = _free_port()
    farm = StockFarm(folder, port, mark)
    tracker = _start("rpc_tracker", _port(port), mark, folder)
    try:
        wait_until(lambda: _listens(port, tracker), _START_LIMIT_S)
        farm.add(servers)
        yield farm
    finally:
        processes.end_marked(mark, 5.0)
        for process in (tracker, *farm.servers):
            process.wait(5)


def tracker_files() -> Path:
    """What servers are sent, compiled once for all runs; skips the test where there is no compiler."""
    bundle_for(ARCHITECTURE)
    return make_files(ARCHITECTURE, CACHE, compilers(ARCHITECTURE)[0])


def _start(module: str, options: list[str], mark: str, folder: Path) -> psutil.Popen:
    name, _, token = mark.partition("=")
    command = [sys.executable, "-m", f"tvm.exec.{module}", "--host", "127.0.0.1", "--silent", *options]
    nothing = subprocess.DEVNULL
    environment = {**os.environ, name: token, "TMPDIR": str(folder)}
    return psutil.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, env=environment, start_new_session=True)


def _port(port: int, or_behind: int = 0) -> list[str]:
    """That port, or one of those behind it, if another process has taken it by now."""
    return ["--port", str(port), "--port-end", str(port + 1 + or_behind)]


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _listens(port: int, tracker: psutil.Popen) -> bool:
    assert tracker.is_running()
    try:
        Tracker.connect("127.0.0.1", port, _soon()).close()
    except TrackerError:
        return False
    return True


def _soon() -> float:
    return time.monotonic() + 5.0

"""A contestant as the bench sees it: a resident process that takes its turn when it is told to, and may die."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import int8tune
from int8tune.rpc.agent.cuda_libraries import library_path
from int8tune.rpc.errors import DeviceLostError, ProtocolError
from int8tune.rpc.process import processes
from int8tune.rpc.wire import framing
from int8tune.tuner.bench.waiting import MOST_TRIES, Turn

START_LIMIT_S = 60.0
LOAD_LIMIT_S = 120.0
# Beside the time that the calls themselves should take.
TURN_LIMIT_S = 20.0
END_LIMIT_S = 3.0
LONGEST_TAIL = 300


@dataclass(frozen=True, slots=True)
class Seat:
    """Where and what a contestant runs.

    Attributes:
        cores: all its threads are bound to these; it has as many.
        module: what is run as its process.
        peer: the library; none for kernels of this one.
        gpu: the number of the GPU that it runs layers on; None: they run on the cores.
    """

    cores: tuple[int, ...]
    module: str
    peer: str | None = None
    gpu: int | None = None


class Contestant:
    """One library in a process of its own. Its process is started again when the next layer is loaded after it died.

    Attributes:
        failure: why it takes no more turns with the layer that was loaded last; empty while all is well.
        version: of the library, once it has started.
        turns: all that it took.
    """

    def __init__(self, seat: Seat) -> None:
        self.failure = ""
        self.version = ""
        self.turns: list[Turn] = []
        self._seat = seat
        self._process: _Process | None = None
        self._slowest_call_s = 0.0

    def load(self, task: Mapping[str, object]) -> tuple[int, int] | None:
        """Load a layer; how many outputs differ and by how much at most, or None if it failed."""
        self.failure = ""
        self._slowest_call_s = 0.0
        if self._process is None:
            self._process = _Process(self._seat)
            self.version = str(self._ask({"do": "start"}, START_LIMIT_S) or self.version)
        found = None if self.failure else self._ask({"do": "load", "task": task}, LOAD_LIMIT_S)
        if not isinstance(found, list):
            return None
        count, largest = found
        return int(count), int(largest)

    def mean_s(self, calls: int) -> float:
        """Seconds per call, averaged over `calls` calls; not a number once it has failed."""
        if self.failure:
            return math.nan
        limit_s = TURN_LIMIT_S + math.ceil(4 * MOST_TRIES * calls * self._slowest_call_s)
        found = self._ask({"do": "time", "calls": calls}, limit_s)
        match found:
            case [float(mean_s), float(waiting)] if mean_s > 0 and waiting >= 0:
                self.turns.append(Turn(mean_s, waiting))
            case _:
                self.failure = self.failure or f"answered nonsense: {found}"
                return math.nan
        self._slowest_call_s = max(self._slowest_call_s, mean_s)
        return mean_s

    def close(self) -> None:
        """End the process. Closing twice is allowed."""
        if self._process:
            self._process.end()
        self._process = None

    def _ask(self, command: Mapping[str, object], limit_s: float) -> object:
        """The answer to a command; None, and `failure` says why, if there is none."""
        assert self._process is not None
        try:
            answer = self._process.ask(command, limit_s)
        except TimeoutError:
            self.failure = f"did not answer within {limit_s:g} s"
        except DeviceLostError:
            self.failure = f"its process ended: {self._process.how_it_ended()}"
        except ProtocolError as error:
            self.failure = f"answered nonsense: {error}"
        else:
            if "failed" not in answer:
                return answer.get("done")
            self.failure = " ".join(str(answer["failed"]).split())
            if not answer.get("is_last"):
                return None
        self.close()
        return None


class Contestants:
    """All contestants of a bench; their processes end when it is left."""

    def __init__(self, module: str, gpu: int | None = None) -> None:
        """`module` is what is run as a contestant's process, `gpu` the number of the GPU that they all use."""
        self._module = module
        self._gpu = gpu
        self._started: list[Contestant] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for contestant in self._started:
            contestant.close()

    def add(self, cores: Sequence[int], peer: str | None = None) -> Contestant:
        """A contestant on these cores, with as many threads: a peer, or kernels of this library."""
        contestant = Contestant(Seat(tuple(cores), self._module, peer, self._gpu))
        self._started.append(contestant)
        return contestant

    def disturbance(self) -> str:
        """What is to be said of turns in which others had the cores; empty where nothing is."""
        return disturbance([turn for contestant in self._started for turn in contestant.turns])


def disturbance(turns: Sequence[Turn]) -> str:
    """What is to be said of turns in which others had the cores; empty where nothing is."""
    disturbed = [turn.waiting for turn in turns if turn.is_disturbed]
    if not disturbed:
        return ""
    share = f"{max(disturbed):.0%}".replace("%", " %")
    return f"others had the cores in {len(disturbed)} of {len(turns)} turns, for up to {share} of one"


class _Process:
    def __init__(self, seat: Seat) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._sock, theirs = socket.socketpair()
        options = ["--fd", str(theirs.fileno()), "--parent", str(os.getpid())]
        options += [f"--core={core}" for core in seat.cores]
        options += [] if seat.peer is None else ["--peer", seat.peer]
        options += [] if seat.gpu is None else ["--gpu", str(seat.gpu)]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", seat.module, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[theirs.fileno()],
                env=_environment(len(seat.cores), is_on_gpu=seat.gpu is not None),
                start_new_session=True,
            )

    def ask(self, command: Mapping[str, object], limit_s: float) -> dict[str, object]:
        deadline = time.monotonic() + limit_s
        framing.send(self._sock, command, deadline)
        return framing.receive(self._sock, deadline)

    def how_it_ended(self) -> str:
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - LONGEST_TAIL))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return " ".join([processes.how_it_ended(self._process.returncode), *lines[-1:]])

    def end(self) -> None:
        self._sock.close()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            processes.kill(self._process.pid)
            self._process.wait(END_LIMIT_S)
        self._stderr.close()


def _environment(threads: int, *, is_on_gpu: bool) -> dict[str, str]:
    root = str(Path(int8tune.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"), str(threads))
    # TVM would bind its threads to cores of its own choice.
    libraries = {"LD_LIBRARY_PATH": library_path()} if is_on_gpu else {}
    return {**os.environ, **counts, **libraries, "TVM_BIND_THREADS": "0", "PYTHONPATH": path}

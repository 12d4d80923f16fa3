"""The process of one contestant: `python -m int8tune.tuner.bench.worker`, told what to do over an inherited socket.

It holds one layer at a time and blocks while it is not its turn. Whatever goes wrong in it is an answer, or its end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from int8tune.rpc.errors import DeviceLostError
from int8tune.rpc.process import processes
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.fields import Fields, text
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.peers.base import Array, LoadedLayer, Peer
from int8tune.tuner.bench.peers.registry import all_peers
from int8tune.tuner.bench.waiting import least_disturbed
from int8tune.tuner.verify import read_case

IDLE_CHECK_S = 60.0
SEND_LIMIT_S = 10.0
LONGEST_ERROR = 500
# Calls that bring a layer back into the caches, one for so many that are timed.
WARMING_SHARE = 20
# Threads of a library that spin a little after their work must not take time from the next contestant.
QUIET_LIMIT_S, QUIET_STEP_S = 0.2, 0.0005


class UnusableError(Exception):
    """A failure after which nothing works in its process any more; the text says what failed."""


class Runner(Protocol):
    """What a contestant runs."""

    def version(self) -> str: ...

    def load(self, task: Mapping[str, object]) -> tuple[int, int]:
        """Prepare a layer and run it once; how many outputs differ from the expected ones, and by how much at most."""

    def mean_s(self, calls: int) -> float:
        """Seconds per call of the loaded layer, averaged over `calls` calls after some that are not counted."""


class PeerRunner:
    """Runs a peer's layers."""

    def __init__(self, peer: Peer, threads: int) -> None:
        self._peer = peer
        self._threads = threads
        self._layer: LoadedLayer | None = None

    def version(self) -> str:
        return self._peer.version()

    def load(self, task: Mapping[str, object]) -> tuple[int, int]:
        fields = Fields("", task, ("workload", "case"))
        workload = parse_workload(fields.read("workload", text))
        operands, expected = read_case(Path(fields.read("case", text)))
        self._layer = None
        self._layer = self._peer.load(workload, operands, self._threads)
        self._layer.run()
        return differences(self._layer.output(), expected)

    def mean_s(self, calls: int) -> float:
        assert self._layer is not None
        return mean_call_s(self._layer.run, calls)


class KernelRunner:
    """Runs kernels that this library built, through TVM's runtime."""

    def __init__(self) -> None:
        from int8tune.rpc.local.worker import Kernel

        self._kernel: Kernel | None = None

    def version(self) -> str:
        from importlib.metadata import version

        return version("int8tune")

    def load(self, task: Mapping[str, object]) -> tuple[int, int]:
        from int8tune.rpc.local.arena import Arena
        from int8tune.rpc.local.cases import open_cases
        from int8tune.rpc.local.worker import load_programs
        from int8tune.rpc.protocol import program_from_json

        program = program_from_json("", task)
        cases = open_cases(program)
        expected = cases[0].expected
        arena = Arena(expected.nbytes)
        (self._kernel,) = load_programs([(program, cases)])
        self._kernel.run(0, arena)
        return differences(arena.view(expected.shape, expected.dtype), expected)

    def mean_s(self, calls: int) -> float:
        assert self._kernel is not None
        self._kernel.mean_s(1 + calls // WARMING_SHARE)
        return self._kernel.mean_s(calls)


def mean_call_s(run: Callable[[], None], calls: int) -> float:
    """Seconds per call, averaged over `calls` calls after some that are not counted."""
    for _ in range(1 + calls // WARMING_SHARE):
        run()
    started = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - started) / calls


def differences(output: Array, expected: Array) -> tuple[int, int]:
    """How many values differ, and by how much at most."""
    if output.shape != expected.shape or output.dtype != expected.dtype:
        raise ValueError(f"the output is {output.dtype}{output.shape}, expected: {expected.dtype}{expected.shape}")
    distance = np.abs(output.astype(np.int64) - expected.astype(np.int64))
    return int(np.count_nonzero(distance)), int(distance.max())


@dataclass(frozen=True, slots=True)
class Options:
    """What a contestant is started with; without a peer it runs kernels of this library, without a GPU on its cores."""

    fd: int
    parent: int
    core: Sequence[int]
    peer: str | None
    gpu: int | None


def main(peers: Sequence[Peer] | None = None) -> None:
    """Be the process of a layer's contestant; `peers`: those that there are, in place of the registry's."""
    run_contestant(lambda options: _runner(options, all_peers() if peers is None else peers))


def run_contestant(make_runner: Callable[[Options], Runner]) -> None:
    """Be a contestant's process, as `tuner.bench.contestant` starts one."""
    parser = argparse.ArgumentParser(description="Run layers for the process that started this one.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--core", type=int, action="append", required=True)
    parser.add_argument("--peer")
    parser.add_argument("--gpu", type=int)
    options = Options(**vars(parser.parse_args()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != options.parent:
        return
    os.sched_setaffinity(0, options.core)
    sock = socket.socket(fileno=options.fd)
    with contextlib.suppress(DeviceLostError):
        _serve(sock, lambda: make_runner(options))


def _runner(options: Options, peers: Sequence[Peer]) -> Runner:
    if options.peer is None:
        return KernelRunner()
    return PeerRunner(next(peer for peer in peers if peer.name == options.peer), len(options.core))


def _serve(sock: socket.socket, make_runner: Callable[[], Runner]) -> None:
    """Obey `start`, `load` (a task) and `time` (a number of calls) until the other side closes the connection."""
    runner: Runner | None = None
    while True:
        while not framing.wait_readable([sock.fileno()], time.monotonic() + IDLE_CHECK_S):
            pass
        command = framing.receive(sock, time.monotonic() + SEND_LIMIT_S)
        try:
            if runner is None:
                runner = make_runner()
            answer: dict[str, object] = {"done": _obey(runner, command)}
        except Exception as error:
            is_last = isinstance(error, UnusableError)
            answer = {"failed": f"{type(error).__name__}: {error}"[:LONGEST_ERROR], "is_last": is_last}
        framing.send(sock, answer, time.monotonic() + SEND_LIMIT_S)


def _obey(runner: Runner, command: Mapping[str, object]) -> object:
    match command:
        case {"do": "start"}:
            return runner.version()
        case {"do": "load", "task": Mapping() as task}:
            found = runner.load(task)
            gc.collect()
            gc.disable()
            return found
        case {"do": "time", "calls": int(calls)}:
            turn = least_disturbed(lambda: _quiet_mean_s(runner, calls))
            return [turn.mean_s, turn.waiting]
    raise ValueError(f"unknown command: {command}")


def _quiet_mean_s(runner: Runner, calls: int) -> float:
    mean_s = runner.mean_s(calls)
    _wait_until_quiet()
    return mean_s


def _wait_until_quiet() -> None:
    """Wait until no other thread of this process runs, or would if it had the core."""
    deadline = time.monotonic() + QUIET_LIMIT_S
    while _has_running_threads() and time.monotonic() < deadline:
        time.sleep(QUIET_STEP_S)


def _has_running_threads() -> bool:
    own = threading.get_native_id()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # proc(5): the state follows the command's name, which ends with the last bracket.
            state = (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            if state == "R" and int(task.name) != own:
                return True
    return False


if __name__ == "__main__":
    main()

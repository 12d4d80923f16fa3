"""What a session's process does: it loads, runs and times kernels at the server's commands.

It judges nothing: once a candidate has run here, anything in this process may be wrong.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import tvm_ffi

from int8tune.rpc.local import tvm_library
from int8tune.rpc.local.arena import Arena
from int8tune.rpc.local.cases import Arrays
from int8tune.rpc.local.tile_registers import allow_tile_registers
from int8tune.rpc.protocol import Timed
from int8tune.rpc.request import MOST_COPIES, Cold, Program, Timing
from int8tune.rpc.session.timing import PROBE_REPEAT_S, PROBE_REPEATS, Undisturbed, calls_that_fill, time_in_turn
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.fields import Fields, integer, text

_LONGEST_ERROR = 2000
# The server's deadline comes first, so that it sees a session that was late and not one that ended.
_PATIENCE_S = 10.0

LoadedCases = tuple[Program, Sequence[Arrays]]
Arguments = tuple[Any, ...]


class HashMismatchError(Exception):
    """A library is not the one that was built."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a session works on: programs with their cases as arrays, and where outputs go.

    Attributes:
        deadline: when the server gives up, by `time.monotonic`.
    """

    programs: Sequence[LoadedCases]
    probe: LoadedCases | None
    timing: Timing
    arena: Arena
    deadline: float


class Kernel:
    """A loaded program.

    Its calls are timed with the same arguments, or, with `cold`, with one copy of them after the other.
    """

    def __init__(self, program: Program, cases: Sequence[Arrays], cold: Cold | None = None) -> None:
        self._module = tvm_library.load_module(program.library)
        self._function = self._module[program.entry]
        self._entry = program.entry
        self._cases = cases
        self._cold = cold

    def run(self, case: int, arena: Arena) -> None:
        """One call, with the output in the arena."""
        arrays = self._cases[case]
        output = tvm_ffi.from_dlpack(arena.view(arrays.expected.shape, arrays.expected.dtype))
        self._function(*map(tvm_library.tensor, arrays.inputs), output)

    def mean_s(self, calls: int) -> float:
        """Seconds per call of the first case, with the output in memory of TVM's own."""
        if self._cold is not None:
            return self._cold_mean_s(calls)
        return tvm_library.time_evaluator(self._module, self._entry, calls)(*self._timed_arguments)

    def _cold_mean_s(self, calls: int) -> float:
        """Includes what it takes to make a call from Python, 0.2 us: as much for every candidate."""
        turns = [next(self._rotation) for _ in range(calls)]
        started_s = time.perf_counter()
        for arguments in turns:
            self._function(*arguments)
        return (time.perf_counter() - started_s) / calls

    @cached_property
    def _timed_arguments(self) -> Arguments:
        return _arguments_of(self._cases[0])

    @cached_property
    def _rotation(self) -> Iterator[Arguments]:
        assert self._cold is not None
        return itertools.cycle(_copies(self._cases[0], self._cold))


def _arguments_of(case: Arrays) -> Arguments:
    """A copy of a case's inputs, and memory for its output."""
    output = tvm_library.empty(case.expected.shape, case.expected.dtype)
    return (*map(tvm_library.tensor, case.inputs), output)


def _copies(case: Arrays, cold: Cold) -> list[Arguments]:
    """Arguments for one call after the other, of which those that stay warm are the same."""
    inputs = [at for at in range(len(case.inputs)) if not cold.inputs or at in cold.inputs]
    own_bytes = sum(case.inputs[at].nbytes for at in inputs) + (0 if cold.inputs else case.expected.nbytes)
    count = min(cold.least_bytes // max(own_bytes, 1) + 2, MOST_COPIES)
    if not cold.inputs:
        return [_arguments_of(case) for _ in range(count)]
    shared = _arguments_of(case)
    own = [{at: tvm_library.tensor(case.inputs[at]) for at in inputs} for _ in range(count)]
    return [tuple(each.get(at, argument) for at, argument in enumerate(shared)) for each in own]


class Worker:
    """Serves the commands of one session: `probe`, `load`, `run` (a program's case) and `time`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._kernels: list[Kernel] = []
        self._probe: Kernel | None = None
        self._probe_calls = 0

    def serve(self, sock: socket.socket) -> NoReturn:
        """Answer commands until the server closes the connection or kills this process."""
        index = integer(0, 1 << 16)
        deadline = self._job.deadline + _PATIENCE_S
        while True:
            command = Fields("", framing.receive(sock, deadline), ("do", "program", "case"))
            answer = self._answer(command.read("do", text), command.read("program", index), command.read("case", index))
            framing.send(sock, answer, deadline)

    def _answer(self, command: str, program: int, case: int) -> dict[str, object]:
        try:
            return {"done": self._obey(command, program, case)}
        except HashMismatchError as error:
            return {"failed": {"error_class": "HashMismatch", "error": str(error)}}
        except Exception as error:
            return {"failed": {"error_class": type(error).__name__, "error": str(error)[:_LONGEST_ERROR]}}

    def _obey(self, command: str, program: int, case: int) -> dict[str, object]:
        match command:
            case "probe":
                self._load_probe()
            case "load":
                self._kernels = load_programs(self._job.programs, self._job.timing.cold)
            case "run":
                self._kernels[program].run(case, self._job.arena)
            case "time":
                return self._time()
        return {}

    def _load_probe(self) -> None:
        if self._job.probe:
            (self._probe,) = load_programs([self._job.probe])
            self._probe_calls = calls_that_fill(self._probe, PROBE_REPEAT_S)

    def _time(self) -> dict[str, object]:
        before_s = self._probe_s()
        kernels = [Undisturbed(kernel) for kernel in self._kernels]
        times_s, calls = time_in_turn(kernels, self._job.timing)
        void = sum(kernel.void for kernel in kernels)
        timed = Timed(times_s, calls, void, probe_before_s=before_s, probe_after_s=self._probe_s())
        return dataclasses.asdict(timed)

    def _probe_s(self) -> float | None:
        if self._probe is None:
            return None
        return min(self._probe.mean_s(self._probe_calls) for _ in range(PROBE_REPEATS))


def load_programs(programs: Sequence[LoadedCases], cold: Cold | None = None) -> list[Kernel]:
    """Load the libraries, once every one of them is known to be the one that was built."""
    allow_tile_registers()
    for program, _ in programs:
        if hashlib.sha256(Path(program.library).read_bytes()).hexdigest() != program.sha256:
            raise HashMismatchError(f"library is not the one that was built: {program.library}")
    return [Kernel(program, cases, cold) for program, cases in programs]

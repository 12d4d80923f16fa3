"""Compiled models on a board: compared bit for bit there, and timed in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from int8tune.compiler.errors import CompilerError
from int8tune.compiler.graph import Graph
from int8tune.compiler.program import Array
from int8tune.compiler.report import Report, ignore, prefixed
from int8tune.compiler.schedule_choice import Chooser
from int8tune.compiler.toolchain.linker import find_linker
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.results.record import Outcome
from int8tune.results.schemes import BoardRow, BoardTable
from int8tune.results.stats import median_time, ratio_interval
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.request import Capabilities, Program, Reply, Request, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.board_transports import TRANSPORTS, require_transport
from int8tune.tuner.errors import SpecError
from int8tune.tuner.models.compiling import kernel_apart
from int8tune.tuner.models.schedules import schedules_for

_VERIFY = Timing(repeats=1, min_repeat_s=0.0)
# A run of a large network takes an emulated board a minute.
_VERIFY_LIMIT_S, _TIMING_LIMIT_S = 300.0, 60.0
# So much longer than turns should take may timing take, beside its limit.
_SLOWER = 5.0


@dataclass(frozen=True, slots=True)
class OnBoard:
    """Models on a board.

    Attributes:
        models: all of them.
        times_s: of each one that was right there, a value for each turn; of a board whose times mean nothing, none.
        failures: why others have none.
    """

    models: tuple[str, ...]
    times_s: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """A board that has answered.

    Attributes:
        results, log: where schedules come from, as `tuner.models.schedules.schedules_for` has it.
        folder: takes files.
    """

    board: Board
    found: Capabilities
    target: Target
    results: Path
    log: Path | None
    folder: Path

    def run(
        self,
        models: Mapping[str, Graph],
        inputs: Sequence[Array],
        timing: Timing,
        report: Report = ignore,
        choosers: Mapping[str, Chooser] | None = None,
    ) -> OnBoard:
        """Compile models for the board, and run them there on one sample.

        A model that fails says why. Those that are right are timed in turn.

        Args:
            inputs: an array for each input, which all models have alike.
            choosers: who chooses the schedules of each model; without, those of the best log or the records are taken.

        Raises:
            DeviceStartError: the board can't be reached any more.
        """
        with TemporaryDirectory(dir=self.folder) as folder:
            programs, failures = self._programs(models, inputs, choosers, Path(folder), report)
            with _started(self.board) as (transport, _):
                times_s = self._measured(transport, programs, failures, timing, report)
        return OnBoard(tuple(models), times_s, failures)

    def table(self, found: OnBoard) -> BoardTable:
        """What the board said of each model."""
        first = next(iter(found.times_s.values()), None)
        rows = []
        for model in found.models:
            times_s = found.times_s.get(model)
            if times_s is None or first is None:
                rows.append(BoardRow(model, None, None, found.failures.get(model, "")))
            else:
                rows.append(BoardRow(model, median_time(times_s), ratio_interval(first, times_s)))
        about = (self.board.name, self.found.cpu, self.target.name, self.target.threads, self.board.is_measured)
        return BoardTable(*about, tuple(rows))

    def _measured(
        self,
        transport: Transport,
        programs: dict[str, Program],
        failures: dict[str, str],
        timing: Timing,
        report: Report,
    ) -> dict[str, tuple[float, ...]]:
        """Times of the programs that are right; the others get a failure."""
        turns_s, right = 0.0, dict[str, Program]()
        for at, (label, program) in enumerate(programs.items()):
            report(f"{self.board.name}: comparing outputs", at, len(programs))
            reply = transport.run(Request((program,), _VERIFY, _VERIFY_LIMIT_S))
            if reply.outcome is Outcome.OK:
                right[label] = program
                turns_s += timing.repeats * (timing.min_repeat_s + reply.times_s[0][0])
            else:
                failures[label] = _failure(reply)
        if not right or not self.board.is_measured:
            return {}
        report(f"{self.board.name}: timing", 0, 1)
        reply = transport.run(Request(tuple(right.values()), timing, _TIMING_LIMIT_S + _SLOWER * turns_s))
        if reply.outcome is Outcome.OK:
            return dict(zip(right, reply.times_s, strict=True))
        failures |= dict.fromkeys(right, _failure(reply))
        return {}

    def _programs(
        self,
        models: Mapping[str, Graph],
        inputs: Sequence[Array],
        choosers: Mapping[str, Chooser] | None,
        files: Path,
        report: Report,
    ) -> tuple[dict[str, Program], dict[str, str]]:
        if choosers is None:
            choosers = dict.fromkeys(models, schedules_for(self.target, self.results, self.log))
        programs, failures = dict[str, Program](), dict[str, str]()
        for at, (label, graph) in enumerate(models.items()):
            folder = files / str(at)
            folder.mkdir()
            try:
                programs[label] = kernel_apart(
                    graph,
                    inputs,
                    self.target,
                    choosers[label],
                    folder,
                    report=prefixed(report, f"{self.board.name}: {label}"),
                )
            except (CompilerError, WorkloadError) as error:
                failures[label] = " ".join(str(error).split())
        return programs, failures


def require_times(board: Board) -> None:
    """Raises: QuantizeSpecError: its times are no measurements."""
    if not board.is_measured:
        raise QuantizeSpecError(f'board `{board.name}` has timing = "{board.timing.value}": its times decide nothing')


def board_place(board: Board, results: Path, log: Path | None, folder: Path) -> BoardPlace:
    """Ask a board what it is.

    Raises:
        SpecError: models can't run there.
        DeviceStartError: it can't be reached, or has no agent of this version.
        ProvisionError: an agent of this machine's can't be made.
        UnknownTargetError: it can't run the profile that its inventory names.
        NoLinkerError: nothing here links for its architecture.
    """
    require_transport(board)
    with _started(board) as (_, found):
        if found.has_gpu:
            raise SpecError(f"whole models run on CPUs: `{board.name}` has a {found.cpu}")
    find_linker(found.architecture)
    target = target_for(found.features, found.llvm_cpu, found.llvm_triple, board.target or None, board.threads)
    return BoardPlace(board, found, target, results, log, folder)


@contextmanager
def _started(board: Board) -> Iterator[tuple[Transport, Capabilities]]:
    transport = TRANSPORTS[board.transport](board)
    try:
        yield transport, transport.start()
    finally:
        transport.close()


def _failure(reply: Reply) -> str:
    return f"{reply.outcome.value}: {reply.error or reply.error_class}"

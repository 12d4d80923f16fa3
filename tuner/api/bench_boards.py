"""Whole models on boards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.report import Report, ignore
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.request import Timing
from int8tune.tuner.api.frames import frame_of, interval_columns
from int8tune.tuner.bench.run import require_ranges
from int8tune.tuner.errors import BenchSpecError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.bench_on_board import BoardBench
from int8tune.tuner.models.bench_on_board import bench_on_board as bench_model_on_board
from int8tune.tuner.models.on_board import board_place
from int8tune.tuner.work_folder import work_folder

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, repr=False)
class BoardBenches:
    """Whole models on a board, with recorded schedules and with defaults."""

    models: tuple[BoardBench, ...]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each choice of schedules of each model; intervals are of 95 %."""
        return frame_of(
            [
                {"model": each.model, "board": each.table.board, "target": each.table.target, "schedules": row.label}
                | interval_columns("time_s", row.time, "estimate_s", "low_s", "high_s")
                | interval_columns("speedup", row.speedup, "estimate", "low", "high")
                | {"failure": row.failure}
                for each in self.models
                for row in each.table.rows
            ]
        )

    def __repr__(self) -> str:
        return f"<Bench of {', '.join(each.model for each in self.models)}>"


def runs_models(board: Board) -> bool:
    """Whether whole models are run there: not on a GPU, which has kernels of layers."""
    return board.transport is not TransportKind.GPU


def bench_on_board(
    models: Sequence[Path],
    board: Board,
    results: Path,
    against: Sequence[str] | None,
    timing: Timing,
    given: Given = NOTHING_GIVEN,
    report: Report = ignore,
) -> Iterator[BoardBench]:
    """Run whole models on a board, one after the other.

    Raises:
        BenchSpecError: a number is out of its range, or others are to be compared with.
        SpecError, DeviceStartError, ProvisionError, UnknownTargetError, NoLinkerError: the board can't be used.
        ModelError: a file is no model that can be read.
    """
    require_tuning()
    require_ranges(1, timing)
    if against is not None:
        raise BenchSpecError("boards run this library's models alone: leave --against out")
    with work_folder(results, "bench") as folder:
        place = board_place(board, results, None, folder)
        for model in models:
            yield bench_model_on_board(model, place, given, timing, report)

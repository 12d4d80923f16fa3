"""A compiled model on a board: with the schedules that were found for it, beside its templates' defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.given import Given
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.schedule_choice import Schedules
from int8tune.results.schemes import BoardTable
from int8tune.rpc.request import Timing
from int8tune.tuner.models.checks import model_of
from int8tune.tuner.models.drawn_samples import drawn_samples
from int8tune.tuner.models.on_board import BoardPlace
from int8tune.tuner.models.schedules import recorded

TUNED, DEFAULTS = "recorded bests", "defaults"


@dataclass(frozen=True, slots=True)
class BoardBench:
    """What a model took on a board.

    Attributes:
        table: a row with the defaults, and one with the schedules of the records, where these have any.
    """

    model: str
    table: BoardTable


def bench_on_board(model: Path, place: BoardPlace, given: Given, timing: Timing, report: Report = ignore) -> BoardBench:
    """Compile a model for a board, compare its outputs there on one drawn sample, and time it.

    Raises:
        ModelError: the file is no model that can be read.
        StoreError: the records can't be read.
        DeviceStartError: the board can't be reached any more.
    """
    graph = model_of(model, given)
    sample = [array[0] for array in drawn_samples(with_file_layouts(graph), 1, 0)]
    choosers = {DEFAULTS: Schedules(place.target)}
    if bests := recorded(place.target, place.results):
        choosers[TUNED] = Schedules(place.target, bests)
    found = place.run(dict.fromkeys(choosers, graph), sample, timing, report, choosers)
    return BoardBench(graph.name, place.table(found))

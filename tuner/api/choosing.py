"""The form of each layer of a float model, chosen by measured time and accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.compiler.report import Report, ignore
from int8tune.quantize.forms import Form
from int8tune.quantize.mixed import MixedModel
from int8tune.quantize.options import Options, calibration_named, is_signed
from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.results.atomic import require_folder, write_bytes_atomic
from int8tune.results.report.tables import Row, prefixed
from int8tune.rpc.request import Timing
from int8tune.tuner.api.boards import inventory_of
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY, DEFAULT_RESULTS
from int8tune.tuner.api.float_models import float_model_of
from int8tune.tuner.api.frames import frame_of, interval_columns, listed
from int8tune.tuner.api.quantizing import DEFAULT_CALIBRATION
from int8tune.tuner.bench.run import require_ranges
from int8tune.tuner.choice.choose import Choice, Limits, Point
from int8tune.tuner.choice.choose import choose as chosen_by
from int8tune.tuner.errors import SpecError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.on_board import board_place, require_times
from int8tune.tuner.schemes.judged import judge_of, labels_of
from int8tune.tuner.schemes.place import open_place

if TYPE_CHECKING:
    import pandas

DEFAULT_DROP, DEFAULT_TIME_S = 0.5, 120.0
LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True, repr=False)
class ChoiceResult:
    """Networks of one float model whose layers have several forms, and which of them was chosen.

    Attributes:
        choice: all that was tried, the front among it, and the network that was chosen.
        file: where that was written; None if nowhere.
        max_drop: points that were allowed to be lost.
    """

    choice: Choice
    file: Path | None
    max_drop: float

    @property
    def measure(self) -> str:
        """What points are of: `top-1`, or `same answer`, how often the answer is the float model's."""
        return "same answer" if self.choice.float_top1 is None else "top-1"

    @property
    def chosen(self) -> Point:
        """The fastest network that was tried whose drop is within the limit."""
        return self.choice.chosen

    @property
    def front(self) -> tuple[Point, ...]:
        """The networks of which no other is as fast and as accurate, and better in one of these; the fastest first."""
        return tuple(point for point in self.choice.points if point.is_on_front)

    @property
    def proto(self) -> Any:
        """The chosen network, an `onnx.ModelProto` in the form QDQ."""
        return self.choice.proto

    def forms(self, point: Point) -> dict[str, Form]:
        """The form of each layer in a network, in the order of the graph."""
        return {layer.name: point.forms.get(layer.name, self.choice.usual_form) for layer in self.choice.layers}

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each network that was tried, the fastest first; intervals are of 95 %, drops in points."""
        return frame_of(self.rows())

    def rows(self) -> list[Row]:
        """The same as plain values."""
        return [self._row(point) for point in self.choice.points]

    def _row(self, point: Point) -> Row:
        row = interval_columns("time_s", point.time, "estimate_s", "low_s", "high_s")
        for name, share in (("top1", point.top1), ("agreement", point.agreement)):
            row |= interval_columns(name, share, "estimate", "low", "high")
        row |= {"drop": point.drop, "sqnr_db": point.sqnr_db}
        row |= {"is_on_front": point.is_on_front, "is_chosen": point == self.chosen}
        return row | prefixed("form", {name: str(form) for name, form in self.forms(point).items()})

    def __repr__(self) -> str:
        tried = listed(len(self.choice.points), "network")
        return f"<Choice among {tried}: {self.chosen.time.estimate_s * 1e3:.3g} ms, {self.chosen.drop:.2f} points lost>"


def choose(
    model: str | Path | Any,
    data: DataLike,
    output: str | Path | None = None,
    *,
    max_drop: float = DEFAULT_DROP,
    test: DataLike | None = None,
    labels: str | Path | Sequence[int] | None = None,
    time_s: float = DEFAULT_TIME_S,
    calibration: str = DEFAULT_CALIBRATION,
    per_tensor: bool = False,
    activations: str = "u8",
    symmetric: bool = False,
    weight_zero_points: bool = False,
    skip: Sequence[str] = (),
    equalize: bool = True,
    round_weights: bool = True,
    bias_correction: bool = True,
    smooth: float | None = None,
    share_scales: bool = False,
    count: int | None = None,
    test_count: int | None = None,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    results: str | Path = DEFAULT_RESULTS,
    log: str | Path | None = None,
    target: str | None = None,
    threads: int = 1,
    runs: int = 20,
    run_s: float = 0.02,
    device: str | None = None,
    inventory: str | Path = DEFAULT_INVENTORY,
    trust: bool = False,
    report: Report = ignore,
) -> ChoiceResult:
    """Quantize a float model with each layer in the form that pays: 8 bits, 16-bit data, or float.

    Networks are compiled, run on the tests and timed, on this machine or on a board; the fastest one that loses no
    more than `max_drop` is chosen. Options of `quantize` say what is usual; layers differ from that where it pays.

    Args:
        model: a float model: a file (.onnx), a program of torch.export (.pt2, or as it is), or a module of PyTorch's.
        data: samples by which ranges, weights and biases are chosen, as `profile` takes them.
        output: a file for the chosen model; none if None.
        max_drop: points of top-1 that may be lost; without labels, of answers that may differ from the float model's.
        test: samples on which networks are run; `data` if None, which flatters.
        labels: the classes of these samples, or a file of them (.npy, .npz).
        time_s: seconds after which no other network is begun.
        calibration: as `quantize` has it, like the next ones.
        per_tensor: one scale for all weights of an operator; then no layer has one for each channel.
        activations: the type of data, `u8` or `s8`; 16-bit data has the same sign.
        symmetric: the zero point of data is the middle of its type.
        weight_zero_points: weights have zero points, too; with `per_tensor` alone.
        skip: operators that stay in float in all networks.
        equalize: make channels of data alike before.
        round_weights: round weights so that each layer's outputs stay where they were.
        bias_correction: let biases take up the mean errors of outputs.
        smooth: how far what dense layers read is smoothed, 0 to 1; not at all if None.
        share_scales: the operands and the result of each Add and Concat have one scale.
        count: how many samples of `data` are used, the first ones; all if None.
        test_count: how many of the tests, and labels, likewise.
        divide: values of samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        results: the folder of the records, whose schedules are taken.
        log: a best log with schedules, in place of the records.
        target: a profile; the best of this CPU if None.
        threads: of each library, on as many cores.
        runs: how often each network takes its turn.
        run_s: how long a turn takes.
        device: a board of the inventory, whose times count in place of this machine's.
        inventory: the file with the boards.
        trust: load a .pt2 file, which may run code that is in it.
        report: is told how far it is.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        NoTorchError: torch or onnxscript is not installed.
        UntrustedProgramError: the file runs code when it is loaded, and `trust` is not given.
        FloatModelError: the model can't be read or run, is quantized already, or a tensor has NaN.
        CalibrationError: samples can't be read, or don't fit the model.
        SamplesError: labels can't be read, or don't fit the samples or the model.
        QuantizeSpecError: what is chosen can't be used, no layer has a form to choose, or the board has no times.
        SpecError, BenchSpecError: a number is out of its range.
        ModelError: the network in which all layers are as usual can't be compiled.
        ChoiceError: no network that was tried is within the limit.
        ExportError: the file can't be written.
        InventoryError: the inventory can't be read, or has no such board.
        DeviceStartError, ProvisionError: the board can't be reached, or its agent can't be made.
        UnknownTargetError, NoLinkerError: nothing can be compiled for it.
    """
    require_tuning()
    timing = Timing(runs, run_s)
    require_ranges(threads, timing)
    _require_limits(max_drop, time_s)
    has_sign = is_signed(activations)
    if output is not None:
        require_folder(Path(output))
    options = Options(
        calibration_named(calibration),
        per_tensor,
        has_sign,
        symmetric,
        weight_zero_points,
        tuple(skip),
        equalize,
        round_weights,
        bias_correction,
        smooth,
        share_scales,
    )
    read, data = float_model_of(model, data, trust)
    normalization = Normalization(divide, tuple(mean), tuple(std))
    samples = samples_of(data, count, normalization)
    tests = samples if test is None else samples_of(test, test_count, normalization, is_test=True)
    known = None if labels is None else labels_of(labels, count if test is None else test_count)
    judge = judge_of(read, tests, known)
    timed_on = None if device is None else inventory_of(inventory).board(device)
    if timed_on is not None:
        require_times(timed_on)
    best_log = None if log is None else Path(log)
    with open_place(Path(results), target, threads, best_log) as place:
        board = None if timed_on is None else board_place(timed_on, Path(results), best_log, place.folder)
        model_of_forms = MixedModel(read, samples, options, report)
        found = chosen_by(model_of_forms, tests, judge, place, Limits(max_drop, time_s, timing), report, board)
    if output is not None:
        write_bytes_atomic(Path(output), found.proto.SerializeToString(deterministic=True))
    return ChoiceResult(found, None if output is None else Path(output), max_drop)


def _require_limits(max_drop: float, time_s: float) -> None:
    if not (math.isfinite(max_drop) and 0 <= max_drop <= 100):
        raise SpecError(f"a drop must be 0 to 100 points: {max_drop:g}")
    if not 0 < time_s <= LONGEST_S:
        raise SpecError(f"a time must be above 0 and at most {LONGEST_S:g} s: {time_s:g}")

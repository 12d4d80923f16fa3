"""Ways to quantize a float model, side by side: accuracy and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.report import Report, ignore
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.options import Options
from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.results.forms import REPORT_FORMS, Form, form_of
from int8tune.results.report.schemes import render_schemes, render_schemes_markdown, schemes_as_dict
from int8tune.results.report.schemes_page import render_schemes_page
from int8tune.results.report.tables import Row
from int8tune.results.schemes import SchemeSummary
from int8tune.rpc.request import Timing
from int8tune.tuner.api.boards import inventory_of
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY, DEFAULT_RESULTS
from int8tune.tuner.api.documents import Document, json_text, require_form
from int8tune.tuner.api.frames import frame_of, interval_columns, listed
from int8tune.tuner.bench.run import require_ranges
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.on_board import board_place
from int8tune.tuner.schemes.comparison import Question, compare
from int8tune.tuner.schemes.judged import labels_of
from int8tune.tuner.schemes.place import open_place
from int8tune.tuner.schemes.quantizers import quantizers_named
from int8tune.tuner.schemes.scheme import PER_CHANNEL, schemes_of

if TYPE_CHECKING:
    import pandas

DEFAULT_SCHEMES = ("max", "percentile:99.99", "mse", "kl")


@dataclass(frozen=True, slots=True, repr=False)
class SchemeComparison:
    """Ways to quantize a model: what their compiled libraries answer, and how long they take.

    Attributes:
        summary: the float model, and a row for each scheme.
        page: the report; None if none was written.
    """

    summary: SchemeSummary
    page: Path | None = None

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each scheme; intervals are of 95 %."""
        return frame_of(scheme_rows(self.summary))

    def __str__(self) -> str:
        """The table that the command line shows."""
        return render_schemes(self.summary)

    def __repr__(self) -> str:
        return f"<Comparison of {self.summary.model}: {listed(len(self.summary.rows), 'scheme')}>"


def compare_schemes(
    model: str | Path,
    data: DataLike,
    *,
    test: DataLike | None = None,
    labels: str | Path | Sequence[int] | None = None,
    schemes: str | Sequence[str] = DEFAULT_SCHEMES,
    weights: str | Sequence[str] = PER_CHANNEL,
    activations: str | Sequence[str] = "u8",
    against: str | Sequence[str] = (),
    skip: Sequence[str] = (),
    equalize: bool = True,
    round_weights: bool = True,
    bias_correction: bool = True,
    count: int | None = None,
    test_count: int | None = None,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    page: str | Path | None = None,
    results: str | Path = DEFAULT_RESULTS,
    log: str | Path | None = None,
    target: str | None = None,
    threads: int = 1,
    runs: int = 20,
    run_s: float = 0.02,
    devices: str | Sequence[str] = (),
    inventory: str | Path = DEFAULT_INVENTORY,
    report: Report = ignore,
) -> SchemeComparison:
    """Quantize a float model in several ways, compile each, and compare answers and times with the float model's.

    Answers are those of the compiled library's own integers. Times are taken in turn on the same cores; those of the
    float model are of the fastest runtime that is installed.

    Args:
        model: a float model (.onnx).
        data: samples by which ranges are chosen, as `profile` takes them.
        test: samples on which models are compared; `data` if None.
        labels: the classes of these samples, or a file of them (.npy, .npz); without, nothing is said of top-1.
        schemes: how ranges are chosen: `max`, `percentile[:p]`, `mse`, `kl`; a list, or one text with commas.
        weights: `per-channel`, `per-tensor` or both.
        activations: types of data, `u8`, `s8` or both.
        against: quantizers of others: `onnxruntime`, `openvino`, `nncf`.
        skip: operators that stay in float in all schemes.
        equalize: make channels of data alike before, in all schemes of this library, as the next two.
        round_weights: round weights so that each layer's outputs stay where they were (GPTQ).
        bias_correction: let biases take up the mean errors of outputs.
        count: how many samples choose ranges, the first ones; all if None.
        test_count: how many samples, and labels, models are compared on, the first ones; all if None.
        divide: values of samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        page: a file for a report: `.html` with histograms and the Pareto front, `.md`, `.csv`, `.json` or `.parquet`;
            none if None.
        results: the folder of the records, whose schedules are taken.
        log: a best log with schedules, in place of the records.
        target: a profile; the best of this CPU if None.
        threads: of each library, on as many cores.
        runs: how often each model takes its turn.
        run_s: how long a turn takes.
        devices: boards of the inventory, on which the libraries are run, too: compiled for each, compared bit for bit.
        inventory: the file with the boards.
        report: is told how far it is.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        FloatModelError: the model can't be read or run, or is quantized already.
        CalibrationError: samples can't be read, or don't fit the model.
        SamplesError: labels can't be read, or don't fit the samples or the model.
        QuantizeSpecError: what is chosen can't be used.
        BenchSpecError: a number is out of its range, or a quantizer unknown.
        NoQuantizerError: a quantizer is not installed.
        BenchError: no scheme came to an end.
        UnknownFormError: the report's extension is of no such form.
        ExportError: the report can't be written.
        InventoryError: the inventory can't be read, or has no such board.
        SpecError: models can't run on a board.
        DeviceStartError, ProvisionError: a board can't be reached, or its agent can't be made.
        UnknownTargetError, NoLinkerError: nothing can be compiled for it.
    """
    require_tuning()
    timing = Timing(runs, run_s)
    require_ranges(threads, timing)
    chosen = schemes_of(_several(schemes), _several(weights), _several(activations))
    others = quantizers_named(_several(against))
    if page is not None:
        require_form(Path(page), REPORT_FORMS)
    normalization = Normalization(divide, tuple(mean), tuple(std))
    samples = samples_of(data, count, normalization)
    tests = samples if test is None else samples_of(test, test_count, normalization, is_test=True)
    question = Question(
        model=read_float_model(Path(model)),
        samples=samples,
        tests=tests,
        labels=None if labels is None else labels_of(labels, test_count),
        schemes=chosen,
        options=Options(
            skip=tuple(skip), equalize=equalize, round_weights=round_weights, bias_correction=bias_correction
        ),
        others=others,
        timing=timing,
        with_details=page is not None and form_of(Path(page), REPORT_FORMS) is Form.HTML,
    )
    wanted = [inventory_of(inventory).board(name) for name in dict.fromkeys(_several(devices))]
    best_log = None if log is None else Path(log)
    with open_place(Path(results), target, threads, best_log) as place:
        boards = [board_place(board, Path(results), best_log, place.folder) for board in wanted]
        summary = compare(question, place, report, boards)
    if page is not None:
        _document(summary).write(Path(page))
    return SchemeComparison(summary, None if page is None else Path(page))


def _document(summary: SchemeSummary) -> Document:
    """What can be written of schemes."""
    return Document(
        {
            Form.HTML: lambda: render_schemes_page(summary),
            Form.MARKDOWN: lambda: render_schemes_markdown(summary),
            Form.JSON: lambda: json_text(schemes_as_dict(summary)),
        },
        lambda: scheme_rows(summary),
    )


def scheme_rows(summary: SchemeSummary) -> list[Row]:
    """A row of plain values for each scheme; shares are of 1, times in seconds."""
    fastest = summary.floats[0] if summary.floats else None
    rows = []
    for row in summary.rows:
        top1, top5 = row.answers.top1, row.answers.top5
        found: Row = {"scheme": row.scheme, "runs_in": row.runs_in}
        for name, share in (("top1", top1), ("top5", top5), ("agreement", row.agreement)):
            found |= interval_columns(name, share, "estimate", "low", "high")
        found |= {
            "float_top1": summary.answers.top1.estimate if summary.answers.top1 else None,
            "p_value": row.paired.p_value if row.paired else None,
            "only_float_right": row.paired.only_first if row.paired else None,
            "only_scheme_right": row.paired.only_second if row.paired else None,
            "sqnr_db": row.sqnr_db,
            "calibration_s": row.calibration_s,
            "file_bytes": row.file_bytes,
            "library_bytes": row.library_bytes,
        }
        found |= interval_columns("time_s", row.time, "estimate_s", "low_s", "high_s")
        found |= {"float_runtime": fastest.runtime if fastest else None}
        found |= interval_columns("float_time_s", fastest.time if fastest else None, "estimate_s", "low_s", "high_s")
        found |= interval_columns("speedup", row.speedup, "estimate", "low", "high")
        for board in summary.boards:
            there = next((each.time for each in board.rows if each.label == row.scheme), None)
            found |= interval_columns(f"{board.board}.time_s", there, "estimate_s", "low_s", "high_s")
        rows.append(found | {"failure": row.failure})
    return rows


def _several(given: str | Sequence[str]) -> list[str]:
    texts = given.split(",") if isinstance(given, str) else list(given)
    return [text.strip() for text in texts if text.strip()]

"""Ways to quantize a model: each made, compiled, run on samples, and timed in turn with the float model."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from int8tune.compiler.errors import CompilerError, NoLinkerError
from int8tune.compiler.graph import Graph
from int8tune.compiler.program import Array
from int8tune.compiler.report import Report, ignore, prefixed
from int8tune.quantize.errors import CalibrationError, FloatModelError, QuantizeError, QuantizeSpecError
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.options import Options
from int8tune.quantize.samples.base import Samples
from int8tune.results.schemes import Details, FloatRow, SchemeRow, SchemeSummary
from int8tune.results.stats import ratio_interval
from int8tune.rpc.local.capabilities import cpu_name
from int8tune.rpc.request import Timing
from int8tune.schedules.errors import WorkloadError
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.on_board import BoardPlace
from int8tune.tuner.models.race import Entry, Result
from int8tune.tuner.models.runtimes import OWN as RUNS_COMPILED
from int8tune.tuner.schemes.details import details_of
from int8tune.tuner.schemes.judged import Judge, judge_of
from int8tune.tuner.schemes.library import compiled_library, first_sample, one_at_a_time, run_samples
from int8tune.tuner.schemes.place import Place
from int8tune.tuner.schemes.quantizers import OWN, Made, Quantizer
from int8tune.tuner.schemes.scheme import Scheme
from int8tune.tuner.schemes.timing import TIMING, float_entries, time_in_turn


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared.

    Attributes:
        samples: by which ranges are chosen.
        tests: on which models are compared.
        labels: of the tests; None: nobody knows.
        options: what is the same in all schemes of this library.
        others: quantizers that are compared with it.
        with_details: whether histograms and what is left along the graph are wanted, too.
    """

    model: FloatModel
    samples: Samples
    tests: Samples
    labels: Array | None
    schemes: tuple[Scheme, ...]
    options: Options
    others: tuple[Quantizer, ...] = ()
    timing: Timing = TIMING
    with_details: bool = False


@dataclass(frozen=True, slots=True)
class _Tried:
    """A scheme whose model was made and run; `entry` is None where that failed, and the row says why.

    Attributes:
        graph: what its library was compiled of; None for a model that another runtime runs.
    """

    row: SchemeRow
    entry: Entry | None = None
    made: Made | None = None
    graph: Graph | None = None


def compare(
    question: Question, place: Place, report: Report = ignore, boards: Sequence[BoardPlace] = ()
) -> SchemeSummary:
    """Make, run and time all of it, on boards, too. A scheme that fails is a row that says so.

    Raises:
        FloatModelError: the float model can't be run.
        CalibrationError: samples can't be read, or don't fit the model.
        SamplesError: the labels don't fit the samples or the model.
        BenchError: no scheme came so far that it could be timed.
        DeviceStartError: a board can't be reached any more.
    """
    model = question.model
    report("float model: running samples", 0, 1)
    judge = judge_of(model, question.tests, question.labels)
    wanted = [(OWN, each) for each in OWN.variants(question.schemes)]
    wanted += [(other, each) for other in question.others for each in other.variants(question.schemes)]
    tried = [
        _tried(question, quantizer, variant, judge, place, prefixed(report, f"scheme {number} of {len(wanted)}"))
        for number, (quantizer, variant) in enumerate(wanted, 1)
    ]
    entries = [each.entry for each in tried if each.entry is not None]
    if not entries:
        raise BenchError(f"no scheme came to an end; the first one: {tried[0].row.failure}")
    report("timing", 0, 1)
    sample = first_sample(one_at_a_time(model.inputs), question.tests)
    times = time_in_turn(place, [*entries, *float_entries(place, model.path)], sample, question.timing)
    floats = sorted(times.results[len(entries) :], key=lambda each: each.time_s or math.inf)
    own = dict(zip(entries, times.results, strict=False))
    rows = [each.row if each.entry is None else _timed(each.row, own[each.entry], floats) for each in tried]
    graphs = {each.row.scheme: each.graph for each in tried if each.graph is not None}
    tables = [each.table(each.run(graphs, sample, question.timing, report)) for each in boards]
    details = Details()
    if question.with_details:
        made = {each.row.scheme: each.made for each in tried if each.made is not None}
        details = details_of(model, made, question.tests, report)
    return SchemeSummary(
        model=model.path.name,
        cpu=cpu_name(),
        target=place.target.name,
        threads=place.target.threads,
        calibrated=sum(len(batch[model.inputs[0].name]) for batch in question.samples.batches(model.inputs)),
        tested=len(judge.outputs),
        float_bytes=model.path.stat().st_size,
        answers=judge.answers(judge.outputs),
        floats=tuple(FloatRow(each.entry.label, each.version, each.median_time, each.failure) for each in floats),
        rows=tuple(rows),
        disturbance=times.disturbance,
        boards=tuple(tables),
        details=details,
    )


def _tried(
    question: Question, quantizer: Quantizer, variant: tuple[str, Scheme], judge: Judge, place: Place, report: Report
) -> _Tried:
    """Make a quantized model, compile it, and run it on the tests."""
    runs_in = (quantizer.runtime or RUNS_COMPILED).name
    row = SchemeRow(variant[0], runs_in)
    folder = place.folder / f"model-{len(list(place.folder.glob('model-*')))}"
    folder.mkdir()
    try:
        started_s = time.monotonic()
        path = folder / f"quantized{quantizer.suffix}"
        made = quantizer.make(question.model, question.samples, variant, question.options, path, report)
        row = replace(row, calibration_s=time.monotonic() - started_s, file_bytes=_size_bytes(folder))
        entry, graph = Entry(variant[0], quantizer.runtime or RUNS_COMPILED, path), None
        if quantizer.runtime is None:
            library = compiled_library(place, path, variant[0], report=report)
            entry, graph, row = library.entry, library.graph, replace(row, library_bytes=library.size_bytes)
        outputs, *_ = run_samples(place, entry, one_at_a_time(question.model.inputs), question.tests, report)
    except (CalibrationError, FloatModelError, NoLinkerError, QuantizeSpecError):
        raise  # all schemes would fail
    except (QuantizeError, CompilerError, WorkloadError, BenchError) as error:
        return _Tried(replace(row, failure=" ".join(str(error).split())))
    agreement, sqnr_db = judge.nearness(outputs)
    answers, paired = judge.answers(outputs), judge.paired(outputs)
    row = replace(row, answers=answers, paired=paired, agreement=agreement, sqnr_db=sqnr_db)
    return _Tried(row, entry, made, graph)


def _timed(row: SchemeRow, result: Result, floats: Sequence[Result]) -> SchemeRow:
    """The row with its time, and how much less that is than the fastest runtime's of the float model."""
    if result.failure:
        return replace(row, failure=result.failure)
    fastest = floats[0] if floats and floats[0].times_s else None
    speedup = None if fastest is None else ratio_interval(fastest.times_s, result.times_s)
    return replace(row, time=result.median_time, speedup=speedup)


def _size_bytes(folder: Path) -> int:
    """Bytes of all files of a model: OpenVINO's are two."""
    return sum(each.stat().st_size for each in folder.iterdir())

"""The ranges of a float model's tensors, in two passes over the samples: extremes and moments, then histograms.

No tensor outlives its batch, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from int8tune.quantize.clipped_tensors import NOTHING_CLIPPED, Clipped, clipped_tensors, source_of
from int8tune.quantize.errors import FloatModelError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.ranges import Ranges, TensorRange
from int8tune.quantize.samples.base import Array, Batch, Samples, update_digest
from int8tune.quantize.session import run_session, start_session
from int8tune.quantize.statistics import Extremes, Histogram, UnsteadyError, tensor_range
from int8tune.quantize.tensors import Producer, float_tensors, varying_tensors
from int8tune.results.text import printable

Report = Callable[[str, int, int], None]
# Of the statistics of one batch, which take less than a second.
BATCH_LIMIT_S = 600.0
# Threads for them; the model runs on one more core, and waits for them.
_THREADS = 2
_Kept = Extremes | Histogram


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What one pass over the samples shows: all but histograms.

    Attributes:
        ranges: whose histograms are empty.
    """

    ranges: Ranges
    session: Any
    producers: Mapping[str, Producer]
    extremes: Mapping[str, Extremes]
    clipped: Mapping[str, Clipped]


def profile(model: FloatModel, samples: Samples, report: Report = lambda *_: None) -> Ranges:
    """Run all samples through a model, twice.

    Raises:
        FloatModelError: ONNX Runtime can't run the model, or it has no float tensor.
        CalibrationError: the samples can't be read, or don't fit the model.
    """
    return second_pass(model, samples, first_pass(model, samples, report), report)


def first_pass(model: FloatModel, samples: Samples, report: Report = lambda *_: None) -> FirstPass:
    """Run all samples through a model for the extremes and moments of its tensors.

    Raises:
        FloatModelError: ONNX Runtime can't run the model, or it has no float tensor.
        CalibrationError: the samples can't be read, or don't fit the model.
    """
    varying = varying_tensors(model.proto)
    clipped = clipped_tensors(model.proto, varying)
    session = start_session(model.path, model.proto, [name for name in varying if name not in clipped])
    producers = float_tensors(model.proto, session, lambda name: source_of(name, clipped))
    if not producers:
        raise FloatModelError(f"{shown(model.path)} has no float tensor")
    return first_pass_of(model, session, producers, samples, report, clipped)


def first_pass_of(
    model: FloatModel,
    session: Any,
    producers: Mapping[str, Producer],
    samples: Samples,
    report: Report = lambda *_: None,
    clipped: Mapping[str, Clipped] = NOTHING_CLIPPED,
) -> FirstPass:
    """Run all samples through a session that is there, for the tensors of these names.

    Args:
        clipped: tensors that the session need not give, as they are others within limits.

    Raises:
        FloatModelError: a run fails.
        CalibrationError: the samples can't be read, or don't fit the model.
    """
    extremes = {name: Extremes() for name in producers}
    found = hashlib.sha256()
    total = 0
    for batch in _each_batch(model, session, samples, extremes, clipped):
        update_digest(found, batch, model.inputs)
        total += len(batch[model.inputs[0].name])
        report("extremes of sample", total, 0)
    empty = {name: Histogram(each) for name, each in extremes.items()}
    ranges = Ranges(
        str(model.path),
        model.sha256,
        samples.title,
        found.hexdigest(),
        total,
        _tensors(producers, extremes, empty),
    )
    return FirstPass(ranges, session, producers, extremes, clipped)


def second_pass(model: FloatModel, samples: Samples, first: FirstPass, report: Report = lambda *_: None) -> Ranges:
    """Run the same samples through the same model again, for histograms.

    Raises:
        FloatModelError: ONNX Runtime can't run the model.
        CalibrationError: the samples can't be read any more.
    """
    histograms = {name: Histogram(each) for name, each in first.extremes.items()}
    done = 0
    for batch in _each_batch(model, first.session, samples, histograms, first.clipped):
        done += len(batch[model.inputs[0].name])
        report("histograms of sample", done, first.ranges.samples)
    return replace(first.ranges, tensors=_tensors(first.producers, first.extremes, histograms))


def _tensors(
    producers: Mapping[str, Producer], extremes: Mapping[str, Extremes], histograms: Mapping[str, Histogram]
) -> dict[str, TensorRange]:
    return {
        name: tensor_range(name, producer, extremes[name], histograms[name]) for name, producer in producers.items()
    }


def _each_batch(
    model: FloatModel, session: Any, samples: Samples, kept: Mapping[str, _Kept], clipped: Mapping[str, Clipped]
) -> Iterator[Batch]:
    """Run each batch, while other threads take into account what the one before it has made."""
    made = [name for name in kept if name not in clipped and name not in {each.name for each in model.inputs}]
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: list[Future[None]] = []
        for batch in samples.batches(model.inputs):
            values = {**batch, **dict(zip(made, run_session(model.path, session, made, batch), strict=True))}
            _wait_for(waiting)
            waiting = [pool.submit(_add, name, statistics, values, clipped) for name, statistics in kept.items()]
            yield batch
        _wait_for(waiting)


def _wait_for(waiting: Sequence[Future[None]]) -> None:
    for each in waiting:
        each.result(timeout=BATCH_LIMIT_S)


def _add(name: str, statistics: _Kept, values: Mapping[str, Array], clipped: Mapping[str, Clipped]) -> None:
    try:
        statistics.add(_value_of(name, values, clipped))
    except UnsteadyError:
        raise FloatModelError(f"tensor `{printable(name)}` has other values each time the model runs") from None


def _value_of(name: str, values: Mapping[str, Array], clipped: Mapping[str, Clipped]) -> Array:
    if name in values:
        return values[name]
    how = clipped[name]
    return how.of(_value_of(how.source, values, clipped))

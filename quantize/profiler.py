"""The ranges of a float model's tensors, in two passes over the samples: extremes and moments, then histograms.

No tensor outlives its batch, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from int8tune.quantize.errors import FloatModelError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.samples.base import Array, Batch, Samples, update_digest
from int8tune.quantize.session import run_session, start_session
from int8tune.quantize.statistics import Extremes, Histogram, tensor_range
from int8tune.quantize.tensors import float_tensors, varying_tensors

Report = Callable[[str, int, int], None]
# Of the statistics of one batch, which take less than a second.
BATCH_LIMIT_S = 600.0
_Kept = Extremes | Histogram


def profile(
    model: FloatModel, samples: Samples, report: Report = lambda *_: None, with_histograms: bool = True
) -> Ranges:
    """Run all samples through a model, twice; once where histograms may be empty.

    Raises:
        FloatModelError: ONNX Runtime can't run the model, or it has no float tensor.
        CalibrationError: the samples can't be read, or don't fit the model.
    """
    session = start_session(model.path, model.proto, list(varying_tensors(model.proto)))
    producers = float_tensors(model.proto, session)
    if not producers:
        raise FloatModelError(f"{shown(model.path)} has no float tensor")
    extremes = {name: Extremes() for name in producers}
    found = hashlib.sha256()
    total = 0
    for batch in _each_batch(model, session, samples, extremes):
        update_digest(found, batch, model.inputs)
        total += len(batch[model.inputs[0].name])
        report("extremes of sample", total, 0)
    histograms = {name: Histogram(each) for name, each in extremes.items()}
    done = 0
    for batch in _each_batch(model, session, samples, histograms) if with_histograms else ():
        done += len(batch[model.inputs[0].name])
        report("histograms of sample", done, total)
    tensors = {
        name: tensor_range(name, producer, extremes[name], histograms[name]) for name, producer in producers.items()
    }
    return Ranges(str(model.path), model.sha256, samples.title, found.hexdigest(), total, tensors)


def _each_batch(model: FloatModel, session: Any, samples: Samples, kept: Mapping[str, _Kept]) -> Iterator[Batch]:
    """Run each batch, while another thread takes into account what the one before it has made."""
    made = [name for name in kept if name not in {each.name for each in model.inputs}]
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[None] | None = None
        for batch in samples.batches(model.inputs):
            arrays = dict(zip(made, run_session(model.path, session, made, batch), strict=True))
            if waiting is not None:
                waiting.result(timeout=BATCH_LIMIT_S)
            waiting = pool.submit(_add, kept, {**batch, **arrays})
            yield batch
        if waiting is not None:
            waiting.result(timeout=BATCH_LIMIT_S)


def _add(kept: Mapping[str, _Kept], values: Mapping[str, Array]) -> None:
    for name, statistics in kept.items():
        statistics.add(values[name])

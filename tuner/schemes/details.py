"""What a report draws beside the table: histograms with what each scheme keeps, and the signal along the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from int8tune.compiler.report import Report
from int8tune.quantize.activated_layers import activated_layers
from int8tune.quantize.along import along
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.ranges import BINS, TensorRange
from int8tune.quantize.samples.base import Batch, Samples
from int8tune.results.schemes import Details, TensorHistogram
from int8tune.tuner.schemes.quantizers import Made

# Bars of a drawn histogram; and samples of which the signal along the graph is.
BARS, SAMPLES = 128, 64


def details_of(model: FloatModel, made: Mapping[str, Made], tests: Samples, report: Report) -> Details:
    """The details of quantized models, by their schemes; those that this library did not make have no histograms.

    Raises:
        FloatModelError: ONNX Runtime can't run one of them.
        CalibrationError: the tests can't be read.
    """
    own = {name: each.quantized for name, each in made.items() if each.quantized is not None}
    if not own:
        return Details()
    first = next(iter(own.values()))
    tensors = [layer.tensor for layer in activated_layers(first.prepared.proto)]
    kept_db, samples = {}, 0
    for number, (name, each) in enumerate(own.items()):
        report("signal along the graph", number, len(own))
        batches = list(_first(tests, model))
        samples = sum(len(batch[model.inputs[0].name]) for batch in batches)
        found = along(each.prepared, each.proto, tensors, batches)
        kept_db[name] = tuple(found[tensor] for tensor in tensors)
    names = dict.fromkeys([*(each.name for each in model.inputs), *tensors])
    histograms = [
        _histogram(first.ranges.tensors[name], {scheme: each.thresholds[name] for scheme, each in own.items()})
        for name in names
        if name in first.ranges.tensors
    ]
    return Details(tuple(histograms), tuple(tensors), kept_db, samples)


def _histogram(values: TensorRange, kept: Mapping[str, tuple[float, float]]) -> TensorHistogram:
    counts: Sequence[int] = values.counts.reshape(BARS, BINS // BARS).sum(axis=1).tolist()
    ends = {scheme: (float(low), float(high)) for scheme, (low, high) in kept.items()}
    return TensorHistogram(values.name, values.producer, values.minimum, values.maximum, tuple(counts), ends)


def _first(samples: Samples, model: FloatModel) -> Iterator[Batch]:
    """Batches that have `SAMPLES` samples, or all that there are."""
    count = 0
    for batch in samples.batches(model.inputs):
        yield batch
        count += len(batch[model.inputs[0].name])
        if count >= SAMPLES:
            return

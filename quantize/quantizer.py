"""A float model, samples and choices in; a quantized model out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from int8tune.quantize.comparison import Distance, distance
from int8tune.quantize.equalization import equalized
from int8tune.quantize.errors import FloatModelError, ForeignRangesError, QuantizeSpecError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.options import Calibration, Method, Options
from int8tune.quantize.prepared import prepared
from int8tune.quantize.profiler import profile
from int8tune.quantize.qdq import quantized, skipped_nodes
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.refinement import refined
from int8tune.quantize.samples.base import Batch, Samples
from int8tune.quantize.tensors import INPUT
from int8tune.quantize.thresholds import Threshold, threshold
from int8tune.results.text import printable

Report = Callable[[str, int, int], None]

# Samples by which weights and biases are chosen: more bring little.
REFINED_WITH = 64


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized model.

    Attributes:
        proto: an `onnx.ModelProto` in the form QDQ.
        ranges: of the tensors as they are quantized: after their channels were made alike.
        thresholds: which part of its range each of them has in the quantized model.
        gone: the tensor that has taken the place of each one that no longer exists.
        distance: from the float model, over the samples; None where there were none.
    """

    proto: Any
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    gone: Mapping[str, str]
    distance: Distance | None


def quantize(
    model: FloatModel,
    samples: Samples | None,
    options: Options,
    ranges: Ranges | None = None,
    report: Report = lambda *_: None,
) -> Quantized:
    """Quantize a model by the ranges of its tensors, which its samples show unless they are given.

    Raises:
        FloatModelError: the model can't be run, or a tensor that is to be quantized has NaN or infinity.
        CalibrationError: the samples can't be read, or don't fit the model.
        ForeignRangesError: the ranges are of another model.
        QuantizeSpecError: there are neither samples nor ranges, or an operator to be skipped is not there.
        QuantizeError: the model can't be rewritten.
    """
    ready = prepared(model)
    skipped_nodes(ready.proto, options.skip)
    runnable, found = _equalized(replace(model, proto=ready.proto), samples, options, ranges, report)
    _refuse_nan(model, found, options)
    thresholds = {
        name: threshold(each, _calibration(each.producer, options), options.symmetric)
        for name, each in found.tensors.items()
    }
    made = quantized(runnable.proto, thresholds, options)
    apart = None
    if samples is not None:
        if options.round_weights or options.bias_correction:
            made = refined(runnable, made, lambda: _first(samples, runnable), options, report)
        apart = distance(model, made, samples.batches(model.inputs))
    _describe(made, found, options)
    return Quantized(made, found, thresholds, ready.gone | _removed(ready.proto, made), apart)


def _equalized(
    model: FloatModel, samples: Samples | None, options: Options, ranges: Ranges | None, report: Report
) -> tuple[FloatModel, Ranges]:
    """The model whose channels are alike, where that is wanted and there are samples, and the ranges of its tensors."""
    if samples is None or not options.equalize:
        return model, _ranges(model, samples, ranges, report)
    before = _ranges(model, samples, ranges, report, with_histograms=False)
    _refuse_nan(model, before, options)
    proto, factors = equalized(model.proto, before.tensors)
    if ranges is not None and not factors:
        return model, ranges
    model = replace(model, proto=proto)
    return model, profile(model, samples, report)


def _first(samples: Samples, model: FloatModel) -> Iterator[Batch]:
    """Batches that have `REFINED_WITH` samples, or all that there are."""
    count = 0
    for batch in samples.batches(model.inputs):
        yield batch
        count += len(batch[model.inputs[0].name])
        if count >= REFINED_WITH:
            return


def _ranges(
    model: FloatModel, samples: Samples | None, ranges: Ranges | None, report: Report, with_histograms: bool = True
) -> Ranges:
    if ranges is not None:
        if ranges.model_sha256 != model.sha256:
            raise ForeignRangesError(f"the ranges are of {shown(ranges.model)}, not of {shown(model.path)}")
        return ranges
    if samples is None:
        raise QuantizeSpecError("samples are needed, or ranges that were made before: --data FILE or --ranges FILE")
    return profile(model, samples, report, with_histograms)


def _calibration(producer: str, options: Options) -> Calibration:
    """Inputs, such as pixels, often end where their type does: clipping them costs more than it brings."""
    return Calibration(Method.MAX) if producer == INPUT else options.calibration


def _refuse_nan(model: FloatModel, ranges: Ranges, options: Options) -> None:
    for each in ranges.tensors.values():
        if (each.nan or each.infinite) and not {each.name, each.node} & set(options.skip):
            what = f"tensor `{printable(each.name)}`, made by {printable(each.producer)}, has {each.nan:,} NaN"
            where = f"leave it in float: --skip {printable(each.name)}"
            raise FloatModelError(f"{shown(model.path)}: {what} and {each.infinite:,} infinities; {where}")


def _removed(proto: Any, made: Any) -> dict[str, str]:
    """Tensors in front of a Relu or Clip that became a part of the layer before it."""
    there = {name for node in made.graph.node for name in (*node.input, *node.output)}
    kept = {node.name for node in made.graph.node}
    return {
        node.input[0]: node.output[0]
        for node in proto.graph.node
        if node.op_type in ("Relu", "Clip") and node.name not in kept and node.input[0] not in there
    }


def _describe(made: Any, ranges: Ranges, options: Options) -> None:
    about = {
        "float_model_sha256": ranges.model_sha256,
        "calibration_sha256": ranges.data_sha256,
        "calibration": f"{options.calibration}, {ranges.samples} samples",
        "steps": ", ".join(name for name in ("equalize", "round_weights", "bias_correction") if getattr(options, name)),
    }
    made.producer_name = "int8tune"
    for name, value in about.items():
        made.metadata_props.add(key=f"int8tune.{name}", value=value)

"""A float model, samples and choices in; a quantized model out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from int8tune.quantize.calibrated import Calibrated, calibrated
from int8tune.quantize.comparison import Distance, distance
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.options import Options
from int8tune.quantize.profiler import Report
from int8tune.quantize.qdq import quantized
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.refinement import refined
from int8tune.quantize.samples.base import FirstSamples, Samples
from int8tune.quantize.thresholds import Threshold

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
        prepared: the float model that it was made of, with its channels made alike where that was wanted.
    """

    proto: Any
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    gone: Mapping[str, str]
    distance: Distance | None
    prepared: FloatModel


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
    ready = calibrated(model, samples, options, ranges, report)
    made = written(ready, samples, options, report)
    apart = None if samples is None else distance(model, made, samples.batches(model.inputs))
    gone = {**ready.gone, **_removed(ready.model.proto, made)}
    return Quantized(made, ready.ranges, ready.thresholds, gone, apart, ready.model)


def written(ready: Calibrated, samples: Samples | None, options: Options, report: Report) -> Any:
    """A model in the form QDQ, whose weights and biases the samples have chosen where there are any.

    Raises:
        FloatModelError, CalibrationError, QuantizeSpecError, QuantizeError: as `quantize`.
    """
    made = quantized(ready.model.proto, ready.thresholds, options, extremes=ready.extremes)
    if samples is not None:
        made = with_chosen_weights(ready, made, samples, options, report)
    _describe(made, ready.ranges, options)
    return made


def with_chosen_weights(ready: Calibrated, made: Any, samples: Samples, options: Options, report: Report) -> Any:
    """A QDQ model whose weights and biases the samples have chosen, where the options want that; it is changed."""
    if not options.round_weights and not options.bias_correction:
        return made
    first = FirstSamples(samples, REFINED_WITH)
    return refined(ready.model, made, lambda: first.batches(ready.model.inputs), options, report)


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
        "forms": ", ".join(f"{name}: {form}" for name, form in options.forms.items()),
        "steps": ", ".join(name for name in ("equalize", "round_weights", "bias_correction") if getattr(options, name)),
    }
    made.producer_name = "int8tune"
    for name, value in about.items():
        if not value and name == "forms":
            continue
        made.metadata_props.add(key=f"int8tune.{name}", value=value)

"""A float model, samples and choices in; a quantized model out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from int8tune.quantize.blas_threads import one_blas_thread
from int8tune.quantize.calibrated import CHOSEN_WITH, Calibrated, calibrated
from int8tune.quantize.comparison import Distance, distance
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.options import Calibration, Options, chosen_by
from int8tune.quantize.profiler import Report
from int8tune.quantize.qdq import quantized
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.refinement import refined
from int8tune.quantize.samples.base import FirstSamples, Samples
from int8tune.quantize.thresholds import Threshold
from int8tune.results.folded_names import FOLDED_KEY, folded_text


@dataclass(frozen=True, slots=True)
class Quantized:
    """A quantized model.

    Attributes:
        proto: an `onnx.ModelProto` in the form QDQ.
        ranges: of the tensors as they are quantized: after their channels were made alike.
        thresholds: which part of its range each of them has in the quantized model.
        rule: by which these were chosen; with `global`, the one that was found best.
        gone: the tensor that has taken the place of each one that no longer exists.
        folded: the operator that each one has become a part of, by the names of both.
        distance: from the float model, over the samples; None where there were none.
        prepared: the float model that it was made of, with its channels made alike where that was wanted.
    """

    proto: Any
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    rule: Calibration
    gone: Mapping[str, str]
    folded: Mapping[str, str]
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
    made = quantized(ready.model.proto, ready.thresholds, options, extremes=ready.extremes)
    if samples is not None:
        made = with_chosen_weights(ready, made, samples, options, report)
    removed = _removed(ready.model.proto, made)
    gone = {**ready.gone, **{node.input[0]: node.output[0] for node in removed}}
    folded = _folded(ready, made, removed)
    _describe(made, ready, options, folded)
    apart = None if samples is None else distance(model, made, samples.batches(model.inputs))
    return Quantized(made, ready.ranges, ready.thresholds, ready.rule, gone, folded, apart, ready.model)


def written(ready: Calibrated, samples: Samples | None, options: Options, report: Report) -> Any:
    """A model in the form QDQ, whose weights and biases the samples have chosen where there are any.

    Raises:
        FloatModelError, CalibrationError, QuantizeSpecError, QuantizeError: as `quantize`.
    """
    made = quantized(ready.model.proto, ready.thresholds, options, extremes=ready.extremes)
    if samples is not None:
        made = with_chosen_weights(ready, made, samples, options, report)
    _describe(made, ready, options, _folded(ready, made, _removed(ready.model.proto, made)))
    return made


def with_chosen_weights(ready: Calibrated, made: Any, samples: Samples, options: Options, report: Report) -> Any:
    """A QDQ model whose weights and biases the samples have chosen, where the options want that; it is changed."""
    if not options.round_weights and not options.bias_correction:
        return made
    first = FirstSamples(samples, CHOSEN_WITH)
    with one_blas_thread():
        return refined(ready.model, made, lambda: first.batches(ready.model.inputs), options, report)


def _folded(ready: Calibrated, made: Any, removed: Sequence[Any]) -> dict[str, str]:
    """Operators that became a part of another one, with the name of that."""
    makers = {name: node.name for node in made.graph.node for name in node.output}
    return {**ready.folded, **{node.name: makers[node.output[0]] for node in removed if node.output[0] in makers}}


def _removed(proto: Any, made: Any) -> list[Any]:
    """Each Relu or Clip that became a part of the operator before it."""
    there = {name for node in made.graph.node for name in (*node.input, *node.output)}
    kept = {node.name for node in made.graph.node}
    return [
        node
        for node in proto.graph.node
        if node.op_type in ("Relu", "Clip") and node.name not in kept and node.input[0] not in there
    ]


def _describe(made: Any, ready: Calibrated, options: Options, folded: Mapping[str, str]) -> None:
    taken = ("equalizes", "round_weights", "bias_correction", "share_scales")
    steps = [] if options.smooth is None else [f"smooth {options.smooth:g}"]
    steps += [name.replace("equalizes", "equalize") for name in taken if getattr(options, name)]
    about = {
        "int8tune.float_model_sha256": ready.ranges.model_sha256,
        "int8tune.calibration_sha256": ready.ranges.data_sha256,
        "int8tune.calibration": f"{chosen_by(options.calibration, ready.rule)}, {ready.ranges.samples} samples",
        "int8tune.steps": ", ".join(steps),
        FOLDED_KEY: folded_text(folded),
    }
    if options.forms:
        about["int8tune.forms"] = ", ".join(f"{name}: {form}" for name, form in options.forms.items())
    made.producer_name = "int8tune"
    for name, value in about.items():
        made.metadata_props.add(key=name, value=value)

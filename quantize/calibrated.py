"""A float model that is ready to be quantized, with what its tensors were on samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from int8tune.quantize.equalization import equalized
from int8tune.quantize.errors import FloatModelError, ForeignRangesError, QuantizeSpecError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.global_rule import best_rule
from int8tune.quantize.options import Calibration, Method, Options
from int8tune.quantize.prepared import prepared
from int8tune.quantize.profiler import Report, first_pass, profile, second_pass
from int8tune.quantize.qdq import skipped_nodes
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.samples.base import FirstSamples, Samples
from int8tune.quantize.shared_scales import with_shared_scales
from int8tune.quantize.smoothing import smoothed
from int8tune.quantize.tensors import INPUT
from int8tune.quantize.thresholds import Threshold, threshold
from int8tune.results.text import printable

# Samples by which weights, biases and a rule for all ranges are chosen: more bring little.
CHOSEN_WITH = 64


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a quantized model is written from.

    Attributes:
        model: the float model, prepared, with its channels made alike where that is wanted.
        ranges: of its tensors.
        thresholds: which part of its range each of them has in a quantized model.
        rule: by which they were chosen.
        gone: the tensor that has taken the place of each one of the user's file that no longer exists.
        folded: the operator that each one of the user's file has become a part of.
    """

    model: FloatModel
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    rule: Calibration
    gone: Mapping[str, str]
    folded: Mapping[str, str]

    @property
    def extremes(self) -> Mapping[str, Threshold]:
        """The whole range of each tensor, with zero."""
        return {
            name: Threshold(min(0.0, each.minimum), max(0.0, each.maximum))
            for name, each in self.ranges.tensors.items()
        }


def calibrated(
    model: FloatModel, samples: Samples | None, options: Options, ranges: Ranges | None, report: Report
) -> Calibrated:
    """Prepare a model, and choose the ranges of its quantized values.

    Raises:
        FloatModelError: the model can't be run, or a tensor that is to be quantized has NaN or infinity.
        CalibrationError: the samples can't be read, or don't fit the model.
        ForeignRangesError: the ranges are of another model.
        QuantizeSpecError: there are neither samples nor ranges, an option needs samples, or there is no operator to be
            skipped.
    """
    if samples is None:
        _refuse_without_samples(options)
    ready = prepared(model)
    left_out = frozenset(skipped_nodes(ready.proto, options.skip))
    runnable = replace(model, proto=ready.proto)
    if samples is not None and options.smooth is not None:
        proto, factors = smoothed(runnable, lambda: samples.batches(model.inputs), options.smooth)
        runnable, ranges = replace(model, proto=proto), None if factors else ranges
    runnable, found = _equalized(runnable, samples, options, ranges, report)
    _refuse_nan(model, found, options)

    def thresholds(rule: Calibration) -> dict[str, Threshold]:
        chosen = {
            name: threshold(each, _calibration(each.producer, rule), options.symmetric)
            for name, each in found.tensors.items()
        }
        return (
            with_shared_scales(runnable.proto.graph, chosen, options.symmetric, left_out)
            if options.share_scales
            else chosen
        )

    rule = options.calibration
    if samples is not None and rule.method is Method.GLOBAL:
        first = FirstSamples(samples, CHOSEN_WITH)
        rule = best_rule(runnable, thresholds, lambda: first.batches(model.inputs), options, report)
    return Calibrated(runnable, found, thresholds(rule), rule, ready.gone, ready.folded)


def _equalized(
    model: FloatModel, samples: Samples | None, options: Options, ranges: Ranges | None, report: Report
) -> tuple[FloatModel, Ranges]:
    """The model whose channels are alike, where that is wanted and there are samples, and the ranges of its tensors."""
    if ranges is not None and ranges.model_sha256 != model.sha256:
        raise ForeignRangesError(f"the ranges are of {shown(ranges.model)}, not of {shown(model.path)}")
    if samples is None:
        if ranges is None:
            raise QuantizeSpecError("samples are needed, or ranges that were made before: --data FILE or --ranges FILE")
        return model, ranges
    if not options.equalizes:
        return model, ranges or profile(model, samples, report)
    first = None if ranges is not None else first_pass(model, samples, report)
    before = ranges if first is None else first.ranges
    assert before is not None
    _refuse_nan(model, before, options)
    proto, factors = equalized(model.proto, before.tensors)
    if factors:
        changed = replace(model, proto=proto)
        return changed, profile(changed, samples, report)
    return model, before if first is None else second_pass(model, samples, first, report)


def _refuse_without_samples(options: Options) -> None:
    needing = {
        "--calibration global": options.calibration.method is Method.GLOBAL,
        "--smooth": options.smooth is not None,
    }
    for name, is_chosen in needing.items():
        if is_chosen:
            raise QuantizeSpecError(f"{name} runs the model on samples, ranges alone are not enough: add --data FILE")


def _calibration(producer: str, rule: Calibration) -> Calibration:
    """Inputs, such as pixels, often end where their type does: clipping them costs more than it brings."""
    return Calibration(Method.MAX) if producer == INPUT else rule


def _refuse_nan(model: FloatModel, ranges: Ranges, options: Options) -> None:
    for each in ranges.tensors.values():
        if each.fault and not {each.name, each.node} & set(options.skip):
            where = f"leave it in float: --skip {printable(each.name)}"
            raise FloatModelError(f"{shown(model.path)}: {printable(each.fault)}; {where}")

"""A float model that is ready to be quantized, with what its tensors were on samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from int8tune.quantize.equalization import equalized
from int8tune.quantize.errors import FloatModelError, ForeignRangesError, QuantizeSpecError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.options import Calibration, Method, Options
from int8tune.quantize.prepared import prepared
from int8tune.quantize.profiler import Report, profile
from int8tune.quantize.qdq import skipped_nodes
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.samples.base import Samples
from int8tune.quantize.tensors import INPUT
from int8tune.quantize.thresholds import Threshold, threshold
from int8tune.results.text import printable


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a quantized model is written from.

    Attributes:
        model: the float model, prepared, with its channels made alike where that is wanted.
        ranges: of its tensors.
        thresholds: which part of its range each of them has in a quantized model.
        gone: the tensor that has taken the place of each one of the user's file that no longer exists.
    """

    model: FloatModel
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    gone: Mapping[str, str]

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
        QuantizeSpecError: there are neither samples nor ranges, or an operator to be skipped is not there.
    """
    ready = prepared(model)
    skipped_nodes(ready.proto, options.skip)
    runnable, found = _equalized(replace(model, proto=ready.proto), samples, options, ranges, report)
    _refuse_nan(model, found, options)
    thresholds = {
        name: threshold(each, _calibration(each.producer, options), options.symmetric)
        for name, each in found.tensors.items()
    }
    return Calibrated(runnable, found, thresholds, ready.gone)


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
        if each.fault and not {each.name, each.node} & set(options.skip):
            where = f"leave it in float: --skip {printable(each.name)}"
            raise FloatModelError(f"{shown(model.path)}: {printable(each.fault)}; {where}")

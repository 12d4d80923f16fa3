"""Float TFLite models made into quantized ones: written by ai-edge-quantizer, by ranges that are chosen here.

Data is s8 with zero points, weights are s8 with a scale for each channel: the scheme of LiteRT's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.quantize.comparison import Apart, Distance
from int8tune.quantize.errors import ForeignRangesError, NoTfliteError, QuantizeError, QuantizeSpecError
from int8tune.quantize.float_model import one_line, quiet, shown
from int8tune.quantize.options import Calibration, Method, Options
from int8tune.quantize.profiler import Report, first_pass_of, second_pass
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.samples.base import Samples
from int8tune.quantize.tensors import INPUT
from int8tune.quantize.tflite_models import FloatTflite, LiteRtSession
from int8tune.quantize.thresholds import Threshold, threshold


@dataclass(frozen=True, slots=True)
class QuantizedTflite:
    """A quantized model.

    Attributes:
        content: the file.
        ranges: of the float model's tensors.
        thresholds: which part of its range each of them has.
        distance: from the float model, over the samples; None where there were none.
    """

    content: bytes
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    distance: Distance | None


def profile_tflite(tflite: FloatTflite, samples: Samples, report: Report = lambda *_: None) -> Ranges:
    """Run all samples through a model, twice.

    Raises:
        FloatModelError: LiteRT can't run the model.
        CalibrationError: the samples can't be read, or don't fit the model.
    """
    session = LiteRtSession(tflite.model.path, tflite.content)
    first = first_pass_of(tflite.model, session, tflite.producers, samples, report)
    return second_pass(tflite.model, samples, first, report)


def quantize_tflite(
    tflite: FloatTflite,
    samples: Samples | None,
    options: Options,
    ranges: Ranges | None = None,
    report: Report = lambda *_: None,
) -> QuantizedTflite:
    """Quantize a model by the ranges of its tensors, which its samples show unless they are given.

    Weights are rounded to the nearest, channels and biases stay as they are, whatever the options say of these steps.

    Raises:
        NoTfliteError: ai-edge-quantizer is not installed.
        FloatModelError: LiteRT can't run the model.
        CalibrationError: the samples can't be read, or don't fit the model.
        ForeignRangesError: the ranges are of another model.
        QuantizeSpecError: an option is not for TFLite, or there are neither samples nor ranges.
        QuantizeError: the model can't be rewritten.
    """
    _refuse_others(options)
    _quantizer()
    if ranges is not None and ranges.model_sha256 != tflite.model.sha256:
        raise ForeignRangesError(f"the ranges are of {shown(ranges.model)}, not of {shown(tflite.model.path)}")
    if ranges is None:
        if samples is None:
            raise QuantizeSpecError("samples are needed, or ranges that were made before: --data FILE or --ranges FILE")
        ranges = profile_tflite(tflite, samples, report)
    whole = Calibration(Method.MAX)
    thresholds = {
        name: threshold(each, whole if each.producer == INPUT else options.calibration)
        for name, each in ranges.tensors.items()
    }
    content = _written(tflite, ranges, thresholds)
    return QuantizedTflite(
        content, ranges, thresholds, None if samples is None else _distance(tflite, content, samples)
    )


def _refuse_others(options: Options) -> None:
    others = {
        "--calibration global": options.calibration.method is Method.GLOBAL,
        "--per-tensor": options.per_tensor,
        "--symmetric": options.symmetric,
        "--skip": bool(options.skip),
        "--smooth": options.smooth is not None,
        "--share-scales": options.share_scales,
    }
    for name, is_chosen in others.items():
        if is_chosen:
            raise QuantizeSpecError(f"{name} is for ONNX models; a TFLite model has s8 data and scales of channels")


def _written(tflite: FloatTflite, ranges: Ranges, thresholds: Mapping[str, Threshold]) -> bytes:
    quantizer, recipe = _quantizer()
    known = {}
    for name, each in thresholds.items():
        ones = [1] * len(ranges.tensors[name].shape)
        known[name] = {"min": np.full(ones, each.low, np.float32), "max": np.full(ones, each.high, np.float32)}
    with quiet():
        try:
            writer = quantizer.Quantizer(bytearray(tflite.content), recipe.static_wi8_ai8())
            return bytes(
                writer.quantize(known, enable_progress_bar=False, enable_progress_report=False).quantized_model
            )
        except Exception as error:  # its classes are not public
            what = f"{shown(tflite.model.path)}: ai-edge-quantizer can't rewrite it"
            raise QuantizeError(f"{what}: {one_line(error)}") from None


def _distance(tflite: FloatTflite, content: bytes, samples: Samples) -> Distance:
    sessions = [LiteRtSession(tflite.model.path, each) for each in (tflite.content, content)]
    apart = Apart()
    for batch in samples.batches(tflite.model.inputs):
        apart.add(*(session.run([next(iter(session.outputs))], batch)[0] for session in sessions))
    return apart.distance


def _quantizer() -> tuple[Any, Any]:
    try:
        from ai_edge_quantizer import quantizer, recipe
    except ImportError as error:
        raise NoTfliteError(f"not installed: {error.name}") from None
    return quantizer, recipe

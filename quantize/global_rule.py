"""One rule for the ranges of all tensors, chosen by what the whole network makes of the samples.

The other methods look at one tensor after the other. Here a rule is tried as a whole, such as "99.99 percent of the
values of each tensor": the network is written by it and run. (TVM's `global_scale` gives all tensors one and the same
range, which suits none whose tensors differ; one rule for all of them is what is left of that idea.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from int8tune.quantize.comparison import Distance, distance
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.options import Calibration, Method, Options
from int8tune.quantize.profiler import Report
from int8tune.quantize.qdq import quantized, weight_scales
from int8tune.quantize.samples.base import Batch
from int8tune.quantize.thresholds import Threshold

_PERCENTILES = (99.9999, 99.9995, 99.999, 99.995, 99.99, 99.95)
RULES = (
    Calibration(Method.MSE),
    Calibration(Method.MAX),
    *(Calibration(Method.PERCENTILE, percentile) for percentile in _PERCENTILES),
)


def best_rule(
    model: FloatModel,
    thresholds: Callable[[Calibration], Mapping[str, Threshold]],
    batches: Callable[[], Iterator[Batch]],
    options: Options,
    report: Report,
) -> Calibration:
    """The rule whose quantized network has the best signal to quantization noise at its first output.

    Weights are rounded to the nearest and biases stay as they are, whatever is done with them later.

    Args:
        model: a prepared float model.
        thresholds: what a rule makes of its tensors.
        batches: a few samples, each time the same.
    """
    scales = weight_scales(model.proto, options)
    found: list[tuple[float, Calibration]] = []
    tried: list[Mapping[str, Threshold]] = []
    for number, rule in enumerate(RULES):
        report("rules for ranges", number + 1, len(RULES))
        chosen = thresholds(rule)
        if chosen in tried:
            continue
        tried.append(chosen)
        made = quantized(model.proto, chosen, options, scales)
        found.append((_decibels(distance(model, made, batches())), rule))
    return max(found, key=lambda each: each[0])[1]


def _decibels(apart: Distance) -> float:
    return math.inf if apart.sqnr_db is None else apart.sqnr_db

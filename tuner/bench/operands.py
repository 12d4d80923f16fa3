"""The values that contestants compute a layer with: like those between two layers of a trained network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import RANGES, RoundingRule
from int8tune.schedules.operands import DTYPES, Addend, Operands, quantize_addition, quantize_multiplier, split_scale
from int8tune.schedules.workload import Workload

RealArray = npt.NDArray[np.float64]

# Outputs lie around the middle of their 256 steps, most of them within a few of these.
MIDDLE_STEPS, DEVIATION_STEPS = 128.0, 40.0
# Root mean square of 0 to 255, and standard deviation of -64 to 63.
DATA_RMS, WEIGHT_DEVIATION = 147.4, 36.9
# Of the fused rule; kernels take the same time with any.
OFFSET = 2.0**-12
# How far the bounds of a clamp are from those of the type.
CLAMP_MARGIN = 10


def layer_operands(workload: Workload, seed: int = 0) -> Operands:
    """Random values, always the same ones for a seed.

    Zero points of data and output are the lowest values, as behind a ReLU: no library has an easier case. Weights have
    7 bits: on CPUs without VNNI some libraries saturate sums of two products, and all mean to be used like that there.
    """
    numerics = workload.numerics
    rng = np.random.default_rng([seed, *workload.key.encode()])
    data = _random(workload.data_shape, numerics.data, rng)
    weight = _random(workload.weight_shape, numerics.weight, rng) >> 1
    weight_zero_point = (sum(RANGES[numerics.weight]) + 1) // 4 if numerics.weight_zero_point else 0
    sums = (weight.reshape(workload.out_channels, -1).astype(np.float64) - weight_zero_point).sum(axis=1)
    factors = _factors(workload, rng)
    clamp_low, clamp_high = _bounds(numerics.output, numerics.clamp)
    return Operands(
        data=data,
        weight=weight,
        bias=np.rint(MIDDLE_STEPS / factors - sums * MIDDLE_STEPS).astype(np.int32),
        clamp_low=clamp_low,
        clamp_high=clamp_high,
        data_zero_point=RANGES[numerics.data][0],
        weight_zero_point=weight_zero_point,
        output_zero_point=RANGES[numerics.output][0] if numerics.requantize else 0,
        residual=_residual(workload, rng),
        **_rescale(workload, factors),
    )


def _random(shape: Sequence[int], kind: str, rng: np.random.Generator) -> npt.NDArray[np.uint8 | np.int8]:
    low, high = RANGES[kind]
    return rng.integers(low, high + 1, shape).astype(DTYPES[kind])


def _bounds(kind: str, has_clamp: bool) -> tuple[int, int]:
    low, high = RANGES[kind]
    return (low + CLAMP_MARGIN, high - CLAMP_MARGIN) if has_clamp else (low, high)


def _factors(workload: Workload, rng: np.random.Generator) -> RealArray:
    """What sums are multiplied by, so that their deviation becomes that of the outputs, more or less."""
    requantize = workload.numerics.requantize
    count = workload.out_channels if requantize and requantize.per_channel else 1
    deviation = math.sqrt(workload.reduction) * DATA_RMS * WEIGHT_DEVIATION
    return DEVIATION_STEPS / deviation * rng.uniform(0.8, 1.2, count)


def _rescale(workload: Workload, factors: RealArray) -> dict[str, Any]:
    """The factors in the form of the rounding rule; exceptions are sums in the middle."""
    requantize = workload.numerics.requantize
    if requantize is None:
        return {}
    if requantize.rule == "fixed":
        multiplier, shift = np.array([quantize_multiplier(float(factor)) for factor in factors], np.int32).T
        return {"multiplier": np.ascontiguousarray(multiplier), "shift": np.ascontiguousarray(shift)}
    scale, rest = split_scale(factors)
    values: dict[str, Any] = {"scale": scale}
    if requantize.rule != "float":
        values["offset"] = np.full_like(values["scale"], OFFSET)
    if requantize.rule == "fine":
        values["rest"] = rest
    if requantize.exceptions:
        values["exception"] = np.rint(MIDDLE_STEPS / factors).astype(np.int32)
        values["exception_offset"] = np.ones_like(values["offset"])
    return values


def _residual(workload: Workload, rng: np.random.Generator) -> Addend | None:
    """A tensor of the same scale as the layer's own output, and a sum of twice that scale."""
    numerics = workload.numerics
    if numerics.residual is None or numerics.addition_rule is None:
        return None
    clamp_low, clamp_high = _bounds(numerics.output, numerics.residual.clamp)
    return Addend(
        data=_random(workload.output_shape, numerics.residual.data, rng),
        clamp_low=clamp_low,
        clamp_high=clamp_high,
        zero_point=RANGES[numerics.residual.data][0],
        sum_zero_point=RANGES[numerics.output][0],
        **_addition(numerics.addition_rule, RANGES[numerics.residual.data][0], RANGES[numerics.output][0]),
    )


def _addition(rule: RoundingRule, zero_point: int, sum_zero_point: int) -> dict[str, Any]:
    """The mean of both, in the form of the rounding rule; the own output's zero point is that of the sum."""
    if rule == "fixed":
        multiplier, shift = quantize_addition(1.0, 1.0, 2.0)
        return {"multiplier": multiplier, "shift": shift}
    ratio = np.full(2, 0.5, np.float32)
    if rule == "float":
        return {"ratio": ratio}
    return {"ratio": ratio, "constant": np.array([(sum_zero_point - zero_point) / 2], np.float32)}

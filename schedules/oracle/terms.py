"""What adversarial cases are put together from: a layer's terms, their ranges, and operands whose sums are aimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import RANGES, Requantize, RoundingRule
from int8tune.schedules.operands import (
    DTYPES,
    FUSED_SCALE_LIMIT,
    MAX_SCALE,
    MIN_SCALE,
    ByteArray,
    Operands,
    quantize_multiplier,
    split_scale,
)
from int8tune.schedules.oracle.addition import narrowed_range
from int8tune.schedules.oracle.drills import EXCEPTIONS
from int8tune.schedules.oracle.exact_products import LongArray
from int8tune.schedules.workload import Workload

RealArray = npt.NDArray[np.float64]

INT32_MIN, INT32_MAX = RANGES["s32"]


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a layer sums, and the zero point of what it stores."""

    data: ByteArray
    weight: ByteArray
    data_zero_point: int
    weight_zero_point: int
    output_zero_point: int


def assemble(
    workload: Workload,
    terms: Terms,
    sums: LongArray,
    factors: RealArray,
    shifts: LongArray,
    clamp: tuple[int, int],
    offsets: RealArray,
) -> Operands:
    """Operands whose biases shift the sums of each channel, as far as int32 allows."""
    smallest, largest = sums.min(axis=0), sums.max(axis=0)
    bias = np.clip(shifts, INT32_MIN - np.minimum(smallest, 0), INT32_MAX - np.maximum(largest, 0))
    magnitude = np.maximum(np.abs(smallest + bias), np.abs(largest + bias))
    return Operands(
        data=terms.data,
        weight=terms.weight,
        bias=bias.astype(np.int32),
        clamp_low=clamp[0],
        clamp_high=clamp[1],
        data_zero_point=terms.data_zero_point,
        weight_zero_point=terms.weight_zero_point,
        output_zero_point=terms.output_zero_point,
        **_rescale(workload, factors, magnitude),
        **_rest_of_fused(workload, offsets, sums, bias),
    )


def _rest_of_fused(workload: Workload, offsets: RealArray, sums: LongArray, bias: LongArray) -> dict[str, Any]:
    """What the fused and the fine rule take beside scales; exceptions are at the last position, whose sums are rare."""
    requantize = workload.numerics.requantize
    if requantize is None or requantize.rule not in ("fused", "fine"):
        return {}
    entries = workload.out_channels if requantize.per_channel else 1
    offset = {"offset": offsets[:entries].astype(np.float32)}
    if not requantize.exceptions:
        return offset
    distance = np.resize(np.array(EXCEPTIONS), entries)
    # Not 0, whose own drill is about the sign of its offset.
    exception = np.clip(np.abs((sums[-1] + bias)[:entries] + distance), 1, INT32_MAX).astype(np.int32)
    # Half a step from the other offset at least.
    another = np.where(offset["offset"] > 0.5, 0, 1).astype(np.float32)
    return {**offset, "exception": exception, "exception_offset": another}


def _rescale(workload: Workload, factors: RealArray, magnitude: LongArray) -> dict[str, Any]:
    """The factors in the form of the rounding rule; `magnitude` limits left shifts, which must not wrap."""
    requantize = workload.numerics.requantize
    if requantize is None:
        return {}
    if not requantize.per_channel:
        factors, magnitude = factors[:1], magnitude.max(keepdims=True)
    if requantize.rule != "fixed":
        largest = MAX_SCALE if requantize.rule == "float" else FUSED_SCALE_LIMIT - 2.0**-24
        within = np.clip(factors, MIN_SCALE, largest)
        scale, rest = split_scale(within)
        return {"scale": scale, "rest": rest} if requantize.rule == "fine" else {"scale": scale}
    # Factors in [2^(s-1), 2^s) shift left by s, so 2^s * magnitude < 2^31 bounds them.
    limit = 2.0 ** (29 - np.floor(np.log2(np.maximum(magnitude, 1))))
    pairs = [quantize_multiplier(float(factor)) for factor in np.minimum(factors, limit)]
    multiplier, shift = np.array(pairs, np.int32).T
    return {"multiplier": np.ascontiguousarray(multiplier), "shift": np.ascontiguousarray(shift)}


def random_tensors(workload: Workload, rng: np.random.Generator) -> tuple[ByteArray, ByteArray]:
    data, weight, _ = ranges_of(workload)
    return (
        rng.integers(*data, workload.data_shape, DTYPES[workload.numerics.data], endpoint=True),
        rng.integers(*weight, workload.weight_shape, DTYPES[workload.numerics.weight], endpoint=True),
    )


def rule_of(workload: Workload) -> RoundingRule:
    """That of the layer; where it stores sums, any."""
    return (workload.numerics.requantize or Requantize()).rule


def is_per_channel(workload: Workload) -> bool:
    return workload.numerics.requantize is None or workload.numerics.requantize.per_channel


def ranges_of(workload: Workload) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    numerics = workload.numerics
    return RANGES[numerics.data], RANGES[numerics.weight], RANGES[numerics.output]


def middles_of(workload: Workload) -> list[int]:
    return [(low + high + 1) // 2 for low, high in ranges_of(workload)]


def allowed_zero_points(workload: Workload, zero_points: list[int]) -> tuple[int, int, int]:
    """Zero points of data, weights and output, those that the workload lacks replaced by 0."""
    data, weight, output = zero_points
    numerics = workload.numerics
    return data, weight if numerics.weight_zero_point else 0, output if numerics.output != "s32" else 0


def bounds_of(workload: Workload, rng: np.random.Generator) -> tuple[int, int]:
    return narrowed_range(workload.numerics.output, workload.numerics.clamp, rng)

"""Residuals that make wrong additions show: one for each case of `schedules.oracle.adversarial`.

Ratios are such that many sums of two bytes are ties, or would be if a decimal fraction had a binary form; about half of
the residuals are aimed at those, the others reach all values, and with them both ends of the output's range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import RANGES, Numerics
from int8tune.schedules.operands import DTYPES, Addend, FloatArray, Operands, quantize_addition

LongArray = npt.NDArray[np.int64]

LOW, MIDDLE, HIGH = range(3)
# Bytes nearest to a tie that aimed residuals choose from.
AIMS = 8
# Steps between the zero point and the residuals that are near it.
NEAR_STEPS = 4


@dataclass(frozen=True, slots=True)
class _Case:
    """The ratios of both terms, where the zero points of the residual and of the sum are, and which values it has."""

    own_ratio: float
    residual_ratio: float
    zero_points: tuple[int, int]
    values: str = "aimed"


_CASES = (
    _Case(0.7, 1.1, (MIDDLE, MIDDLE), "random"),
    _Case(0.5, 0.5, (LOW, MIDDLE)),
    _Case(0.6, 0.3, (HIGH, MIDDLE)),
    _Case(1.0, 1.0, (LOW, LOW)),
    _Case(0.3, 0.9, (HIGH, HIGH)),
    # Sums that fit no int16.
    _Case(1.25, 300.0, (MIDDLE, MIDDLE), "alternating"),
    _Case(0.65, 0.45, (LOW, LOW)),
    # Any error of one in the own output is one of the sum.
    _Case(1.0, 0.3, (HIGH, HIGH), "near"),
)
# The fixed rule rounds a term of so many steps by half a unit, and by that unit the sum of both terms is a tie.
JUST_ABOVE_HALF, JUST_TIED_STEPS = 0.5 + 2.0**-21, -5


def adversarial_addend(numerics: Numerics, operands: Operands, own: LongArray, index: int, seed: int) -> Addend:
    """The residual of one case, for the layer's own outputs."""
    assert numerics.residual is not None
    case, rng = _CASES[index % len(_CASES)], np.random.default_rng([seed, len(_CASES) + index])
    zero_point = _zero_point(numerics.residual.data, case.zero_points[0], rng)
    sum_zero_point = _zero_point(numerics.output, case.zero_points[1], rng)
    low, high = narrowed_range(numerics.output, numerics.residual.clamp, rng)
    constant = sum_zero_point - case.own_ratio * operands.output_zero_point - case.residual_ratio * zero_point
    values = _values(case.values, own.shape, RANGES[numerics.residual.data], zero_point, rng)
    if case.values == "aimed":
        ends = RANGES[numerics.residual.data][0], RANGES[numerics.output][0]
        own_steps = np.arange(ends[1], ends[1] + 256)[:, None] - operands.output_zero_point
        residual_steps = np.arange(ends[0], ends[0] + 256) - zero_point
        sums = case.own_ratio * own_steps + case.residual_ratio * residual_steps + sum_zero_point
        aims = ends[0] + _nearest_ties(sums, low, high)
        chosen = aims[own - ends[1], rng.integers(0, AIMS, own.shape)]
        values = np.where(rng.integers(0, 2, own.shape) == 0, chosen, values)
    return Addend(
        data=values.astype(DTYPES[numerics.residual.data]),
        clamp_low=low,
        clamp_high=high,
        zero_point=zero_point,
        sum_zero_point=sum_zero_point,
        **_factors(numerics, case, np.array([constant], np.float32)),
    )


def addend_of_ties(numerics: Numerics, operands: Operands, own: LongArray, which: int, seed: int) -> Addend:
    """The residual of one case of `schedules.oracle.ties`: any error of the own output is one of the sum.

    With the fixed rule, sums are ties, too. In the third case, which is that rule's, own outputs are `JUST_TIED_STEPS`.
    """
    assert numerics.residual is not None
    assert numerics.requantize is not None
    rng = np.random.default_rng([seed, 3 * len(_CASES) + which])
    case, steps = _Case(1.0, 0.3, (MIDDLE, MIDDLE)), -rng.integers(0, NEAR_STEPS, own.shape)
    if which == 2:
        case, steps = replace(case, own_ratio=JUST_ABOVE_HALF, residual_ratio=1.0), rng.integers(3, 40, own.shape)
    elif numerics.addition_rule == "fixed":
        case, steps = replace(case, residual_ratio=JUST_ABOVE_HALF), np.full(own.shape, JUST_TIED_STEPS)
    zero_point, sum_zero_point = (
        _zero_point(kind, place, rng)
        for kind, place in zip((numerics.residual.data, numerics.output), case.zero_points, strict=True)
    )
    constant = sum_zero_point - case.own_ratio * operands.output_zero_point - case.residual_ratio * zero_point
    low, high = narrowed_range(numerics.output, numerics.residual.clamp, rng)
    return Addend(
        data=(zero_point + steps).astype(DTYPES[numerics.residual.data]),
        clamp_low=low,
        clamp_high=high,
        zero_point=zero_point,
        sum_zero_point=sum_zero_point,
        **_factors(numerics, case, np.array([constant], np.float32)),
    )


def narrowed_range(data_type: str, has_clamp: bool, rng: np.random.Generator) -> tuple[int, int]:
    """Bounds of values: those of their type or, for a clamp, some steps inside them."""
    low, high = RANGES[data_type]
    if not has_clamp:
        return low, high
    return low + int(rng.integers(16, 48)), high - int(rng.integers(16, 48))


def _factors(numerics: Numerics, case: _Case, constant: FloatArray) -> dict[str, Any]:
    if numerics.addition_rule != "fixed":
        ratio = np.array([case.own_ratio, case.residual_ratio], np.float32)
        return {"ratio": ratio} if numerics.addition_rule == "float" else {"ratio": ratio, "constant": constant}
    multiplier, shift = quantize_addition(case.own_ratio, case.residual_ratio, 1.0)
    return {"multiplier": multiplier, "shift": shift}


def _zero_point(data_type: str, place: int, rng: np.random.Generator) -> int:
    low, high = RANGES[data_type]
    return (low, (low + high + 1) // 2 + int(rng.integers(-20, 21)), high)[place]


def _values(
    kind: str, shape: tuple[int, ...], bounds: tuple[int, int], zero_point: int, rng: np.random.Generator
) -> LongArray:
    if kind == "alternating":
        turns = np.asarray(sum(np.ogrid[tuple(slice(extent) for extent in shape)]))
        return np.where(turns % 2 == 0, *bounds)
    if kind == "near":
        return zero_point - rng.integers(0, NEAR_STEPS, shape)
    return rng.integers(*bounds, shape, endpoint=True)


def _nearest_ties(sums: npt.NDArray[np.float64], low: int, high: int) -> LongArray:
    """For each row the columns of the sums that are nearest to a tie and within the bounds: [rows, AIMS]."""
    distance = np.abs(sums - np.floor(sums) - 0.5) + ((sums < low) | (sums > high))
    return np.argsort(distance, axis=1, kind="stable")[:, :AIMS]

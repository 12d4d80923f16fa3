"""Adversarial operands: what they contain, and that every way for a kernel to be wrong shows in at least one case."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import Operands, quantize_multiplier
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.drills import EXCEPTIONS, FIXED_DRILLS, FLOAT_DRILLS, FUSED_DRILLS
from int8tune.schedules.oracle.reference import (
    accumulate,
    add_residual,
    reference,
    requantize,
    scale_binary32,
    scale_fixed_point,
    scale_fused,
)
from int8tune.schedules.workload import Dense, DepthwiseConv2d, Workload, parse_workload
from tests.support.run.thinned import one_in

pytestmark = pytest.mark.promise(10)

Array = npt.NDArray[Any]
Mutant = Callable[[Workload, Operands], Array]

KEYS = (
    "conv2d-u8s8-1x9x8x16-k3x3x18-s1-p1-float.c-u8",
    "conv2d-u8s8-1x9x9x8-k3x3x8-s2-p1.0.0.1-float.t-clamp-u8",
    "conv2d-u8u8-2x6x6x6-k3x2x4-s1-p1-d2x1-g2-wz-fixed.c-clamp-s8",
    "conv2d-s8s8-1x8x8x32-k1x1x20-s1-p0-fixed.c-s8",
    "conv2d-u8s8-1x8x8x3-k5x5x1-s1-p2-float.t-u8",
    "dwconv2d-u8s8-1x9x9x20-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-s8s8-1x8x8x5-k3x3x2-s2-p0.0.1.1-fixed.t-clamp-s8",
    "dwconv2d-u8u8-1x10x7x1-k3x3x1-s1-p1-wz-float.c-clamp-u8",
    "dense-u8s8-1x100-o17-float.c-u8",
    "dense-s8s8-1x1-o1-fixed.t-s8",
    "dense-u8u8-16x768-o10-wz-float.t-clamp-u8",
    "dense-u8s8-7x65-o33-fixed.c-clamp-u8",
    "dense-s8u8-3x33025-o2-wz-float.c-s8",
    "dense-s8s8-3x70-o5-s32",
    "conv2d-u8s8-1x7x6x16-k1x1x18-s1-p0-float.c-addu8-u8",
    "conv2d-s8s8-1x7x7x8-k3x3x8-s1-p1-float.t-clamp-adds8-clamp-s8",
    "dwconv2d-u8u8-1x9x9x5-k3x3x1-s1-p1-wz-fixed.c-clamp-adds8-u8",
    "dense-s8s8-5x65-o33-fixed.t-addu8-clamp-s8",
    "conv2d-s8s8-1x8x8x32-k1x1x20-s1-p0-fused.cx-s8",
    "dwconv2d-u8u8-1x10x7x20-k3x3x1-s1-p1-wz-fused.c-clamp-u8",
    "conv2d-u8s8-1x8x8x3-k5x5x1-s1-p2-fused.tx-u8",
    "dense-u8s8-7x65-o33-fused.t-clamp-u8",
    "conv2d-s8s8-1x7x7x8-k3x3x8-s1-p1-fused.cx-clamp-adds8-clamp-s8",
    "conv2d-s8s8-1x8x8x32-k1x1x20-s1-p0-fine.c-s8",
    "dwconv2d-u8u8-1x10x7x20-k3x3x1-s1-p1-wz-fine.t-clamp-u8",
    "dense-u8s8-7x65-o33-fine.c-adds8-u8",
)

# Sums so long that a bias or a left shift could make them wrap.
LONG_SUMS = (
    "conv2d-s8s8-1x7x7x512-k5x5x8-s1-p2-fixed.c-s8",
    "conv2d-u8u8-1x1x1x33025-k1x1x8-s1-p1-wz-float.c-u8",
    "dense-u8u8-2x33025-o16-wz-fixed.t-u8",
)


@cache
def cases(key: str, seed: int = 0) -> tuple[tuple[str, Operands], ...]:
    return adversarial_operands(parse_workload(key), seed)


def sums_of(workload: Workload, operands: Operands, **changes: int) -> Array:
    zero_points = {"data": operands.data_zero_point, "weight": operands.weight_zero_point} | changes
    sums = accumulate(workload, operands.data, operands.weight, zero_points["data"], zero_points["weight"])
    return sums + operands.bias


# What is in them.


@pytest.mark.parametrize("key", [*KEYS, *LONG_SUMS])
def test_they_fit_the_workload_and_never_wrap(key: str) -> None:
    workload = parse_workload(key)
    named = cases(key)
    more = [workload.numerics.data == "s8", workload.numerics.residual is not None and _rule(workload) == "fixed"]
    assert len({name for name, _ in named}) == len(named) == 10 + 4 * workload.numerics.weight_zero_point + sum(more)
    for _, operands in named:
        operands.validate(workload)
        sums = sums_of(workload, operands)
        # A left shift of the fixed rule must not wrap either.
        shifted = sums << np.maximum(operands.shift, 0).astype(np.int64) if operands.shift.size else sums
        assert shifted.min() >= -(2**31)
        assert shifted.max() < 2**31
        if workload.numerics.clamp:
            low, high = RANGES[workload.numerics.output]
            assert low < operands.clamp_low < operands.clamp_high < high


@pytest.mark.parametrize("key", KEYS)
def test_they_hold_every_extreme(key: str) -> None:
    workload = parse_workload(key)
    ends = itertools.product(RANGES[workload.numerics.data], RANGES[workload.numerics.weight])
    constant = {
        (int(operands.data.flat[0]), int(operands.weight.flat[0]))
        for _, operands in cases(key)
        if np.ptp(operands.data) == 0 and np.ptp(operands.weight) == 0
    }
    assert constant >= set(ends)
    zero_points = {operands.data_zero_point for _, operands in cases(key)}
    assert zero_points >= set(RANGES[workload.numerics.data])
    if workload.numerics.weight_zero_point:
        assert {operands.weight_zero_point for _, operands in cases(key)} >= set(RANGES[workload.numerics.weight])
    if workload.numerics.output != "s32":
        assert {operands.output_zero_point for _, operands in cases(key)} >= set(RANGES[workload.numerics.output])


def test_alternating_products_reinforce_and_oppose_each_other() -> None:
    workload = parse_workload("dense-s8s8-2x64-o2-s32")
    operands = dict(adversarial_operands(workload, 0))["alternating"]
    products = operands.data[:, None].astype(int) * operands.weight.astype(int)
    pairs = products.reshape(2, 2, 32, 2).sum(axis=-1)
    assert set(pairs[0, 0]) == set(pairs[1, 1]) == {127 * 127 + 128 * 128}
    assert set(pairs[0, 1]) == set(pairs[1, 0]) == {-2 * 127 * 128}


def test_weights_that_are_s8_without_their_zero_point_saturate_pairs_too() -> None:
    """Inside the image and in its border, of which the value is the data's zero point."""
    workload = parse_workload("dense-u8u8-2x64-o8-wz-s32")
    operands = dict(adversarial_operands(workload, 0))["ends-middle-weight-zero-point"]
    centred = operands.weight.astype(int) - operands.weight_zero_point
    assert set(centred.ravel()) == {-128, 127}
    for data in (operands.data[:, None].astype(int), operands.data_zero_point):
        pairs = (data * centred).reshape(-1, 32, 2).sum(axis=-1)
        assert pairs.min() < -(2**15)
        assert pairs.max() >= 2**15


@pytest.mark.parametrize("key", KEYS)
def test_units_end_in_one_hot_value_and_a_live_tap(key: str) -> None:
    workload = parse_workload(key)
    operands = dict(cases(key))["units-high-zero-points"]
    distance = np.abs(operands.data.astype(int) - operands.data_zero_point)
    assert distance.flat[-1] == 20
    assert distance.ravel()[:-1].max(initial=0) <= 3
    assert distance[..., -1].all()
    last_tap = operands.weight.reshape(workload.out_channels, -1)[:, -1]
    assert (last_tap.astype(int) != operands.weight_zero_point).all()


def test_each_float_drill_aims_at_one_rounding() -> None:
    (tie, ties), (unit, bounds), (small, long_sums), (factor, products) = FLOAT_DRILLS
    assert all((value * tie) % 1 == 0.5 for value in ties)
    assert unit == 2
    assert {500, -500} <= set(bounds)
    # Ties in binary32 that are none in binary64: from the conversion of the sum, or from the product alone.
    for scale, values in ((small, long_sums), (factor, products)):
        for value in values:
            assert np.float32(value) * np.float32(scale) % 1 == 0.5
            assert value * float(np.float32(scale)) % 1 != 0.5
    assert all(abs(value) > 2**24 for value in long_sums)


def test_each_fixed_drill_aims_at_one_rounding() -> None:
    (tie, ties), (left, _), (twice, sums), (right, long_sums) = FIXED_DRILLS
    assert all((value * tie) % 1 == 0.5 for value in ties)
    assert quantize_multiplier(left)[1] == 4
    assert quantize_multiplier(twice) == (2**30, -1)
    multiplier, shift = np.array([2**30]), np.array([-1])
    doubly = scale_fixed_point(np.array(sums), multiplier, shift)
    assert (doubly != np.floor(np.array(sums) * twice + 0.5)).sum() >= 3
    assert quantize_multiplier(right) == (2**31 - 1, -24)
    assert sum(value / 2**24 % 1 == 0.5 for value in long_sums) == 2


def test_each_fused_drill_aims_at_one_rounding() -> None:
    (tie, none, ties), (quarter, offset, signed), (small, above_half, long_sums), (factor, rest, products) = (
        FUSED_DRILLS
    )

    def rounded(change: Callable[[Array, Array, Array], Array], value: int, scale: float, offset: float) -> float:
        values = np.array(value), np.float64(np.float32(scale)), np.float64(np.float32(offset))
        return float(np.rint(change(*values)))

    assert none == 0
    assert {value * tie % 1 for value in ties if abs(value) < 2**30} == {0.5}
    assert {2**31 - 1, -(2**31)} <= set(ties)
    assert {0, -1} <= set(signed)
    assert all((abs(value) * quarter + offset) % 1 == 0.5 for value in signed[2:6])
    for value in signed:
        assert (rounded(fused_rule, value, quarter, offset) != rounded(offset_of_one_sign, value, quarter, offset)) == (
            value < 0
        )
    for change, value in itertools.product((fused_of_integers, fused_in_binary64), long_sums):
        assert rounded(change, value, small, above_half) != rounded(fused_rule, value, small, above_half)
    for value in products:
        assert rounded(product_rounded, value, factor, rest) != rounded(fused_rule, value, factor, rest)


def test_exceptions_are_met_and_nearly_met() -> None:
    assert set(EXCEPTIONS) == {-1, 0, 1}
    signs, offsets = set(), set()
    for _, operands in cases("conv2d-s8s8-1x8x8x32-k1x1x20-s1-p0-fused.cx-s8"):
        sums = sums_of(parse_workload("conv2d-s8s8-1x8x8x32-k1x1x20-s1-p0-fused.cx-s8"), operands)
        met = np.abs(sums) == operands.exception
        near = np.abs(np.abs(sums) - operands.exception) == 1
        assert (met | near).any(axis=(0, 1, 2)).all()
        signs |= set(np.sign(sums[met]).tolist())
        offsets |= set(operands.exception_offset[met.any(axis=(0, 1, 2))].tolist())
    assert {-1, 1} <= signs
    assert offsets >= {0, 1}


def test_the_fixed_rule_meets_left_and_long_right_shifts() -> None:
    shifts = {int(shift) for _, operands in cases(KEYS[3]) for shift in operands.shift}
    assert max(shifts) >= 4
    assert min(shifts) <= -23


def test_some_sums_exceed_the_precision_of_binary32() -> None:
    workload = parse_workload(KEYS[0])
    assert max(np.abs(sums_of(workload, operands)).max() for _, operands in cases(KEYS[0])) > 2**25


def test_a_seed_gives_the_same_operands_and_another_seed_others() -> None:
    workload = parse_workload(KEYS[0])
    again, other = adversarial_operands(workload, 0), adversarial_operands(workload, 1)
    for (_, one), (_, same) in zip(cases(KEYS[0]), again, strict=True):
        np.testing.assert_array_equal(one.data, same.data)
        np.testing.assert_array_equal(one.weight, same.weight)
        np.testing.assert_array_equal(one.bias, same.bias)
        np.testing.assert_array_equal(one.scale, same.scale)
    assert (other[0][1].data != again[0][1].data).any()


@pytest.mark.alone
def test_they_are_cheap() -> None:
    workload = parse_workload("conv2d-u8s8-1x56x56x64-k3x3x64-s1-p1-float.c-u8")
    begin = time.process_time()
    adversarial_operands(workload, 0)
    assert time.process_time() - begin < 3.0


# What they reveal.


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("key", KEYS)
def test_an_error_of_one_in_a_sum_shows_at_nearly_every_position(key: str, seed: int) -> None:
    workload = parse_workload(key)
    for error in (1, -1):
        shows = np.zeros(workload.output_shape, bool)
        for _, operands in cases(key, seed):
            sums = sums_of(workload, operands)
            shows |= requantize(workload, operands, sums + error) != requantize(workload, operands, sums)
        assert shows.mean() > 0.95


def last_tap_dropped(workload: Workload, operands: Operands) -> Array:
    weight = operands.weight.copy()
    weight.reshape(workload.out_channels, -1)[:, -1] = operands.weight_zero_point
    return reference(workload, replace(operands, weight=weight))


def first_channels_swapped(workload: Workload, operands: Operands) -> Array:
    out = reference(workload, operands)
    out[..., [0, 1]] = out[..., [1, 0]]
    return out


def last_channels_swapped(workload: Workload, operands: Operands) -> Array:
    out = reference(workload, operands)
    out[..., [-2, -1]] = out[..., [-1, -2]]
    return out


def last_column_repeated(workload: Workload, operands: Operands) -> Array:
    out = reference(workload, operands)
    columns = np.moveaxis(out, -2, 0)
    columns[-1] = columns[-2]
    return out


def last_channel_repeated(workload: Workload, operands: Operands) -> Array:
    out = reference(workload, operands)
    out[..., -1] = out[..., -2]
    return out


def data_zero_point_off_by_one(workload: Workload, operands: Operands) -> Array:
    nudged = operands.data_zero_point - 1 if operands.data_zero_point else 1
    return requantize(workload, operands, sums_of(workload, operands, data=nudged))


def weight_zero_point_off_by_one(workload: Workload, operands: Operands) -> Array:
    nudged = operands.weight_zero_point - 1 if operands.weight_zero_point else 1
    return requantize(workload, operands, sums_of(workload, operands, weight=nudged))


def weight_zero_point_ignored(workload: Workload, operands: Operands) -> Array:
    return requantize(workload, operands, sums_of(workload, operands, weight=0))


def one_bias_missing(workload: Workload, operands: Operands) -> Array:
    bias = operands.bias.copy()
    bias[-1] = 0
    return reference(workload, replace(operands, bias=bias))


def accumulator_kept_from_the_previous_position(workload: Workload, operands: Operands) -> Array:
    sums = sums_of(workload, operands)
    flat = sums.reshape(-1, workload.out_channels)
    flat[-1] += flat[-2] - operands.bias
    return requantize(workload, operands, sums)


def border_of_zeros(workload: Workload, operands: Operands) -> Array:
    assert not isinstance(workload, Dense)
    top, left, bottom, right = workload.window.padding
    padded = np.pad(operands.data, ((0, 0), (top, bottom), (left, right), (0, 0)))
    window = replace(workload.window, padding=(0, 0, 0, 0))
    enlarged = replace(workload, height=padded.shape[1], width=padded.shape[2], window=window)
    return reference(enlarged, replace(operands, data=padded))


def clamp_missing(workload: Workload, operands: Operands) -> Array:
    low, high = RANGES[workload.numerics.output]
    return reference(workload, replace(operands, clamp_low=low, clamp_high=high))


def output_wraps_instead_of_saturating(workload: Workload, operands: Operands) -> Array:
    sums = sums_of(workload, operands)
    if operands.offset.size:
        values = scale_fused(sums, operands.scale, offsets_of(sums, operands))
    elif operands.scale.size:
        values = scale_binary32(sums, operands.scale)
    else:
        values = scale_fixed_point(sums, operands.multiplier.astype(np.int64), operands.shift.astype(np.int64))
    wrapped = (values + operands.output_zero_point).astype(reference(workload, operands).dtype).astype(np.int64)
    return add_residual(workload, operands, wrapped.clip(operands.clamp_low, operands.clamp_high))


def half_away_from_zero(workload: Workload, operands: Operands) -> Array:
    product = sums_of(workload, operands).astype(np.float32) * operands.scale
    return to_be_stored(workload, operands, np.sign(product) * np.floor(np.abs(product.astype(np.float64)) + 0.5))


def scaled_in_binary64(workload: Workload, operands: Operands) -> Array:
    return to_be_stored(workload, operands, np.rint(sums_of(workload, operands) * operands.scale.astype(np.float64)))


def truncated(workload: Workload, operands: Operands) -> Array:
    return to_be_stored(workload, operands, np.trunc(sums_of(workload, operands).astype(np.float32) * operands.scale))


def rounded_once(workload: Workload, operands: Operands) -> Array:
    shift = 31 - operands.shift.astype(np.int64)
    product = sums_of(workload, operands) * operands.multiplier.astype(np.int64)
    return to_be_stored(workload, operands, (product + (np.int64(1) << (shift - 1))) >> shift)


def fixed_rule_in_binary32(workload: Workload, operands: Operands) -> Array:
    scale = np.ldexp(operands.multiplier.astype(np.float32), operands.shift - 31)
    return to_be_stored(workload, operands, np.rint(sums_of(workload, operands).astype(np.float32) * scale))


def offsets_of(sums: Array, operands: Operands) -> Array:
    if not operands.exception.size:
        return operands.offset
    return np.where(np.abs(sums) == operands.exception, operands.exception_offset, operands.offset)


def fused_as(change: Callable[[Array, Array, Array], Array]) -> Mutant:
    """The fused rule with other values to round, of sums, scales and offsets in binary64."""

    def mutant(workload: Workload, operands: Operands) -> Array:
        sums = sums_of(workload, operands)
        values = change(sums, operands.scale.astype(np.float64), offsets_of(sums, operands).astype(np.float64))
        return to_be_stored(workload, operands, np.rint(values))

    return mutant


def signed_like(sums: Array, offset: Array) -> Array:
    signed: Array = np.where(sums < 0, -offset, offset)
    return signed


def fused_rule(sums: Array, scale: Array, offset: Array) -> Array:
    """Right but where a sum is a tie of binary64 and none of binary32."""
    values: Array = (sums.astype(np.float32) * scale + signed_like(sums, offset)).astype(np.float32)
    return values


def fused_of_integers(sums: Array, scale: Array, offset: Array) -> Array:
    """The sum itself is not rounded to binary32."""
    values: Array = (sums * scale + signed_like(sums, offset)).astype(np.float32)
    return values


def fused_in_binary64(sums: Array, scale: Array, offset: Array) -> Array:
    return sums.astype(np.float32) * scale + signed_like(sums, offset)


def product_rounded(sums: Array, scale: Array, offset: Array) -> Array:
    product = sums.astype(np.float32) * scale.astype(np.float32)
    return product + signed_like(sums, offset.astype(np.float32))


def offset_of_one_sign(sums: Array, scale: Array, offset: Array) -> Array:
    return fused_rule(sums, scale, np.where(sums < 0, -offset, offset))


def offset_ignored(sums: Array, scale: Array, offset: Array) -> Array:
    return fused_rule(sums, scale, 0 * offset)


def offset_of_the_other_sign_at_zero(sums: Array, scale: Array, offset: Array) -> Array:
    return fused_rule(sums, scale, np.where(sums == 0, -offset, offset))


def fused_away_from_zero(sums: Array, scale: Array, offset: Array) -> Array:
    values = fused_rule(sums, scale, offset).astype(np.float64)
    away: Array = np.sign(values) * np.floor(np.abs(values) + 0.5)
    return away


def fine_as(change: Callable[[Array, Array, Array, Array], Array]) -> Mutant:
    """The fine rule otherwise: outputs of sums, scales, rests and offsets in binary64."""

    def mutant(workload: Workload, operands: Operands) -> Array:
        factors = (each.astype(np.float64) for each in (operands.scale, operands.rest, operands.offset))
        return to_be_stored(workload, operands, change(sums_of(workload, operands), *factors))

    return mutant


def single(values: Array) -> Array:
    """Rounded to binary32."""
    rounded: Array = values.astype(np.float32).astype(np.float64)
    return rounded


def fine_rule(
    sums: Array,
    scale: Array,
    rest: Array,
    offset: Array,
    number: Callable[[Array], Array] = single,
    product: Callable[[Array], Array] = lambda values: values,
    rounding: Callable[[Array], Array] = np.rint,
) -> Array:
    """Products of 24 bits are exact in binary64, and so is what they leave of a whole number."""
    values = number(sums)
    whole = np.rint(single(values * scale))
    behind = single(product(values * scale) - whole) + single(values * rest + signed_like(sums, offset))
    made: Array = whole + rounding(single(behind))
    return made


def rest_ignored(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, 0 * rest, offset)


def rest_of_the_other_sign(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, -rest, offset)


def fine_product_rounded(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, rest, offset, product=single)


def fine_of_integers(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, rest, offset, number=lambda values: values.astype(np.float64))


def fine_offset_ignored(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, rest, 0 * offset)


def fine_offset_of_one_sign(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, rest, np.where(sums < 0, -offset, offset))


def fine_offset_of_the_other_sign_at_zero(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, rest, np.where(sums == 0, -offset, offset))


def fine_away_from_zero(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:
    return fine_rule(sums, scale, rest, offset, rounding=lambda each: np.sign(each) * np.floor(np.abs(each) + 0.5))


def fused_and_not_fine(sums: Array, scale: Array, rest: Array, offset: Array) -> Array:  # noqa: ARG001
    return np.rint(fused_rule(sums, scale, offset))


def exceptions_as(change: Callable[[Array, Operands], Array]) -> Mutant:
    """The fused rule with other sums as exceptions."""

    def mutant(workload: Workload, operands: Operands) -> Array:
        sums = sums_of(workload, operands)
        offset = np.where(change(sums, operands), operands.exception_offset, operands.offset)
        return to_be_stored(workload, operands, scale_fused(sums, operands.scale, offset))

    return mutant


def exceptions_themselves(sums: Array, operands: Operands) -> Array:
    return np.abs(sums) == operands.exception


def exceptions_ignored(sums: Array, operands: Operands) -> Array:  # noqa: ARG001
    return np.zeros_like(sums, bool)


def sums_from_the_exception_on(sums: Array, operands: Operands) -> Array:
    return np.abs(sums) >= operands.exception


def sums_above_the_exception(sums: Array, operands: Operands) -> Array:
    return np.abs(sums) == operands.exception + 1


def sums_below_the_exception(sums: Array, operands: Operands) -> Array:
    return np.abs(sums) == operands.exception - 1


def positive_exceptions_alone(sums: Array, operands: Operands) -> Array:
    return sums == operands.exception


def negative_exceptions_alone(sums: Array, operands: Operands) -> Array:
    return -sums == operands.exception


def to_be_stored(workload: Workload, operands: Operands, values: Array) -> Array:
    clamped: Array = np.clip(values + operands.output_zero_point, operands.clamp_low, operands.clamp_high)
    return add_residual(workload, operands, clamped.astype(np.int64))


def pairs_saturate_or_wrap_in_int16(workload: Workload, operands: Operands) -> Array:
    """Pairs of neighbouring products in an int16: `pmaddubsw` saturates, `smull` and `smlal` wrap."""
    sums = sums_of(workload, operands)
    for index in np.ndindex(*workload.output_shape):
        data, weight = _factors(workload, operands, index)
        pairs = np.pad(data * weight, (0, data.size % 2)).reshape(-1, 2).sum(axis=1)
        short = pairs.astype(np.int16) if workload.numerics.data == "s8" else np.clip(pairs, -(2**15), 2**15 - 1)
        sums[index] += int(short.astype(int).sum() - pairs.sum())
    return requantize(workload, operands, sums)


def _factors(workload: Workload, operands: Operands, index: tuple[int, ...]) -> tuple[Array, Array]:
    """The raw data and weights whose products one output sums."""
    weight = operands.weight[index[-1]].ravel().astype(int)
    if isinstance(workload, Dense):
        return operands.data[index[0]].astype(int), weight
    window = workload.window
    top, left, bottom, right = window.padding
    border = ((top, bottom), (left, right), (0, 0))
    image = np.pad(operands.data[index[0]], border, constant_values=operands.data_zero_point)
    if isinstance(workload, DepthwiseConv2d):
        channels = slice(index[-1] // workload.multiplier, index[-1] // workload.multiplier + 1)
    else:
        size = workload.in_channels // workload.groups
        group = index[-1] // (workload.out_channels // workload.groups)
        channels = slice(group * size, (group + 1) * size)
    y, x = index[1] * window.stride[0], index[2] * window.stride[1]
    rows = slice(y, y + window.dilation[0] * (window.kernel[0] - 1) + 1, window.dilation[0])
    columns = slice(x, x + window.dilation[1] * (window.kernel[1] - 1) + 1, window.dilation[1])
    return image[rows, columns, channels].ravel().astype(int), weight


def _rule(workload: Workload) -> str:
    return workload.numerics.requantize.rule if workload.numerics.requantize else "none"


def _has_exceptions(workload: Workload) -> bool:
    return workload.numerics.requantize is not None and workload.numerics.requantize.exceptions


FUSED_MUTANTS = (
    fused_of_integers,
    fused_in_binary64,
    product_rounded,
    offset_of_one_sign,
    offset_ignored,
    offset_of_the_other_sign_at_zero,
    fused_away_from_zero,
)
FINE_MUTANTS = (
    rest_ignored,
    rest_of_the_other_sign,
    fine_product_rounded,
    fine_of_integers,
    fine_offset_ignored,
    fine_offset_of_one_sign,
    fine_offset_of_the_other_sign_at_zero,
    fine_away_from_zero,
    fused_and_not_fine,
)
EXCEPTION_MUTANTS = (
    exceptions_ignored,
    sums_from_the_exception_on,
    sums_above_the_exception,
    sums_below_the_exception,
    positive_exceptions_alone,
    negative_exceptions_alone,
)


def named(mutant: Mutant, name: str) -> Mutant:
    mutant.__name__ = name
    return mutant


# Each with the workloads that it can happen to.
MUTANTS: tuple[tuple[Mutant, Callable[[Workload], bool]], ...] = (
    (last_tap_dropped, lambda _: True),
    (first_channels_swapped, lambda workload: workload.out_channels > 1),
    (last_channels_swapped, lambda workload: workload.out_channels > 1),
    (last_column_repeated, lambda workload: workload.output_shape[-2] > 1),
    (last_channel_repeated, lambda workload: workload.out_channels > 1),
    (data_zero_point_off_by_one, lambda _: True),
    (weight_zero_point_off_by_one, lambda workload: workload.numerics.weight_zero_point),
    (weight_zero_point_ignored, lambda workload: workload.numerics.weight_zero_point),
    (one_bias_missing, lambda _: True),
    (accumulator_kept_from_the_previous_position, lambda workload: workload.output_shape[-2] > 1),
    (border_of_zeros, lambda workload: not isinstance(workload, Dense) and any(workload.window.padding)),
    (clamp_missing, lambda workload: workload.numerics.clamp),
    (output_wraps_instead_of_saturating, lambda workload: workload.numerics.output != "s32"),
    (half_away_from_zero, lambda workload: _rule(workload) == "float"),
    (scaled_in_binary64, lambda workload: _rule(workload) == "float"),
    (truncated, lambda workload: _rule(workload) == "float"),
    (rounded_once, lambda workload: _rule(workload) == "fixed"),
    (fixed_rule_in_binary32, lambda workload: _rule(workload) == "fixed"),
    *(
        (named(fused_as(change), change.__name__), lambda workload: _rule(workload) == "fused")
        for change in FUSED_MUTANTS
    ),
    *((named(fine_as(change), change.__name__), lambda workload: _rule(workload) == "fine") for change in FINE_MUTANTS),
    *((named(exceptions_as(change), change.__name__), _has_exceptions) for change in EXCEPTION_MUTANTS),
    (pairs_saturate_or_wrap_in_int16, lambda workload: workload.numerics.weight == "s8" and workload.reduction > 1),
)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", one_in(3, [0, 1, 2]))
@pytest.mark.parametrize(
    ("mutant", "key"),
    [
        pytest.param(mutant, key, id=f"{mutant.__name__}-{key}")
        for (mutant, applies), key in itertools.product(MUTANTS, KEYS)
        if applies(parse_workload(key))
    ],
)
def test_a_wrong_kernel_is_found(mutant: Mutant, key: str, seed: int) -> None:
    workload = parse_workload(key)
    found = [
        name
        for name, operands in cases(key, seed)
        if (mutant(workload, operands) != reference(workload, operands)).any()
    ]
    assert found, f"no case tells {mutant.__name__} from the truth"


@pytest.mark.parametrize("key", KEYS)
def test_a_right_kernel_is_not_accused(key: str) -> None:
    """The mutants' own parts, left unmutated, agree with the oracle: they are found for their fault alone."""
    workload = parse_workload(key)
    for _, operands in cases(key):
        sums = sums_of(workload, operands)
        expected = reference(workload, operands)
        np.testing.assert_array_equal(requantize(workload, operands, sums), expected)
        if _rule(workload) == "float":
            values = np.rint(sums.astype(np.float32) * operands.scale)
            np.testing.assert_array_equal(to_be_stored(workload, operands, values), expected)
        if _rule(workload) == "fused":
            np.testing.assert_array_equal(fused_as(fused_rule)(workload, operands), expected)
        if _rule(workload) == "fine":
            np.testing.assert_array_equal(fine_as(fine_rule)(workload, operands), expected)
        if _has_exceptions(workload):
            np.testing.assert_array_equal(exceptions_as(exceptions_themselves)(workload, operands), expected)
        index = tuple(extent - 1 for extent in workload.output_shape)
        data, weight = _factors(workload, operands, index)
        products = (data - operands.data_zero_point) * (weight - operands.weight_zero_point)
        assert int(products.sum()) + operands.bias[-1] == sums[index]

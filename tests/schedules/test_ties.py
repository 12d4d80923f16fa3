"""Every way of rounding that is not the rule's shows in every channel, at every position of the output.

A kernel has code of its own for each place of its tile, for its border and for its tail: a fault of one of them shows
only where that place has a sum on which the two ways differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.operands import Operands
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference, requantize
from int8tune.schedules.workload import Workload, parse_workload
from tests.schedules.test_adversarial import (
    KEYS,
    exceptions_as,
    exceptions_ignored,
    exceptions_themselves,
    fine_as,
    fine_offset_ignored,
    fine_offset_of_one_sign,
    fine_product_rounded,
    fine_rule,
    fused_and_not_fine,
    fused_as,
    fused_away_from_zero,
    fused_in_binary64,
    fused_of_integers,
    fused_rule,
    offset_ignored,
    offset_of_one_sign,
    product_rounded,
    rest_ignored,
    rest_of_the_other_sign,
    sums_above_the_exception,
    sums_below_the_exception,
    sums_from_the_exception_on,
    sums_of,
    to_be_stored,
)
from tests.support.run.thinned import representatives

pytestmark = pytest.mark.promise(10)

Array = npt.NDArray[Any]
Way = Callable[[Workload, Operands], Array]

TOGETHER = 8
"""Neighbouring channels of which some have each sign; a kernel's smallest registers have as many lanes."""


def away(values: Array) -> Array:
    rounded: Array = np.sign(values) * np.floor(np.abs(values.astype(np.float64)) + 0.5)
    return rounded


def float_way(change: Callable[[Array, Array], Array]) -> Way:
    """The float rule, from sums and scales to what is stored."""

    def way(workload: Workload, operands: Operands) -> Array:
        return to_be_stored(workload, operands, change(sums_of(workload, operands), operands.scale))

    return way


def product(sums: Array, scale: Array) -> Array:
    values: Array = sums.astype(np.float32) * scale
    return values


FLOAT_WAYS: dict[str, Callable[[Array, Array], Array]] = {
    "trunc": lambda sums, scale: np.trunc(product(sums, scale)),
    "floor or ceil": lambda sums, scale: np.where(
        sums > 0, np.floor(product(sums, scale)), np.ceil(product(sums, scale))
    ),
    "ceil or floor": lambda sums, scale: np.where(
        sums < 0, np.floor(product(sums, scale)), np.ceil(product(sums, scale))
    ),
    "half away from zero": lambda sums, scale: away(product(sums, scale)),
    "binary64": lambda sums, scale: np.rint(sums * scale.astype(np.float64)),
    "sum of 24 bits, product of 53": lambda sums, scale: np.rint(
        sums.astype(np.float32).astype(np.float64) * scale.astype(np.float64)
    ),
    "sum of 53 bits, product of 24": lambda sums, scale: np.rint((sums * scale.astype(np.float64)).astype(np.float32)),
}


def fixed_way(
    nudge: int = 1 << 30, rest: Callable[[Array, Array, Array], Array] | None = None, *, once: bool = False
) -> Way:
    """The fixed rule with another nudge, another condition to round up by (rest, mask, high), or rounded once."""

    def way(workload: Workload, operands: Operands) -> Array:
        multiplier, shift = operands.multiplier.astype(np.int64), operands.shift.astype(np.int64)
        exact = (sums_of(workload, operands) << np.maximum(shift, 0)) * multiplier
        right = np.maximum(-shift, 0)
        if once:
            return to_be_stored(workload, operands, (exact + (np.int64(1) << (30 + right))) >> (31 + right))
        high, mask = (exact + nudge) >> 31, (np.int64(1) << right) - 1
        up = (rest or usual)(high & mask, mask, high)
        return to_be_stored(workload, operands, (high >> right) + up)

    return way


def usual(rest: Array, mask: Array, high: Array) -> Array:
    up: Array = rest > (mask >> 1) + (high < 0)
    return up


FIXED_WAYS: dict[str, Way] = {
    "no nudge": fixed_way(nudge=0),
    "half a nudge": fixed_way(nudge=1 << 29),
    "a nudge less one": fixed_way(nudge=(1 << 30) - 1),
    "from the threshold on": fixed_way(rest=lambda rest, mask, high: rest >= (mask >> 1) + (high < 0)),
    "a threshold of one sign": fixed_way(rest=lambda rest, mask, _: rest > mask >> 1),
    "above the threshold": fixed_way(rest=lambda rest, mask, high: rest > (mask >> 1) + (high < 0) + 1),
    "the right shift rounds down": fixed_way(rest=lambda rest, *_: np.zeros_like(rest)),
    "once": fixed_way(once=True),
}


def rounded_by(rounding: Callable[[Array], Array]) -> Callable[[Array, Array, Array], Array]:
    return lambda sums, scale, offset: rounding(fused_rule(sums, scale, offset))


FUSED_WAYS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "trunc": rounded_by(np.trunc),
    "floor": rounded_by(np.floor),
    "ceil": rounded_by(np.ceil),
    "half away from zero": fused_away_from_zero,
    "sum of 53 bits": fused_of_integers,
    "product and offset of 53 bits": fused_in_binary64,
    "all of 53 bits": lambda sums, scale, offset: sums * scale + np.where(sums < 0, -offset, offset),
    "product rounded": product_rounded,
    "no offset": offset_ignored,
    "offset of the other sign": lambda sums, scale, offset: fused_rule(sums, scale, -offset),
}


def fine_by(rounding: Callable[[Array], Array]) -> Callable[[Array, Array, Array, Array], Array]:
    return lambda sums, scale, rest, offset: fine_rule(sums, scale, rest, offset, rounding=rounding)


FINE_WAYS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "trunc": fine_by(np.trunc),
    "floor": fine_by(np.floor),
    "ceil": fine_by(np.ceil),
    "no rest": rest_ignored,
    "rest of the other sign": rest_of_the_other_sign,
    "product rounded": fine_product_rounded,
    "no offset": fine_offset_ignored,
    "offset of the other sign": lambda sums, scale, rest, offset: fine_rule(sums, scale, rest, -offset),
    "fused": fused_and_not_fine,
}
# Of one sign only: neighbours have the other one.
SIGNED_WAYS = {"fused": fused_as(offset_of_one_sign), "fine": fine_as(fine_offset_of_one_sign)}
EXCEPTION_WAYS = {
    "no exceptions": exceptions_ignored,
    "all": lambda sums, _: np.ones_like(sums, bool),
    "all others": lambda sums, operands: ~exceptions_themselves(sums, operands),
    "from the exception on": sums_from_the_exception_on,
    "above it": lambda sums, operands: np.abs(sums) > operands.exception,
    "one above": sums_above_the_exception,
    "one below": sums_below_the_exception,
}


def ways_of(workload: Workload) -> dict[str, Way]:
    """Ways of rounding that are not the rule's."""
    requantize = workload.numerics.requantize
    match requantize.rule if requantize else "":
        case "float":
            return {name: float_way(change) for name, change in FLOAT_WAYS.items()}
        case "fixed":
            return FIXED_WAYS
        case "fused":
            ways = {name: fused_as(change) for name, change in FUSED_WAYS.items()}
            assert requantize is not None
            if requantize.exceptions:
                ways |= {name: exceptions_as(change) for name, change in EXCEPTION_WAYS.items()}
            return ways
        case "fine":
            return {name: fine_as(change) for name, change in FINE_WAYS.items()}
    return {}


def ties_of(workload: Workload) -> tuple[tuple[str, Operands], ...]:
    return tuple(case for case in adversarial_operands(workload, 0) if "ties" in case[0])


def shows(workload: Workload, cases: tuple[tuple[str, Operands], ...], way: Way) -> Array:
    """For each output value, whether one of the cases tells a way of rounding from the rule."""
    differs = [way(workload, operands) != reference(workload, operands) for _, operands in cases]
    return np.logical_or.reduce(differs)


PAIRS = [(key, name) for key in KEYS for name in ways_of(parse_workload(key))]


@pytest.mark.parametrize(("key", "name"), representatives(PAIRS), ids=itertools.starmap("{}-{}".format, PAIRS))
def test_every_output_tells_each_way_of_rounding_from_the_rule(key: str, name: str) -> None:
    workload = parse_workload(key)
    assert shows(workload, ties_of(workload), ways_of(workload)[name]).all()


@pytest.mark.parametrize("key", [key for key in KEYS if "fused" in key or "fine" in key])
def test_neighbours_of_every_output_tell_offsets_without_sign(key: str) -> None:
    workload = parse_workload(key)
    assert workload.numerics.requantize is not None
    shown = shows(workload, ties_of(workload), SIGNED_WAYS[workload.numerics.requantize.rule])
    for first in range(0, workload.out_channels, TOGETHER):
        for parity in (0, 1):
            lanes = shown[..., first + parity : first + TOGETHER : 2]
            assert lanes.any(axis=-1).all() or lanes.shape[-1] < TOGETHER // 2


@pytest.mark.parametrize("key", KEYS)
def test_every_position_has_the_same_sums_in_the_border_too(key: str) -> None:
    workload = parse_workload(key)
    for _, operands in ties_of(workload):
        assert np.ptp(sums_of(workload, operands).reshape(-1, workload.out_channels), axis=0).max() == 0
        assert (sums_of(workload, operands) == operands.bias).all()
        assert np.ptp(operands.data) * np.ptp(operands.weight) == 0


def saturated_pair(data: Array, weight: Array) -> Array:
    """What a pair of such products lacks where x86 sums it: of an unsigned and a signed byte, with saturation."""
    unsigned = data.astype(int) + (128 if data.dtype == np.int8 else 0)
    pair = 2 * unsigned * (weight.astype(int) - (128 if weight.dtype == np.uint8 else 0))
    lacks: Array = np.clip(pair, -(2**15), 2**15 - 1) - pair
    return lacks


def wrapped_pair(data: Array, weight: Array) -> Array:
    """The same of two signed bytes in 16 bits that wrap, as ARM has them."""
    pair = 2 * data.astype(int) * weight.astype(int)
    lacks: Array = pair.astype(np.int16) - pair
    return lacks


@pytest.mark.parametrize("key", KEYS)
def test_every_output_tells_a_pair_of_products_in_16_bits(key: str) -> None:
    workload = parse_workload(key)
    numerics = workload.numerics
    both_signed = numerics.data == numerics.weight == "s8" and not numerics.weight_zero_point
    for lacking in (saturated_pair, *([wrapped_pair] if both_signed else [])):
        shown = []
        for _, operands in ties_of(workload):
            weight = operands.weight.reshape(workload.out_channels, -1)
            if (operands.data == operands.data.flat[0]).all() and (weight == weight[:, :1]).all():
                sums = np.broadcast_to(operands.bias.astype(np.int64), workload.output_shape)
                lacks = lacking(operands.data.flat[0], weight[:, 0])
                shown.append(requantize(workload, operands, sums + lacks) != reference(workload, operands))
        assert np.logical_or.reduce(shown).all(), lacking.__name__


def test_ties_of_weights_that_are_s8_without_their_zero_point_and_of_others() -> None:
    workload = parse_workload("dense-u8u8-16x768-o10-wz-float.t-clamp-u8")
    kinds = [
        (name.split("-", maxsplit=1)[0], np.max(operands.weight.astype(int) - operands.weight_zero_point) < 128)
        for name, operands in ties_of(workload)
    ]
    assert sorted(kinds) == [("first", False), ("first", True), ("second", False), ("second", True)]


def test_without_these_cases_some_outputs_tell_no_rounding() -> None:
    """What the other cases reach: ties are at some positions there, in some channels."""
    workload = parse_workload(KEYS[5])
    others = tuple(case for case in adversarial_operands(workload, 0) if "ties" not in case[0])
    assert not shows(workload, others, ways_of(workload)["binary64"]).all()

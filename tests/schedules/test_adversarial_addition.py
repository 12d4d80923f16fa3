"""Adversarial residuals: what they contain, and that every way to add them wrongly shows in at least one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import Addend, Operands
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import (
    add_binary32,
    add_fixed_point,
    addition_constant,
    in_order,
    reference,
    scale_fixed_point,
)
from int8tune.schedules.workload import Workload, parse_workload
from tests.support.run.thinned import one_in, representatives

Array = npt.NDArray[Any]
Mutant = Callable[[Workload, Operands, Addend, Array], Array]

KEYS = (
    "conv2d-u8s8-1x9x8x16-k3x3x18-s1-p1-float.c-addu8-u8",
    "conv2d-s8s8-1x7x7x8-k1x1x16-s1-p0-float.t-clamp-adds8-clamp-s8",
    "dwconv2d-u8s8-1x9x9x5-k3x3x1-s1-p1-float.c-adds8-u8",
    "conv2d-u8s8-1x9x8x16-k3x3x18-s1-p1-float.c-adds8.first-u8",
    "conv2d-u8s8-1x9x8x16-k3x3x18-s1-p1-fixed.c-addu8-u8",
    "conv2d-s8s8-1x7x7x8-k1x1x16-s1-p0-fixed.t-clamp-adds8-clamp-s8",
    "dense-u8u8-7x65-o33-wz-fixed.c-addu8-s8",
    "conv2d-u8s8-1x9x8x16-k3x3x18-s1-p1-fixed.c-adds8.fused-u8",
    "conv2d-u8s8-1x9x8x16-k3x3x18-s1-p1-fused.cx-addu8-u8",
    "dwconv2d-u8s8-1x9x9x5-k3x3x1-s1-p1-fused.t-clamp-adds8-clamp-u8",
)
# Those whose addition is in binary32; the fused rule has the zero points in its constant.
FLOAT_KEYS = tuple(key for key in KEYS if "fixed" not in key or ".fused" in key)
FUSED_KEYS = tuple(key for key in KEYS if "fused" in key)
ZERO_POINT_KEYS = tuple(key for key in KEYS if "fused" not in key)
FIXED_KEYS = tuple(key for key in KEYS if key not in FLOAT_KEYS)


@cache
def cases(key: str, seed: int = 0) -> tuple[tuple[str, Operands, Addend, Array], ...]:
    """Name, operands, residual and the layer's own outputs."""
    workload = parse_workload(key)
    plain = replace(workload, numerics=replace(workload.numerics, residual=None))
    found = []
    for name, operands in adversarial_operands(workload, seed):
        assert operands.residual is not None
        own = reference(plain, replace(operands, residual=None)).astype(np.int64)
        found.append((name, operands, operands.residual, own))
    return tuple(found)


# What is in them.


@pytest.mark.parametrize("key", KEYS)
def test_they_fit_the_workload_and_hold_every_extreme(key: str) -> None:
    workload = parse_workload(key)
    numerics = workload.numerics
    assert numerics.residual is not None
    low, high = RANGES[numerics.output]
    for _, operands, addend, _ in cases(key):
        operands.validate(workload)
        if numerics.residual.clamp:
            assert low < addend.clamp_low < addend.clamp_high < high
    assert {addend.zero_point for _, _, addend, _ in cases(key)} >= set(RANGES[numerics.residual.data])
    assert {addend.sum_zero_point for _, _, addend, _ in cases(key)} >= {low, high}
    assert {value for _, _, addend, _ in cases(key) for value in np.unique(addend.data).tolist()} >= set(
        RANGES[numerics.residual.data]
    )


@pytest.mark.parametrize("key", KEYS)
def test_sums_saturate_both_ways_and_most_do_not(key: str) -> None:
    workload = parse_workload(key)
    inside = []
    for name, operands, addend, own in cases(key):
        outputs = reference(workload, operands)
        ends = [(outputs == bound).mean() for bound in (addend.clamp_low, addend.clamp_high)]
        inside.append(1 - sum(ends))
        sums = added(workload, operands, addend, own)
        if name in ("random", "alternating"):
            assert (sums < addend.clamp_low).any()
            assert (sums > addend.clamp_high).any()
    assert np.mean(inside) > 0.7


@pytest.mark.parametrize("key", FLOAT_KEYS)
def test_aimed_residuals_make_ties(key: str) -> None:
    for name, operands, addend, own in cases(key):
        if name not in ("random", "alternating", "units-high-zero-points") and "ties" not in name:
            terms = own - operands.output_zero_point, addend.data.astype(np.int64) - addend.zero_point
            sums = terms[0] * np.float64(addend.ratio[0]) + terms[1] * np.float64(addend.ratio[1])
            near = np.abs(np.abs(sums - np.rint(sums)) - 0.5) < 1e-5
            assert near.mean() > 0.2 or addend.ratio.tolist() == [1, 1]


# What they reveal.


def added(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    """The sums with their zero point, not saturated yet."""
    numerics, data = workload.numerics, addend.data.astype(np.int64)
    assert numerics.residual is not None
    if numerics.addition_rule == "fixed":
        return add_fixed_point(own, data, operands.output_zero_point, addend)
    ordered = in_order(numerics.residual, operands.output_zero_point, addend)
    return add_binary32(*numerics.residual.in_order(own, data), *ordered)


def stored(addend: Addend, sums: Array) -> Array:
    """Sums in the end, rounded where they are not yet."""
    values: Array = np.rint(sums).clip(addend.clamp_low, addend.clamp_high).astype(np.int64)
    return values


def swapped(values: Array) -> Array:
    """The factors of the own output and the residual in each other's place; that of the sum stays."""
    return values[[1, 0, 2][: len(values)]].copy()


def changed(**change: Callable[[Addend], Any]) -> Mutant:
    """The right addition with another value of the residual's."""

    def mutant(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
        other = replace(addend, **{name: new(addend) for name, new in change.items()})
        return stored(other, added(workload, operands, other, own))

    return mutant


def own_zero_point_ignored(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    return stored(addend, added(workload, replace(operands, output_zero_point=0), addend, own))


def residual_of_the_other_sign(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    other = addend.data.view(np.int8 if addend.data.dtype == np.uint8 else np.uint8)
    return stored(addend, added(workload, operands, replace(addend, data=other), own))


def wraps(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    low = RANGES[workload.numerics.output][0]
    sums = (added(workload, operands, addend, own) - low) % 256 + low
    return stored(addend, sums)


def clamp_missing(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    low, high = RANGES[workload.numerics.output]
    return added(workload, operands, addend, own).clip(low, high)


def not_added(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:  # noqa: ARG001
    return own


def terms_rounded(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    """Each term rounded to a step of the sum, then the sum of both."""
    ratios = real_ratios(workload, addend)
    terms = (own - operands.output_zero_point) * ratios[0], (addend.data.astype(int) - addend.zero_point) * ratios[1]
    return stored(addend, np.rint(terms[0]) + np.rint(terms[1]) + addend.sum_zero_point)


def truncated(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    return stored(addend, np.floor(real_sums(workload, operands, addend, own)))


def half_away(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    sums = real_sums(workload, operands, addend, own) - addend.sum_zero_point
    return stored(addend, np.sign(sums) * np.floor(np.abs(sums) + 0.5) + addend.sum_zero_point)


def half_even_in_binary64(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    return stored(addend, real_sums(workload, operands, addend, own))


def real_ratios(workload: Workload, addend: Addend) -> Array:
    if workload.numerics.addition_rule != "fixed":
        return addend.ratio.astype(np.float64)
    reals = np.ldexp(addend.multiplier.astype(np.float64), addend.shift - 31)
    ratios: Array = reals[:2] * reals[2] * 2.0**20
    return ratios


def real_sums(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    ratios = real_ratios(workload, addend)
    steps = own - operands.output_zero_point, addend.data.astype(np.int64) - addend.zero_point
    sums: Array = steps[0] * ratios[0] + steps[1] * ratios[1] + addend.sum_zero_point
    return sums


def products_rounded(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    """As without fused multiply-add."""
    residual = workload.numerics.residual
    assert residual is not None
    constant = addition_constant(*in_order(residual, operands.output_zero_point, addend))
    first, second = residual.in_order(own * addend.ratio[0], addend.data * addend.ratio[1])
    return stored(addend, first.astype(np.float32) + (second.astype(np.float32) + constant))


def other_order(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    """The summands exchanged."""
    residual = workload.numerics.residual
    assert residual is not None
    exchanged = replace(residual, first=not residual.first)
    sums = add_binary32(
        *exchanged.in_order(own, addend.data.astype(np.int64)),
        *in_order(exchanged, operands.output_zero_point, addend),
    )
    return stored(addend, sums)


def dequantized(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:  # noqa: ARG001
    """As DequantizeLinear, Add and QuantizeLinear would with the sum's scale at 1."""
    own_term = (own - operands.output_zero_point).astype(np.float32) * addend.ratio[0]
    residual_term = (addend.data.astype(np.int64) - addend.zero_point).astype(np.float32) * addend.ratio[1]
    return stored(addend, np.rint(own_term + residual_term) + addend.sum_zero_point)


def own_output_not_rounded(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:  # noqa: ARG001
    """The layer's own output kept in float: neither rounded nor saturated."""
    factors = operands.scale.astype(np.float64)
    if operands.multiplier.size:
        factors = np.ldexp(operands.multiplier.astype(np.float64), operands.shift - 31)
    sums = sums_of(workload, operands) * factors + operands.output_zero_point
    return stored(addend, real_sums(workload, operands, addend, sums))


def own_output_not_saturated(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:  # noqa: ARG001
    if operands.scale.size:
        scaled = np.rint(sums_of(workload, operands) * operands.scale.astype(np.float64)).astype(np.int64)
    else:
        factors = operands.multiplier.astype(np.int64), operands.shift.astype(np.int64)
        scaled = scale_fixed_point(sums_of(workload, operands), *factors)
    beyond = np.clip(scaled + operands.output_zero_point, -(2**13), 2**13)
    return stored(addend, real_sums(workload, operands, addend, beyond))


def sums_of(workload: Workload, operands: Operands) -> Array:
    """The int32 sums: those of the same layer that stores them."""
    numerics = replace(workload.numerics, output="s32", requantize=None, clamp=False, residual=None)
    empty: dict[str, Any] = {name: np.empty(0, np.float32) for name in ("scale", "offset", "exception_offset")}
    empty |= {name: np.empty(0, np.int32) for name in ("multiplier", "shift", "exception")}
    low, high = RANGES["s32"]
    plain = replace(operands, residual=None, output_zero_point=0, clamp_low=low, clamp_high=high, **empty)
    return reference(replace(workload, numerics=numerics), plain).astype(np.int64)


def rounded_up(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:  # noqa: ARG001
    """The right shifts of the fixed rule round half up."""

    def scale(total: Array, index: int) -> Array:
        multiplier, right = int(addend.multiplier[index]), -int(addend.shift[index])
        high = (total * multiplier + (1 << 30)) >> 31
        half_up: Array = (high + ((1 << right) >> 1)) >> right
        return half_up

    terms = scale((own - operands.output_zero_point) << 20, 0)
    terms = terms + scale((addend.data.astype(np.int64) - addend.zero_point) << 20, 1)
    return stored(addend, scale(terms, 2) + addend.sum_zero_point)


def moved(axis: int) -> Mutant:
    """The residual of the neighbour along an axis."""
    return changed(data=lambda addend: np.ascontiguousarray(np.roll(addend.data, 1, axis)))


def constant_computed(workload: Workload, operands: Operands, addend: Addend, own: Array) -> Array:
    """In binary32, of the zero points."""
    constant = addition_constant(operands.output_zero_point, replace(addend, constant=np.empty(0, np.float32)))
    return changed(constant=lambda _: np.array([constant]))(workload, operands, addend, own)


ZERO_POINTS: dict[str, Mutant] = {
    "residual's zero point ignored": changed(zero_point=lambda _: 0),
    "residual's zero point off by one": changed(zero_point=lambda addend: max(addend.zero_point - 1, -128)),
    "own zero point ignored": own_zero_point_ignored,
    "sum's zero point ignored": changed(sum_zero_point=lambda _: 0),
}
BOTH: dict[str, Mutant] = {
    "scales swapped": changed(
        ratio=lambda addend: swapped(addend.ratio),
        multiplier=lambda addend: swapped(addend.multiplier),
        shift=lambda addend: swapped(addend.shift),
    ),
    "wraps instead of saturating": wraps,
    "not added": not_added,
    "each term rounded": terms_rounded,
    "truncated": truncated,
    "residual of the other sign": residual_of_the_other_sign,
    "residual of the channel before": moved(-1),
    "residual of the column before": moved(-2),
    "own output not saturated": own_output_not_saturated,
}
FLOAT: dict[str, Mutant] = {
    "half away from zero": half_away,
    "binary64": half_even_in_binary64,
    "products rounded": products_rounded,
    "other order": other_order,
    "dequantized": dequantized,
    "own output not rounded": own_output_not_rounded,
}
FUSED: dict[str, Mutant] = {
    "constant ignored": changed(constant=lambda addend: 0 * addend.constant),
    "constant computed": constant_computed,
    "constant's last bit": changed(constant=lambda addend: np.nextafter(addend.constant, np.float32(0))),
}
FIXED: dict[str, Mutant] = {
    "half to even": half_even_in_binary64,
    "half up": rounded_up,
}


@pytest.mark.parametrize("seed", one_in(3, [0, 1, 2]))
@pytest.mark.parametrize(
    ("name", "key"),
    representatives(
        [
            *((name, key) for name in BOTH for key in KEYS),
            *((name, key) for name in ZERO_POINTS for key in ZERO_POINT_KEYS),
            *((name, key) for name in FLOAT for key in FLOAT_KEYS),
            *((name, key) for name in FIXED for key in FIXED_KEYS),
            *((name, key) for name in FUSED for key in FUSED_KEYS),
        ]
    ),
)
def test_a_wrong_addition_is_found(name: str, key: str, seed: int) -> None:
    workload, mutant = parse_workload(key), (BOTH | ZERO_POINTS | FLOAT | FIXED | FUSED)[name]
    found = [
        case
        for case, operands, addend, own in cases(key, seed)
        if (mutant(workload, operands, addend, own) != reference(workload, operands)).any()
    ]
    assert found, f"no case tells this from the truth: {name}"


@pytest.mark.parametrize("key", [key for key in KEYS if key.split("add")[1].count("clamp")])
def test_a_missing_clamp_of_the_sum_is_found(key: str) -> None:
    workload = parse_workload(key)
    assert any((clamp_missing(workload, *case[1:]) != reference(workload, case[1])).any() for case in cases(key))


@pytest.mark.parametrize("key", KEYS)
def test_a_right_addition_is_not_accused(key: str) -> None:
    """The mutants' own parts, left unmutated, agree with the oracle."""
    workload = parse_workload(key)
    for _, operands, addend, own in cases(key):
        expected = reference(workload, operands)
        np.testing.assert_array_equal(changed()(workload, operands, addend, own), expected)
        far = np.abs(real_sums(workload, operands, addend, own) % 1 - 0.5) > 1e-3
        real = half_even_in_binary64(workload, operands, addend, own)
        np.testing.assert_array_equal(real[far], expected[far])

"""The oracle against Python integers, exact fractions and the binary32 arithmetic of numpy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import ROUNDING_RULES, Numerics, Requantize
from int8tune.schedules.operands import Addend, Operands, quantize_multiplier
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import (
    accumulate,
    reference,
    requantize,
    scale_binary32,
    scale_fixed_point,
    scale_fused,
)
from int8tune.schedules.workload import (
    Conv2d,
    Dense,
    DepthwiseConv2d,
    Window,
    Workload,
    parse_workload,
)
from tests.support.kernels.layers import residuals

LAYER = parse_workload("conv2d-u8u8-1x4x4x3-k3x3x2-s1-p1-wz-float.c-clamp-u8")
FIXED_LAYER = parse_workload("dense-s8s8-2x5-o3-fixed.c-s8")
FUSED_LAYER = parse_workload("dense-s8s8-2x5-o3-fused.cx-s8")
LARGEST_FUSED_SCALE = np.nextafter(np.float32(1 - 2.0**-20), np.float32(0))


@st.composite
def numerics(draw: st.DrawFn) -> Numerics:
    kinds: st.SearchStrategy[Any] = st.sampled_from(["u8", "s8"])
    output: Any = draw(st.sampled_from(["u8", "s8", "s32"]))
    rule: Any = draw(st.sampled_from(ROUNDING_RULES))
    requantize_step = Requantize(rule, draw(st.booleans()), rule == "fused" and draw(st.booleans()))
    return Numerics(
        data=draw(kinds),
        weight=draw(kinds),
        output=output,
        requantize=None if output == "s32" else requantize_step,
        weight_zero_point=draw(st.booleans()),
        clamp=output != "s32" and draw(st.booleans()),
        residual=draw(residuals(rule)) if output != "s32" and draw(st.booleans()) else None,
    )


@st.composite
def tiny_workloads(draw: st.DrawFn) -> Workload:
    kind = draw(st.sampled_from(["conv2d", "dwconv2d", "dense"]))
    small, pads = st.integers(1, 3), st.integers(0, 2)
    if kind == "dense":
        return Dense(draw(small), draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(numerics()))
    window = Window(
        kernel=(draw(small), draw(small)),
        stride=(draw(small), draw(small)),
        padding=(draw(pads), draw(pads), draw(pads), draw(pads)),
        dilation=(draw(st.integers(1, 2)), draw(st.integers(1, 2))),
    )
    batch, height, width = draw(st.integers(1, 2)), draw(st.integers(5, 6)), draw(st.integers(5, 7))
    if kind == "dwconv2d":
        return DepthwiseConv2d(batch, height, width, draw(small), window, draw(small), draw(numerics()))
    groups = draw(small)
    return Conv2d(
        batch, height, width, groups * draw(small), groups * draw(st.integers(1, 2)), window, groups, draw(numerics())
    )


@settings(max_examples=60, deadline=None)
@given(workload=tiny_workloads(), case=st.integers(0, 7), seed=st.integers(0, 1000))
def test_it_agrees_with_loops_over_python_integers(workload: Workload, case: int, seed: int) -> None:
    operands = adversarial_operands(workload, seed)[case][1]
    outputs = reference(workload, operands)
    assert outputs.shape == workload.output_shape
    assert str(outputs.dtype) == {"u8": "uint8", "s8": "int8", "s32": "int32"}[workload.numerics.output]
    for index in np.ndindex(*workload.output_shape):
        total = sum(_products(workload, operands, index)) + int(operands.bias[index[-1]])
        assert int(outputs[index]) == _expected_output(workload, operands, index, total), (workload.key, index)


def _products(workload: Workload, operands: Operands, index: tuple[int, ...]) -> Iterator[int]:
    """The products that one output sums."""
    channel = index[-1]

    def product(data_index: tuple[int, ...], weight_index: tuple[int, ...]) -> int:
        data = int(operands.data[data_index]) - operands.data_zero_point
        return data * (int(operands.weight[(channel, *weight_index)]) - operands.weight_zero_point)

    if isinstance(workload, Dense):
        for k in range(workload.in_features):
            yield product((index[0], k), (k,))
        return
    window = workload.window
    for kh, kw in itertools.product(range(window.kernel[0]), range(window.kernel[1])):
        y = index[1] * window.stride[0] + kh * window.dilation[0] - window.padding[0]
        x = index[2] * window.stride[1] + kw * window.dilation[1] - window.padding[1]
        if not (0 <= y < workload.height and 0 <= x < workload.width):
            continue
        if isinstance(workload, DepthwiseConv2d):
            yield product((index[0], y, x, channel // workload.multiplier), (kh, kw))
            continue
        group_inputs = workload.in_channels // workload.groups
        group = channel // (workload.out_channels // workload.groups)
        for c in range(group_inputs):
            yield product((index[0], y, x, group * group_inputs + c), (kh, kw, c))


def _expected_output(workload: Workload, operands: Operands, index: tuple[int, ...], total: int) -> int:
    requantize_step = workload.numerics.requantize
    if requantize_step is None:
        return total
    at = index[-1] if requantize_step.per_channel else 0
    if requantize_step.rule == "float":
        product = _binary32(Fraction(total)) * Fraction(float(operands.scale[at]))
        value = round(_binary32(product))
    elif requantize_step.rule == "fixed":
        value = _gemmlowp(total, int(operands.multiplier[at]), int(operands.shift[at]))
    elif requantize_step.rule == "fine":
        factors = (Fraction(float(each[at])) for each in (operands.scale, operands.rest, operands.offset))
        value = _fine(total, *factors)
    else:
        is_exception = requantize_step.exceptions and abs(total) == operands.exception[at]
        offset = operands.exception_offset[at] if is_exception else operands.offset[at]
        value = _fused(total, float(operands.scale[at]), float(offset))
    own = min(max(value + operands.output_zero_point, operands.clamp_low), operands.clamp_high)
    addend = operands.residual
    if addend is None:
        return own
    residual, zero_point = int(addend.data[index]), operands.output_zero_point
    assert workload.numerics.residual
    if requantize_step.rule == "fixed" and not workload.numerics.residual.fused:
        added = _fixed_sum(own, residual, zero_point, addend)
    elif workload.numerics.residual.first:
        other_way = replace(addend, ratio=np.flip(addend.ratio), zero_point=zero_point)
        added = _float_sum(residual, own, addend.zero_point, other_way)
    else:
        added = _float_sum(own, residual, zero_point, addend)
    return min(max(added, addend.clamp_low), addend.clamp_high)


def _float_sum(own: int, residual: int, own_zero_point: int, addend: Addend) -> int:
    """MlasQLinearAddKernelAvx2Helper word for word, in exact fractions that are rounded where it rounds."""
    p, q = (Fraction(float(ratio)) for ratio in addend.ratio)
    zeros = _binary32(p * own_zero_point + _binary32(q * addend.zero_point))
    constant = _binary32(addend.sum_zero_point - zeros)
    if addend.constant.size:
        constant = Fraction(float(addend.constant[0]))
    return round(_binary32(own * p + _binary32(residual * q + constant)))


def _fixed_sum(own: int, residual: int, own_zero_point: int, addend: Addend) -> int:
    """TFLite's AddElementwise word for word."""
    factors = [(int(m), int(s)) for m, s in zip(addend.multiplier, addend.shift, strict=True)]
    terms = _gemmlowp((own - own_zero_point) << 20, *factors[0])
    terms += _gemmlowp((residual - addend.zero_point) << 20, *factors[1])
    return _gemmlowp(terms, *factors[2]) + addend.sum_zero_point


def _fine(total: int, scale: Fraction, rest: Fraction, offset: Fraction) -> int:
    """The steps of the rule, in exact fractions that are rounded where it rounds."""
    number, signed_offset = _binary32(Fraction(total)), -offset if total < 0 else offset
    whole = round(_binary32(number * scale))
    behind = _binary32(_binary32(number * scale - whole) + _binary32(number * rest + signed_offset))
    return whole + round(behind)


def _fused(total: int, scale: float, offset: float) -> int:
    """One exact multiplication and addition, rounded to binary32, then to an integer."""
    signed_offset = Fraction(-offset if total < 0 else offset)
    return round(_binary32(_binary32(Fraction(total)) * Fraction(scale) + signed_offset))


def _binary32(value: Fraction) -> Fraction:
    """The nearest number with 24 significant bits; ties go to the even one, as Python's `round` has it."""
    if value == 0:
        return value
    unit = Fraction(1)
    while abs(value) / unit >= 2**24:
        unit *= 2
    while abs(value) / unit < 2**23:
        unit /= 2
    return round(value / unit) * unit


def _gemmlowp(total: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier word for word: a nudge that depends on the sign, division that truncates."""
    left, right = max(shift, 0), max(-shift, 0)
    shifted = ((total << left) + 2**31) % 2**32 - 2**31
    product = shifted * multiplier
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)
    mask = (1 << right) - 1
    return (high >> right) + int((high & mask) > (mask >> 1) + int(high < 0))


def test_the_float_rule_is_binary32_arithmetic() -> None:
    rng = np.random.default_rng(3)
    total = np.concatenate(
        [
            rng.integers(-(2**31), 2**31, 400_000),
            rng.integers(-(2**10), 2**10, 300_000),
            (rng.integers(-128, 128, 300_000) * 2 + 1) * 2**23 + rng.integers(-3, 4, 300_000),
            [0, 2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1],
        ]
    )
    scales = 2.0 ** rng.uniform(-60, 20, total.size)
    scales[::3] = 2.0 ** rng.integers(-60, 21, scales[::3].size)
    scales[1::3] = 1 / np.abs(total[1::3]).clip(1) * (rng.integers(1, 256, scales[1::3].size) + 0.5)
    scale = scales.clip(2.0**-60, 2.0**20).astype(np.float32)
    expected = np.rint(total.astype(np.float32) * scale).astype(np.float64).clip(-(2.0**31), 2.0**31 - 1)
    np.testing.assert_array_equal(scale_binary32(total, scale), expected.astype(np.int64))


def test_the_float_rule_breaks_ties_to_even() -> None:
    total = np.array([-7, -5, -3, -1, 1, 3, 5, 7])
    assert scale_binary32(total, np.array([0.5], np.float32)).tolist() == [-4, -2, -2, 0, 0, 2, 2, 4]


def test_the_fixed_rule_rounds_twice() -> None:
    total = np.array([-6, -5, -3, -2, -1, 1, 2, 3, 5, 6])
    # 0.25: the high product first makes 1 of 0.5, the shift by one then makes 1 of that, where one rounding has 0.
    quarter = scale_fixed_point(total, np.array([2**30]), np.array([-1]))
    assert quarter.tolist() == [-2, -1, -1, -1, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("shift", [-31, -30, -24, -1, 0, 1, 7, 30])
def test_the_fixed_rule_agrees_with_gemmlowp(shift: int) -> None:
    rng = np.random.default_rng(shift + 31)
    total = np.concatenate([rng.integers(-(2**31), 2**31, 500), rng.integers(-50, 50, 200), [2**31 - 1, -(2**31)]])
    multiplier = rng.integers(2**30, 2**31, total.size)
    multiplier[::4] = 2**30
    multiplier[1::16] = 2**31 - 1
    multiplier[3::16] = 0
    expected = [_gemmlowp(int(a), int(b), shift) for a, b in zip(total, multiplier, strict=True)]
    assert scale_fixed_point(total, multiplier, np.full(total.size, shift)).tolist() == expected


def test_the_fused_rule_rounds_its_product_and_sum_once() -> None:
    rng = np.random.default_rng(4)
    kinds = [
        rng.integers(-(2**31), 2**31, 2000),
        rng.integers(-300, 301, 2000),
        rng.choice([-1, 1], 2000) * (2 ** rng.uniform(0, 31, 2000)).astype(np.int64),
        np.array([0, -1, 1, 2**31 - 1, -(2**31), 2**24 + 1, -(2**24) - 1]),
    ]
    total = np.concatenate(kinds)
    count = total.size
    scale, offset = 2.0 ** rng.uniform(-60, 0, count), rng.random(count)
    scale[::3] = 2.0 ** rng.integers(-60, 0, scale[::3].size)
    offset[::4] = rng.choice([0, 0.25, 0.5, 1, 2.0**-60], offset[::4].size)
    offset[1::4] = 2.0 ** rng.uniform(-60, 0, offset[1::4].size)
    # Nearly ties, where each bit of the sum counts.
    aims = (rng.integers(0, 256, scale[1::3].size) + 0.5 - offset[1::3]) / np.abs(total[1::3]).clip(1)
    scale[1::3] = np.where(aims > 0, aims, 0.5)
    values = scale.clip(2.0**-60, LARGEST_FUSED_SCALE).astype(np.float32), offset.astype(np.float32)
    expected = [_fused(int(one), float(s), float(o)) for one, s, o in zip(total, *values, strict=True)]
    assert scale_fused(total, *values).tolist() == expected


def test_the_fused_rule_breaks_ties_to_even_and_gives_offsets_the_sign_of_sums() -> None:
    total = np.array([-7, -5, -3, -1, 0, 1, 3, 5, 7])
    half = np.array([0.5], np.float32)
    assert scale_fused(total, half, 0 * half).tolist() == [-4, -2, -2, 0, 0, 0, 2, 2, 4]
    assert scale_fused(total, half / 2, half / 2).tolist() == [-2, -2, -1, 0, 0, 0, 1, 2, 2]
    # That of a sum of 0 is plus.
    assert scale_fused(np.array([-1, 0, 1]), half / 2, 2 * half).tolist() == [-1, 1, 1]


def test_no_product_of_the_fused_rule_leaves_int32() -> None:
    ends, one = np.array([-(2**31), 2**31 - 1]), np.array([1], np.float32)
    products = scale_fused(ends, LARGEST_FUSED_SCALE * one, one)
    # A step more or less does not, either.
    assert -(2**31) < products[0] < products[1] < 2**31 - 1
    assert ends.astype(np.float32)[1] * LARGEST_FUSED_SCALE == products[1]


def test_exceptions_are_sums_of_one_magnitude_with_another_offset() -> None:
    workload = parse_workload("dense-s8s8-6x5-o3-fused.cx-clamp-s8")
    operands = replace(
        _operands(workload),
        clamp_high=4,
        output_zero_point=1,
        exception=np.array([3, 2, -1], np.int32),
        exception_offset=np.array([0.25, 1, 1], np.float32),
    )
    sums = np.array([2, 3, 4, -2, -3, 6])[:, None] + np.zeros(3, np.int64)
    # Half of each, rounded to even, plus the zero point.
    plain = [2, 3, 3, 0, -1, 4]
    expected = np.array([[2, 3, 3, 0, -1, 4], [3, 3, 3, -1, -1, 4], plain]).T
    nowhere = replace(operands, exception=np.full(3, -1, np.int32))
    assert requantize(workload, nowhere, sums)[:, 0].tolist() == plain
    assert requantize(workload, operands, sums).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("dense-u8u8-1x1-o1-s32", -(2**31) + 5),
        ("dense-u8u8-1x1-o1-float.c-s8", -128),
        ("dense-u8u8-1x1-o1-fixed.c-u8", 0),
    ],
)
def test_sums_wrap_to_int32(key: str, expected: int) -> None:
    workload = parse_workload(key)
    assert requantize(workload, _operands(workload), np.array([[2**31 + 5]])).tolist() == [[expected]]


def test_saturated_values_do_not_overflow_with_the_zero_point() -> None:
    workload = parse_workload("dense-u8u8-1x1-o1-float.c-u8")
    operands = replace(_operands(workload), scale=np.array([2.0**20], np.float32), output_zero_point=255)
    assert requantize(workload, operands, np.array([[2**31 - 1], [-(2**31)]])).tolist() == [[255], [0]]


def test_a_window_far_larger_than_its_image_costs_no_padded_image() -> None:
    workload = parse_workload("conv2d-u8s8-1x2x2x1-k1x1x1-s524288-p1048576-s32")
    operands = _operands(workload)
    operands.data[:], operands.weight[:] = 7, 3
    outputs = reference(workload, operands)
    assert outputs.shape == (1, 5, 5, 1)
    assert np.flatnonzero(outputs).tolist() == [12]
    assert outputs[0, 2, 2, 0] == 21


@pytest.mark.alone
@pytest.mark.parametrize(
    "key",
    [
        "conv2d-u8s8-1x56x56x64-k3x3x64-s1-p1-float.c-u8",
        "conv2d-u8s8-1x224x224x3-k7x7x64-s2-p3-float.c-u8",
        "dwconv2d-u8s8-1x112x112x64-k3x3x1-s1-p1-fixed.c-u8",
        "dwconv2d-u8s8-1x112x112x64-k3x3x1-s1-p1-fused.cx-u8",
        "dense-u8s8-128x768-o3072-float.c-u8",
    ],
)
@pytest.mark.matrix(at_most=2)
def test_it_is_fast_enough_for_real_layers(key: str) -> None:
    workload = parse_workload(key)
    operands = adversarial_operands(workload, 0)[0][1]
    begin = time.process_time()
    reference(workload, operands)
    assert time.process_time() - begin < 2.0


def test_blocks_of_rows_sum_like_a_whole_image(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = parse_workload("conv2d-u8s8-2x9x7x6-k3x2x4-s2x1-p1.0.2.1-g2-s32")
    operands = adversarial_operands(workload, 5)[0][1]
    whole = accumulate(workload, operands.data, operands.weight, 3, 0)
    monkeypatch.setattr("int8tune.schedules.oracle.reference._VALUES", 500)
    np.testing.assert_array_equal(accumulate(workload, operands.data, operands.weight, 3, 0), whole)


def _operands(workload: Workload) -> Operands:
    """Zeros of the right types and shapes."""
    numerics = workload.numerics
    kinds = {"u8": np.uint8, "s8": np.int8}
    entries = workload.out_channels if numerics.requantize and numerics.requantize.per_channel else 1
    low, high = {"u8": (0, 255), "s8": (-128, 127), "s32": (-(2**31), 2**31 - 1)}[numerics.output]
    values: dict[str, Any] = {}
    if numerics.requantize is not None and numerics.requantize.rule == "float":
        values["scale"] = np.ones(entries, np.float32)
    elif numerics.requantize is not None and numerics.requantize.rule in ("fused", "fine"):
        values = {"scale": np.full(entries, 0.5, np.float32), "offset": np.zeros(entries, np.float32)}
        if numerics.requantize.rule == "fine":
            values["rest"] = np.zeros(entries, np.float32)
        if numerics.requantize.exceptions:
            values |= {"exception": np.zeros(entries, np.int32), "exception_offset": np.zeros(entries, np.float32)}
    elif numerics.requantize is not None:
        values = {"multiplier": np.full(entries, 2**30, np.int32), "shift": np.zeros(entries, np.int32)}
    return Operands(
        data=np.zeros(workload.data_shape, kinds[numerics.data]),
        weight=np.zeros(workload.weight_shape, kinds[numerics.weight]),
        bias=np.zeros(workload.out_channels, np.int32),
        clamp_low=low,
        clamp_high=high,
        **values,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": [1, 2]}, "data must be a numpy array: list"),
        ({"data": np.zeros((1, 4, 4, 3), np.int8)}, "data must be of type uint8: int8"),
        ({"data": np.zeros((1, 4, 3, 4), np.uint8)}, "data must have shape"),
        ({"weight": np.zeros((2, 3, 3), np.uint8)}, "weight must have shape"),
        ({"bias": np.zeros(2, np.int64)}, "bias must be of type int32: int64"),
        ({"bias": np.zeros(1, np.int32)}, "bias must have shape"),
        ({"data_zero_point": 256}, "the data zero point must be within 0 and 255: 256"),
        ({"data_zero_point": -1}, "the data zero point must be within 0 and 255: -1"),
        ({"weight_zero_point": 256}, "the weight zero point must be within 0 and 255: 256"),
        ({"output_zero_point": 300}, "the output zero point must be within 0 and 255: 300"),
        ({"output_zero_point": 1.0}, "zero points must be integers: 1.0"),
        ({"data_zero_point": True}, "zero points must be integers: True"),
        ({"scale": np.ones(1, np.float32)}, "scale must have shape"),
        ({"scale": np.ones(2, np.float64)}, "scale must be of type float32: float64"),
        ({"scale": np.array([1, 0], np.float32)}, "scale must be within 2^-60 and 2^20: 0.0"),
        ({"scale": np.array([-1, 1], np.float32)}, "scale must be within 2^-60 and 2^20: -1.0"),
        ({"scale": np.array([np.nan, 1], np.float32)}, "scale must be within 2^-60 and 2^20: nan"),
        ({"scale": np.array([np.inf, 1], np.float32)}, "scale must be within 2^-60 and 2^20: inf"),
        ({"scale": np.array([1e-40, 1], np.float32)}, "scale must be within 2^-60 and 2^20"),
        ({"multiplier": np.ones(2, np.int32)}, "multiplier must have shape"),
        ({"shift": np.ones(2, np.int32)}, "shift must have shape"),
        ({"clamp_low": 9, "clamp_high": 8}, "clamp bounds must ascend within 0 and 255: 9 to 8"),
        ({"clamp_low": -1}, "clamp bounds must ascend within 0 and 255: -1 to 255"),
        ({"clamp_high": 256}, "clamp bounds must ascend within 0 and 255: 0 to 256"),
        ({"clamp_high": 5.5}, "clamp bounds must be integers: 5.5"),
    ],
)
def test_operands_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    _operands(LAYER).validate(LAYER)
    with pytest.raises(OperandError) as error:
        replace(_operands(LAYER), **change).validate(LAYER)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_zero_point": 1}, "the workload has no weight zero point, but one is given: 1"),
        ({"clamp_low": -100}, "the workload has no clamp, its bounds are -128 to 127: -100 to 127"),
        ({"scale": np.ones(3, np.float32)}, "scale must have shape"),
        ({"multiplier": np.full(3, 2**30 - 1, np.int32)}, "multiplier must be 0 or within 2^30 and 2^31 - 1"),
        ({"multiplier": np.full(3, -1, np.int32)}, "multiplier must be 0 or within 2^30 and 2^31 - 1: -1"),
        ({"shift": np.full(3, 31, np.int32)}, "shift must be within -31 and 30: 31"),
        ({"shift": np.full(3, -32, np.int32)}, "shift must be within -31 and 30: -32"),
    ],
)
def test_operands_of_the_fixed_rule_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    _operands(FIXED_LAYER).validate(FIXED_LAYER)
    with pytest.raises(OperandError) as error:
        reference(FIXED_LAYER, replace(_operands(FIXED_LAYER), **change))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": np.ones(3, np.float32)}, "scale must be at least 2^-60 and below 1 - 2^-20: 1.0"),
        ({"scale": np.full(3, 1 - 2.0**-20, np.float32)}, "scale must be at least 2^-60 and below 1 - 2^-20: 0.999999"),
        ({"scale": np.full(3, np.nan, np.float32)}, "scale must be at least 2^-60 and below 1 - 2^-20: nan"),
        ({"scale": np.full(3, 2.0**-61, np.float32)}, "scale must be at least 2^-60 and below 1 - 2^-20: 4"),
        ({"offset": np.array([0, 0, -0.5], np.float32)}, "offset must be 0 or within 2^-60 and 1: -0.5"),
        ({"offset": np.array([0, 1, 1.5], np.float32)}, "offset must be 0 or within 2^-60 and 1: 1.5"),
        ({"offset": np.full(3, 2.0**-61, np.float32)}, "offset must be 0 or within 2^-60 and 1: 4"),
        ({"offset": np.full(3, np.nan, np.float32)}, "offset must be 0 or within 2^-60 and 1: nan"),
        ({"offset": np.zeros(1, np.float32)}, "offset must have shape (3,): (1,)"),
        ({"offset": np.zeros(3)}, "offset must be of type float32: float64"),
        ({"exception": np.zeros(0, np.int32)}, "exception must have shape (3,): (0,)"),
        ({"exception": np.zeros(3, np.int64)}, "exception must be of type int32: int64"),
        ({"exception": np.array([1, -2, 0], np.int32)}, "exception must be at least -1: -2"),
        ({"exception_offset": np.zeros(0, np.float32)}, "exception_offset must have shape (3,): (0,)"),
        (
            {"exception_offset": np.array([0, 1, 1.5], np.float32)},
            "exception_offset must be 0 or within 2^-60 and 1: 1.5",
        ),
        ({"multiplier": np.full(3, 2**30, np.int32)}, "multiplier must have shape (0,): (3,)"),
    ],
)
def test_operands_of_the_fused_rule_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    _operands(FUSED_LAYER).validate(FUSED_LAYER)
    with pytest.raises(OperandError) as error:
        reference(FUSED_LAYER, replace(_operands(FUSED_LAYER), **change))
    assert message in str(error.value)


def test_exceptions_are_given_where_the_rule_has_some_and_nowhere_else() -> None:
    workload = parse_workload("dense-s8s8-2x5-o3-fused.c-s8")
    _operands(workload).validate(workload)
    for name, dtype in (("exception", np.int32), ("exception_offset", np.float32)):
        given: dict[str, Any] = {name: np.zeros(3, dtype)}
        with pytest.raises(OperandError, match=rf"{name} must have shape \(0,\): \(3,\)"):
            replace(_operands(workload), **given).validate(workload)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ([0.0, 6e-7, 0.0], "rest must be at most 2^-20 of its scale: "),
        ([0.0, 0.0, -6e-7], "rest must be at most 2^-20 of its scale: "),
        ([np.nan, 0.0, 0.0], "rest's magnitude must be 0 or within 2^-60 and 1: nan"),
        ([0.0, -1e-30, 0.0], "rest's magnitude must be 0 or within 2^-60 and 1: 1"),
        ([0.0], "rest must have shape (3,): (1,)"),
    ],
)
def test_a_rest_is_little_beside_its_scale(rest: list[float], message: str) -> None:
    workload = parse_workload("dense-s8s8-2x5-o3-fine.c-s8")
    replace(_operands(workload), rest=np.array([4e-7, -4e-7, 0], np.float32)).validate(workload)
    with pytest.raises(OperandError) as error:
        reference(workload, replace(_operands(workload), rest=np.array(rest, np.float32)))
    assert message in str(error.value)


def test_sums_take_no_zero_point() -> None:
    workload = parse_workload("dense-s8s8-2x5-o3-s32")
    with pytest.raises(OperandError, match="an s32 output takes no zero point: 4"):
        replace(_operands(workload), output_zero_point=4).validate(workload)


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (1.0, (2**30, 1)),
        (0.5, (2**30, 0)),
        (0.75, (3 * 2**29, 0)),
        (2.0**-32, (2**30, -31)),
        (2.0**-33, (0, 0)),
        (0.0, (0, 0)),
        (1 - 2.0**-40, (2**30, 1)),
        (2.0**29, (2**30, 30)),
    ],
)
def test_multipliers_are_quantized_as_tflite_does(real: float, expected: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == expected


@settings(deadline=None)
@given(st.floats(2.0**-32, 2.0**29))
def test_a_quantized_multiplier_is_the_nearest(real: float) -> None:
    multiplier, shift = quantize_multiplier(real)
    assert 2**30 <= multiplier < 2**31
    unit = Fraction(2) ** (shift - 31)
    assert abs(multiplier * unit - Fraction(real)) <= unit / 2


@pytest.mark.parametrize("real", [-1.0, float("nan"), float("inf"), 2.0**30])
def test_multipliers_out_of_range_are_refused(real: float) -> None:
    with pytest.raises(OperandError, match="a multiplier must be"):
        quantize_multiplier(real)

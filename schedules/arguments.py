"""From a layer's values to the arguments of a kernel.

With `a` the data, `w` the weights and `za`, `zw` their zero points, a layer sums `(a - za) * (w - zw)`. A kernel
computes `sum(a * w)` and, where the weights have a zero point, the window sum of `a`; the rest of::

    sum((a - za) * (w - zw)) = sum(a * w) - zw * sum(a) - za * sum(w - zw)

is known before it runs and goes into the bias. Where a kernel leaves out the taps that lie in the border, the sums are
those over the other taps. Sums wrap like int32, so intermediate overflow is harmless.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import Numerics
from int8tune.schedules.operands import Addend, Operands
from int8tune.schedules.oracle.reference import addition_constant, in_order
from int8tune.schedules.scale_bounds import bounded_scales
from int8tune.schedules.template import Kernel, OperandLayout
from int8tune.schedules.workload import Workload

Array = npt.NDArray[Any]

# Positions in a kernel's `params` argument, int32. The bounds are those of the output before its zero point is added:
# written as `bound - zero point` in TIR, TVM would move the addition before the clamp, where it may overflow.
PAD_VALUE, WEIGHT_ZERO_POINT, OUTPUT_ZERO_POINT, LOWEST, HIGHEST = range(5)
# Behind these with a residual: the bounds of the sum, and what its rounding rule takes. The values of the float and the
# fused rule are binary32 in the form of their bits; `MULTIPLIER` and `SHIFT` begin three values each, as in
# `operands.Addend`.
SUM_LOWEST, SUM_HIGHEST = 5, 6
OWN_RATIO, RESIDUAL_RATIO, SUM_CONSTANT = 7, 8, 9
RESIDUAL_ZERO_POINT, SUM_ZERO_POINT, MULTIPLIER, SHIFT = 7, 8, 9, 12
# Rows of a kernel's `rescale` argument by the fused rule; scales and offsets are binary32 in the form of their bits.
SCALE_ROW, OFFSET_ROW, EXCEPTION_ROW, EXCEPTION_OFFSET_ROW = range(4)
# By the fine rule the first two, and the bits of what scales are more than that.
REST_ROW = 2

CONSTANT_INPUTS = (1, 2, 3, 4)
"""Positions of a kernel's inputs that are the same in each run of a network: weight, bias, rescale and params."""


def kernel_inputs(workload: Workload, kernel: Kernel, operands: Operands) -> tuple[Array, ...]:
    """The input arguments of a kernel, in order: data, weight, bias, rescale, params, and the residual if it has one.

    `bias` has one int32 per border class and position of the layout's channels. `rescale` is float32 [P] for the float
    rule, int32 [2, P] (multipliers, shifts) for the fixed rule, int32 [2, P] (bits of scales and offsets) for the fused
    rule and [4, P] (also the magnitudes of exceptions and the bits of their offsets) with exceptions, [3, P] (bits of
    scales, offsets and rests) for the fine rule, for P positions, or 1 where it is per tensor; the float rule's scales
    are bounded where they can be (`schedules.scale_bounds`). An
    s32 output has one unused int32 there, so that all kernels have the same arguments.
    """
    layout = kernel.layout
    data_zero_point = operands.data_zero_point + layout.data_offset
    params = np.zeros(params_length(workload.numerics), np.int32)
    params[PAD_VALUE] = data_zero_point
    params[WEIGHT_ZERO_POINT] = layout.packed_zero_point(operands.weight, operands.weight_zero_point)
    params[OUTPUT_ZERO_POINT] = operands.output_zero_point
    if workload.numerics.requantize is not None:
        params[LOWEST] = operands.clamp_low - operands.output_zero_point
        params[HIGHEST] = operands.clamp_high - operands.output_zero_point
    packed = layout.pack(operands.weight, operands.weight_zero_point)
    data = operands.data.reshape(kernel.data_shape)
    bias = _bias(workload, layout, operands, data_zero_point)
    inputs = (data, packed, bias, _rescale(workload, layout, operands), params)
    if operands.residual is None:
        return inputs
    params[SUM_LOWEST:] = addition_params(workload.numerics, operands.residual, operands.output_zero_point)
    return (*inputs, operands.residual.data.reshape(kernel.output_shape))


def params_length(numerics: Numerics) -> int:
    """Length of a kernel's `params` argument."""
    if numerics.addition_rule is None:
        return SUM_LOWEST
    return SHIFT + 3 if numerics.addition_rule == "fixed" else SUM_CONSTANT + 1


def addition_params(numerics: Numerics, addend: Addend, own_zero_point: int) -> Array:
    """The end of a kernel's `params`, from `SUM_LOWEST` on."""
    bounds = np.array([addend.clamp_low, addend.clamp_high], np.int32)
    if addend.ratio.size:
        assert numerics.residual is not None
        constant = addition_constant(*in_order(numerics.residual, own_zero_point, addend))
        factors = np.array([*addend.ratio, constant], np.float32)
        return np.concatenate([bounds, factors.view(np.int32)])
    zero_points = np.array([addend.zero_point, addend.sum_zero_point], np.int32)
    return np.concatenate([bounds, zero_points, addend.multiplier, addend.shift])


def _bias(workload: Workload, layout: OperandLayout, operands: Operands, data_zero_point: int) -> Array:
    """The bias minus `za * sum(w - zw)` over the taps of each border class."""
    weight = operands.weight.reshape(workload.out_channels, layout.border_taps.shape[1], -1)
    tap_sums = weight.sum(axis=2, dtype=np.int64) - operands.weight_zero_point * weight.shape[2]
    class_sums = layout.border_taps.astype(np.int64) @ tap_sums.T
    return _wrap(operands.bias.astype(np.int64) - data_zero_point * class_sums)[:, layout.channels].reshape(-1)


def has_weight_zero_point(numerics: Numerics, weight_offset: int) -> bool:
    """Whether the kernel's own weights have a zero point: shifting u8 weights to s8 gives them one of -128."""
    return numerics.weight_zero_point or weight_offset != 0


def rescale_shape(numerics: Numerics, positions: int) -> tuple[int, ...]:
    """Shape of a kernel's `rescale` argument."""
    if numerics.requantize is None:
        return (1,)
    values = positions if numerics.requantize.per_channel else 1
    return (values,) if numerics.requantize.rule == "float" else (numerics.requantize.rows, values)


def rescale_type(numerics: Numerics) -> str:
    """Type of a kernel's `rescale` argument."""
    return "float32" if numerics.requantize is not None and numerics.requantize.rule == "float" else "int32"


def _rescale(workload: Workload, layout: OperandLayout, operands: Operands) -> Array:
    requantize = workload.numerics.requantize
    if requantize is None:
        return np.zeros(1, np.int32)
    positions = layout.channels if requantize.per_channel else np.zeros(1, np.int64)
    if requantize.rule == "float":
        return bounded_scales(workload, operands.scale, operands.bias)[positions]
    rows = [operands.multiplier, operands.shift]
    if requantize.rule != "fixed":
        rows = [operands.scale.view(np.int32), operands.offset.view(np.int32)]
    if requantize.rule == "fine":
        rows += [operands.rest.view(np.int32)]
    if requantize.exceptions:
        rows += [operands.exception, operands.exception_offset.view(np.int32)]
    return np.stack([row[positions] for row in rows])


def _wrap(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return (values & 0xFFFFFFFF).astype(np.uint32).view(np.int32)

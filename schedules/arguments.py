"""From a layer's values to the arguments of a kernel.

With `a` the data, `w` the weights and `za`, `zw` their zero points, a layer sums `(a - za) * (w - zw)`. A kernel
computes `sum(a * w)` and, where the weights have a zero point, the window sum of `a`; the rest of::

    sum((a - za) * (w - zw)) = sum(a * w) - za * sum(w) + K * za * zw - zw * sum(a)

is known before it runs and goes into the bias. Sums wrap like int32, so intermediate overflow is harmless.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.numerics import Numerics
from schedules.operands import Operands
from schedules.template import Kernel, WeightLayout
from schedules.workload import Workload

Array = npt.NDArray[Any]

# Positions in a kernel's `params` argument, int32. The bounds are those of the output before its zero point is added:
# written as `bound - zero point` in TIR, TVM would move the addition before the clamp, where it may overflow.
PAD_VALUE, WEIGHT_ZERO_POINT, OUTPUT_ZERO_POINT, LOWEST, HIGHEST = range(5)
PARAMS_LENGTH = 5


def kernel_inputs(workload: Workload, kernel: Kernel, operands: Operands) -> tuple[Array, ...]:
    """The input arguments of a kernel, in order: data, weight, bias, rescale, params.

    `rescale` is float32 [OC] for the float rule, int32 [2, OC] (multipliers, shifts) for the fixed rule, with 1 in
    place of OC where it is per tensor. An s32 output has one unused int32 there, so that all kernels have the same
    arguments.
    """
    layout = kernel.layout
    weight = operands.weight.astype(np.int64) + layout.weight_offset
    data_zero_point = operands.data_zero_point + layout.data_offset
    weight_zero_point = operands.weight_zero_point + layout.weight_offset if _needs_window_sum(workload, layout) else 0
    sums = weight.reshape(workload.out_channels, -1).sum(axis=1)
    constant = workload.reduction * data_zero_point * weight_zero_point
    bias = _wrap(operands.bias.astype(np.int64) - data_zero_point * sums + constant)
    params = np.zeros(PARAMS_LENGTH, np.int32)
    params[PAD_VALUE] = data_zero_point
    params[WEIGHT_ZERO_POINT] = weight_zero_point
    params[OUTPUT_ZERO_POINT] = operands.output_zero_point
    if workload.numerics.requantize is not None:
        params[LOWEST] = operands.clamp_low - operands.output_zero_point
        params[HIGHEST] = operands.clamp_high - operands.output_zero_point
    packed = layout.pack(operands.weight)
    data = operands.data.reshape(kernel.data_shape)
    return (data, packed, bias, _rescale(workload, operands), params)


def has_weight_zero_point(numerics: Numerics, weight_offset: int) -> bool:
    """Whether the kernel's own weights have a zero point: shifting u8 weights to s8 gives them one of -128."""
    return numerics.weight_zero_point or weight_offset != 0


def _needs_window_sum(workload: Workload, layout: WeightLayout) -> bool:
    return has_weight_zero_point(workload.numerics, layout.weight_offset)


def rescale_shape(numerics: Numerics, out_channels: int) -> tuple[int, ...]:
    """Shape of a kernel's `rescale` argument."""
    if numerics.requantize is None:
        return (1,)
    channels = out_channels if numerics.requantize.per_channel else 1
    return (channels,) if numerics.requantize.rule == "float" else (2, channels)


def _rescale(workload: Workload, operands: Operands) -> Array:
    requantize = workload.numerics.requantize
    if requantize is None:
        return np.zeros(1, np.int32)
    if requantize.rule == "float":
        return operands.scale
    return np.stack([operands.multiplier, operands.shift])


def _wrap(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return (values & 0xFFFFFFFF).astype(np.uint32).view(np.int32)

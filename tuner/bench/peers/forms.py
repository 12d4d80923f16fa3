"""How a workload changes into the form that a library has."""

from __future__ import annotations

from dataclasses import replace

from int8tune.schedules.numerics import DataType, Requantize
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload


def usual_form(workload: Workload, data: DataType) -> Workload | Rejection:
    """The workload with data and output of one type, symmetric s8 weights, and scales in binary32."""
    numerics = workload.numerics
    if numerics.weight_zero_point or numerics.weight != "s8":
        return Rejection(f"weights must be s8 and have no zero point: {numerics.weight}")
    return float_form(workload, data)


def float_form(workload: Workload, data: DataType) -> Workload | Rejection:
    """The workload with data and output of one type, and scales in binary32."""
    numerics = workload.numerics
    if numerics.requantize is None:
        return Rejection("sums must be requantized, the output is s32")
    if numerics.residual is not None:
        return Rejection("a residual is not added")
    if numerics.clamp:
        return Rejection("outputs are not clamped")
    requantize = Requantize("float", numerics.requantize.per_channel)
    return replace(workload, numerics=replace(numerics, data=data, output=data, requantize=requantize))


def same_padding(workload: Conv2d | DepthwiseConv2d) -> Window:
    """The workload's window with TFLite's SAME padding: the odd row or column goes to the bottom or right."""
    window = workload.window
    totals = []
    for axis, extent in enumerate((workload.height, workload.width)):
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        outputs = -(-extent // window.stride[axis])
        totals.append(max((outputs - 1) * window.stride[axis] + reach - extent, 0))
    before = [total // 2 for total in totals]
    return replace(window, padding=(before[0], before[1], totals[0] - before[0], totals[1] - before[1]))


def groups_of(workload: Workload) -> int:
    """Groups of a convolution; of a depthwise one, each channel is one."""
    match workload:
        case Dense():
            return 1
        case Conv2d():
            return workload.groups
        case DepthwiseConv2d():
            return workload.channels

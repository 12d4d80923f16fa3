"""The mean over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    TYPES,
    OperatorKernel,
    argument,
    bounded,
    function_of,
    nearest_even,
    stored,
    values_of,
)
from int8tune.compiler.operator_kernels.windows import Sums, Windows, write_window_sums
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.mean import mean_constants
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.target import Target


def mean(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Sums over axes times a factor."""
    (data,), output = values_of(graph, operator)
    axes, constants = operator.attributes["axes"], mean_constants(operator, data, output)

    def scaled(total: Any, *_: Any) -> Any:
        centred = total - constants.zero_points
        if constants.scale is None:
            steps = scale_fixed_point(centred, tirx.const(constants.multiplier), tirx.const(constants.shift))
        else:
            steps = nearest_even(bounded(centred.astype("float32") * tirx.const(float(constants.scale), "float32")))
        return stored(steps + zero_point_of(output), operator, output)

    windows = _windows(data.shape, axes)
    if windows is not None:
        sums = Sums((TYPES[data.type], "int32", TYPES[output.type]), lambda value: value.astype("int32"), scaled)
        return OperatorKernel(write_window_sums(windows, sums, target), operator.inputs)
    values = argument("values", data)
    reduced = {axis: te.reduce_axis((0, data.shape[axis])) for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if axis not in axes]
    is_kept = len(output.shape) == len(data.shape)

    def total(*at: Any) -> Any:
        places = dict(zip(range(len(at)) if is_kept else kept, at, strict=True)) | reduced
        value = values[tuple(places[axis] for axis in range(len(data.shape)))].astype("int32")
        return te.sum(value, axis=list(reduced.values()))

    sums_of_axes = te.compute(output.shape, total)
    made = te.compute(output.shape, lambda *at: scaled(sums_of_axes[at]))
    return OperatorKernel(function_of([values, made], target), operator.inputs)


def _windows(shape: tuple[int, ...], axes: Sequence[int]) -> Windows | None:
    """Axes next to each other before the last ones as windows of one row; None for others."""
    first, behind = axes[0], axes[-1] + 1
    inner = math.prod(shape[behind:])
    if list(axes) != list(range(first, behind)) or inner == 1:
        return None
    taps = math.prod(shape[first:behind])
    return Windows((math.prod(shape[:first]), 1, taps, inner), (1, 1), (1, taps), (1, taps))

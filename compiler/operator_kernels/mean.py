"""The mean over axes."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    bounded,
    function_of,
    nearest_even,
    stored,
    values_of,
)
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.operators.mean import mean_constants
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.target import Target


def mean(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    """Sums over axes times a factor."""
    (data,), output = values_of(graph, operator)
    axes, constants = operator.attributes["axes"], mean_constants(operator, data, output)
    values = argument("values", data)
    reduced = {axis: te.reduce_axis((0, data.shape[axis])) for axis in axes}
    kept = [axis for axis in range(len(data.shape)) if axis not in axes]
    is_kept = len(output.shape) == len(data.shape)

    def total(*at: Any) -> Any:
        places = dict(zip(range(len(at)) if is_kept else kept, at, strict=True)) | reduced
        value = values[tuple(places[axis] for axis in range(len(data.shape)))].astype("int32")
        return te.sum(value, axis=list(reduced.values()))

    sums = te.compute(output.shape, total)

    def scaled(*at: Any) -> Any:
        centred = sums[at] - constants.zero_points
        if constants.scale is None:
            steps = scale_fixed_point(centred, tirx.const(constants.multiplier), tirx.const(constants.shift))
        else:
            steps = nearest_even(bounded(centred.astype("float32") * tirx.const(float(constants.scale), "float32")))
        return stored(steps + zero_point_of(output), operator, output)

    return OperatorKernel(function_of([values, te.compute(output.shape, scaled)], target), operator.inputs)

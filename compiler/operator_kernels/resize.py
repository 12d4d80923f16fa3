"""Images of another size."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tirx

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import (
    OperatorKernel,
    argument,
    constant,
    function_of,
    in_steps,
    nearest_even,
    rounded_alone,
    stored,
    values_of,
    with_sign_of,
)
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.resize import UNIT_BITS, resize_constants
from int8tune.compiler.program import Array
from int8tune.schedules.target import Target


def resize(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:
    (data,), output = values_of(graph, operator)
    constants = resize_constants(operator, data, output)
    image = argument("image", data)
    arrays: list[Array] = []
    for axis in (constants.rows, constants.columns):
        share = axis.share.astype(np.int32) if axis.share.dtype == np.int64 else axis.share
        arrays += [axis.low.astype(np.int32), axis.high.astype(np.int32), share]
    tensors = [constant(f"place_{index}", array) for index, array in enumerate(arrays)]
    top, bottom, down, left, right, across = tensors

    def nearest(n: Any, y: Any, x: Any, c: Any) -> Any:
        return image[n, top[y], left[x], c]

    def whole(n: Any, y: Any, x: Any, c: Any) -> Any:
        unit = 1 << UNIT_BITS
        corner = _corners(image, (n, c), (top[y], bottom[y]), (left[x], right[x]), "int32")
        sides = [corner[0][side] * (unit - down[y]) + corner[1][side] * down[y] for side in (0, 1)]
        total = sides[0] * (unit - across[x]) + sides[1] * across[x]
        magnitude = tirx.shift_right(tirx.abs(total) + (1 << 2 * UNIT_BITS - 1), 2 * UNIT_BITS)
        return stored(with_sign_of(total, magnitude), operator, output)

    def numbers_blended(n: Any, y: Any, x: Any, c: Any) -> Any:
        corner = _corners(image, (n, c), (top[y], bottom[y]), (left[x], right[x]), "int32")
        shares = _shares(down[y], across[x])
        scale, zero_point = tirx.const(float(scale_of(data)), "float32"), zero_point_of(data)
        # In ONNX Runtime's order: the weights of a pixel are multiplied first.
        parts = [
            rounded_alone(
                (shares[1][side] * shares[0][row]) * ((corner[row][side] - zero_point).astype("float32") * scale)
            )
            for row in (0, 1)
            for side in (0, 1)
        ]
        total = parts[0] + parts[1] + parts[2] + parts[3]
        return stored(nearest_even(in_steps(total, output)) + zero_point_of(output), operator, output)

    def bytes_blended(n: Any, y: Any, x: Any, c: Any) -> Any:
        corner = _corners(image, (n, c), (top[y], bottom[y]), (left[x], right[x]), "float32")
        shares = _shares(down[y], across[x])
        # In TFLite's order; a product that becomes part of a fused sum would be rounded once less.
        parts = [
            rounded_alone((corner[row][side] * shares[0][row]) * shares[1][side]) for side in (0, 1) for row in (0, 1)
        ]
        total = parts[0] + parts[1] + parts[2] + parts[3]
        return stored(tirx.floor(total + 0.5).astype("int32"), operator, output)

    if operator.attributes["method"] == "nearest":
        body = nearest
    elif operator.rule == "float":
        body = numbers_blended
    else:
        body = whole if down.dtype == "int32" else bytes_blended
    made = te.compute(output.shape, body)
    return OperatorKernel(function_of([image, *tensors, made], target), operator.inputs, tuple(arrays))


def _shares(down: Any, across: Any) -> list[tuple[Any, Any]]:
    """The weights of both rows, and of both columns."""
    one = tirx.const(1.0, "float32")
    return [(one - down, down), (one - across, across)]


def _corners(image: Any, at: tuple[Any, Any], rows: tuple[Any, Any], columns: tuple[Any, Any], element: str) -> Any:
    """The four pixels around a place, by row and column."""
    n, c = at
    return [[image[n, row, column, c].astype(element) for column in columns] for row in rows]

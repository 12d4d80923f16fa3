"""Blocks of pixels as channels of one pixel, and the other way round, of images [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators.base import Array, shape_fault


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,), block = inputs, operator.attributes["block"]
    if data.type != output.type or len(data.shape) != 4 or min(block) < 1:
        return f"it must move images of one type, with blocks of at least a pixel: {data.shape}, {block}"
    batch, height, width, channels = data.shape
    pixels = block[0] * block[1]
    if operator.kind is Kind.DEPTH_TO_SPACE:
        if channels % pixels:
            return f"{channels} channels are no blocks of {block}"
        return shape_fault(output, (batch, height * block[0], width * block[1], channels // pixels))
    if height % block[0] or width % block[1]:
        return f"{data.shape} has no blocks of {block}"
    return shape_fault(output, (batch, height // block[0], width // block[1], channels * pixels))


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:  # noqa: ARG001
    (image,), (rows, columns), minor = arrays, operator.attributes["block"], operator.attributes["minor"]
    batch, height, width, channels = image.shape
    if operator.kind is Kind.DEPTH_TO_SPACE:
        inner = channels // (rows * columns)
        split = (batch, height, width, *((inner, rows, columns) if minor else (rows, columns, inner)))
        order = (0, 1, 4, 2, 5, 3) if minor else (0, 1, 3, 2, 4, 5)
    else:
        split = (batch, height // rows, rows, width // columns, columns, channels)
        order = (0, 1, 3, 5, 2, 4) if minor else (0, 1, 3, 2, 4, 5)
    return np.ascontiguousarray(image.reshape(split).transpose(order)).reshape(output.shape)

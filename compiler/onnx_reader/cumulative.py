"""CumProd of ONNX: products of values up to each place of an axis, one after the other, as ONNX Runtime rounds them."""

from __future__ import annotations

import numpy as np

from int8tune.compiler.graph import DTYPES
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError

# Each step is a node, and what TVM fuses of them grows with their square.
_MOST_STEPS = 128
_TYPES = ("f32", "f64", "s32", "s64")


def write_cumulative_product(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    (type_, shape), place = file.forms[node.input(0)], file.constants.get(node.input(1))
    if type_ not in _TYPES:
        raise UnsupportedNodeError(f"its values must be of type {', '.join(_TYPES)}: {type_}")
    is_whole = place is not None and place.size == 1 and place.dtype.kind == "i"
    if place is None or not is_whole or not -len(shape) <= int(place.reshape(-1)[0]) < len(shape):
        raise UnsupportedNodeError(f"its axis must be a constant, one of {list(shape)}")
    axis = int(place.reshape(-1)[0]) % len(shape)
    if shape[axis] > _MOST_STEPS:
        raise UnsupportedNodeError(f"its axis must have at most {_MOST_STEPS} values: {list(shape)}")
    steps = list(range(shape[axis]))
    if node.attributes.get("reverse", 0):
        steps.reverse()
    if node.attributes.get("exclusive", 0):
        # Each place has the product of those before it; the first one has none.
        one = writer.apply("Expand", np.array(1, DTYPES[type_]), np.array([*shape[:axis], 1, *shape[axis + 1 :]]))
        found, steps = [one], steps[:-1]
    else:
        found = []
    for step in steps:
        value = writer.apply("Slice", node.input(0), np.array([step]), np.array([step + 1]), np.array([axis]))
        found.append(writer.apply("Mul", found[-1], value) if found else value)
    if node.attributes.get("reverse", 0):
        found.reverse()
    writer.apply("Concat", *found, output=node.outputs[0], axis=axis)

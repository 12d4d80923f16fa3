"""ONNX files with another operator, number, attribute, shape or name."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx

INTEGERS = (-(1 << 62), -9, -1, 0, 1, 2, 3, 5, 9, 1 << 20, 1 << 40)
# What attributes may be called by mistake: words of readers, of ONNX, and of other operators.
NAMES = ("", "name", "domain", "operator", "inputs", "outputs", "axis", "axes", "perm", "group", "pads", "value", "to")
TYPES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 16, 21, 22)


def changed(data: bytes, draw: random.Random) -> bytes:
    """A file with one to three changes, and now and then with another bit."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.choice([1, 1, 2, 3])):
        _change(model.graph, draw)
    made = bytearray(model.SerializeToString())
    if draw.randrange(4) == 0:
        made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
    return bytes(made)


def _change(graph: Any, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    match draw.randrange(10):
        case 0:
            node.op_type = draw.choice(graph.node).op_type
        case 1 | 2 if node.attribute:
            attribute = draw.choice(node.attribute)
            attribute.i, attribute.f = draw.choice(INTEGERS), draw.choice([0.0, -1.0, float("nan"), 1e38])
            attribute.ints[:] = [draw.choice(INTEGERS[1:9]) for _ in attribute.ints]
            attribute.s = draw.choice([attribute.s, b"", b"\xff"])
        case 3 if node.input:
            names = [name for each in graph.node for name in (*each.output, *each.input)]
            node.input[draw.randrange(len(node.input))] = draw.choice(names)
        case 4 if graph.initializer:
            tensor = draw.choice(graph.initializer)
            tensor.data_type = draw.choice([tensor.data_type, draw.choice(TYPES)])
            if tensor.dims:
                tensor.dims[draw.randrange(len(tensor.dims))] = draw.choice(INTEGERS[2:])
        case 5 | 6 if graph.initializer:
            _change_values(draw.choice(graph.initializer), draw)
        case 7 if len(node.input) > 1:
            del node.input[draw.randrange(len(node.input))]
        case 8 | 9:
            _change_form(node, draw)


def _change_form(node: Any, draw: random.Random) -> None:
    """Another name or type of an attribute, no values of it, or one that is new."""
    if not node.attribute or draw.randrange(4) == 0:
        node.attribute.add(name=draw.choice(NAMES), type=draw.choice([1, 2, 3, 7]), i=draw.choice(INTEGERS), s=b"x")
        return
    attribute = draw.choice(node.attribute)
    match draw.randrange(4):
        case 0:
            attribute.name = draw.choice(NAMES)
        case 1:
            attribute.type = draw.choice([*range(15)])
        case 2:
            for field in ("ints", "floats", "strings", "tensors", "i", "f", "s", "t"):
                attribute.ClearField(field)
        case _:
            node.attribute.append(attribute)


def _change_values(tensor: Any, draw: random.Random) -> None:
    try:
        array = np.array(onnx.numpy_helper.to_array(tensor))
    except Exception:  # an earlier change has damaged it
        return
    if array.size and array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            value = np.array(draw.choice([0, 1, 3, 100, -1, 1e30])).astype(array.dtype)
        array.reshape(-1)[draw.randrange(array.size)] = value
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

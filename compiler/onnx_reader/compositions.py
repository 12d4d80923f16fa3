"""Operators that ONNX defines by others, and scatters whose places stay within their axes."""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.graph import DTYPES
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import OPSET_OF_SUM_AXES, Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.tensors import ELEMENTS

# Scales and biases are those of channels from this version on, of groups before.
OPSET_OF_CHANNELS = 21
# From these on, axes of reductions are an input.
OPSET_OF_AXES = 18
_INT64 = 7
_LITTLE, _FAR = 1e-9, 1e4
_BITS = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "s32": 32, "s64": 64}
# Of numbers of 64 bits without their sign.
_MOST_BITS = 63
_NUMBERS = {element: number for number, element in ELEMENTS.items()}
_PADDINGS = ("zeros", "border", "reflection")


def _floats(file: OnnxFile, node: Node) -> tuple[int, ...]:
    """The shape of a node's data, which must be f32."""
    type_, shape = file.forms[node.input(0)]
    if type_ != "f32":
        raise UnsupportedNodeError(f"its data must be f32: {type_}")
    return shape


def _number(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise UnsupportedNodeError(f"its {name} must be a finite number: {value}")
    return float(value)


def _axis(node: Node, rank: int, default: int) -> int:
    axis = node.attributes.get("axis", default)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise UnsupportedNodeError(f"its axis must be one of {rank}: {axis}")
    return axis % rank


def write_clip(writer: FloatWriter, _file: OnnxFile, node: Node) -> None:
    """Bounds that are computed; where they cross, the upper one is what ONNX makes of every value."""
    least, most = node.input(1), node.input(2)
    name = node.input(0)
    if least:
        name = writer.apply("Max", name, least, output="" if most else node.outputs[0])
    if most:
        writer.apply("Min", name, most, output=node.outputs[0])


def write_group_normalization(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    shape, groups = _floats(file, node), node.attributes.get("num_groups")
    if len(shape) < 2 or not isinstance(groups, int) or groups < 1 or shape[1] % groups:
        raise UnsupportedNodeError(f"its num_groups must divide the channels of {list(shape)}: {groups}")
    owned = shape[1] if file.opset >= OPSET_OF_CHANNELS else groups
    if any(file.forms[name][1] != (owned,) for name in node.inputs[1:3]):
        raise UnsupportedNodeError(f"it must have {owned} scales and biases")
    rows = writer.apply("Reshape", node.input(0), np.array([shape[0], groups, -1]))
    rest, variance = _varied(writer, file, rows, [2])
    deviation = writer.apply("Sqrt", writer.apply("Add", variance, _number(node, "epsilon", 1e-5)))
    normalized = writer.apply("Div", rest, deviation)
    if owned == shape[1]:
        normalized = writer.apply("Reshape", normalized, np.array(shape))
    spread = np.array([-1, *(1,) * (len(shape) - 2 if owned == shape[1] else 1)])
    scale, bias = (writer.apply("Reshape", name, spread) for name in node.inputs[1:3])
    made = writer.apply("Add", writer.apply("Mul", normalized, scale), bias)
    writer.apply("Reshape", made, np.array(shape), output=node.outputs[0])


def _varied(writer: FloatWriter, file: OnnxFile, data: str, axes: list[int]) -> tuple[str, str]:
    """Values less their mean, and the variance."""
    rest = writer.apply("Sub", data, reduced(writer, file, "ReduceMean", data, axes))
    return rest, reduced(writer, file, "ReduceMean", writer.apply("Mul", rest, rest), axes)


def reduced(writer: FloatWriter, file: OnnxFile, operator: str, data: str, axes: list[int]) -> str:
    """A reduction that keeps its axes, which are an attribute in old versions."""
    if file.opset < (OPSET_OF_SUM_AXES if operator == "ReduceSum" else OPSET_OF_AXES):
        return writer.apply(operator, data, axes=axes, keepdims=1)
    return writer.apply(operator, data, np.array(axes), keepdims=1)


def write_mean_variance_normalization(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    shape, axes = _floats(file, node), node.attributes.get("axes", (0, 2, 3))
    if not isinstance(axes, tuple) or not axes or not all(-len(shape) <= axis < len(shape) for axis in axes):
        raise UnsupportedNodeError(f"its axes must be those of {list(shape)}: {axes}")
    rest, variance = _varied(writer, file, node.input(0), sorted({axis % len(shape) for axis in axes}))
    deviation = writer.apply("Add", writer.apply("Sqrt", variance), _LITTLE)
    writer.apply("Div", rest, deviation, output=node.outputs[0])


def write_lp_normalization(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """What is divided by a norm of 0 is 0."""
    shape, power = _floats(file, node), node.attributes.get("p", 2)
    if power not in (1, 2):
        raise UnsupportedNodeError(f"its p must be 1 or 2: {power}")
    axes, data = [_axis(node, len(shape), -1)], node.input(0)
    each = writer.apply("Abs", data) if power == 1 else writer.apply("Mul", data, data)
    norm = reduced(writer, file, "ReduceSum", each, axes)
    norm = norm if power == 1 else writer.apply("Sqrt", norm)
    is_none = writer.apply("Equal", norm, 0.0)
    writer.apply("Where", is_none, 0.0, writer.apply("Div", data, norm), output=node.outputs[0])


def write_celu(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    _floats(file, node)
    alpha, data = _number(node, "alpha", 1.0), node.input(0)
    if not alpha:
        raise UnsupportedNodeError("its alpha must not be 0")
    below = writer.apply("Sub", writer.apply("Exp", writer.apply("Div", data, alpha)), 1.0)
    below = writer.negative(writer.apply("Mul", below, alpha))
    writer.apply("Add", writer.positive(data), below, output=node.outputs[0])


def write_swish(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    _floats(file, node)
    inner = writer.apply("Mul", node.input(0), _number(node, "alpha", 1.0))
    writer.apply("Mul", node.input(0), writer.apply("Sigmoid", inner), output=node.outputs[0])


def write_is_infinite(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """What is infinite, of one sign or both."""
    data, zero = node.input(0), np.array(0, DTYPES[file.forms[node.input(0)][0]])
    signs = [bool(node.attributes.get(f"detect_{sign}", 1)) for sign in ("positive", "negative")]
    if all(signs):
        writer.apply("IsInf", data, output=node.outputs[0])
        return
    # Of no number both comparisons are false.
    is_of_sign = writer.apply("Greater" if signs[0] else "Less", data, zero if any(signs) else data)
    writer.apply("And", writer.apply("IsInf", data), is_of_sign, output=node.outputs[0])


def write_bit_shift(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """A product with or a quotient by a power of two, in 64 bits; all bits are gone at or beyond their count."""
    element, direction = file.forms[node.input(0)][0], node.attributes.get("direction")
    if element not in _BITS or direction not in ("LEFT", "RIGHT"):
        raise UnsupportedNodeError(f"it must shift integers of up to 64 bits: {element}, {direction}")
    bits = _BITS[element]
    value, count = (writer.apply("Cast", node.input(index), to=_INT64) for index in (0, 1))
    count = writer.apply("Where", writer.apply("Less", count, np.array(0)), np.array(bits), count)
    count = writer.apply("Min", count, np.array(bits))
    if direction == "LEFT":
        # The sign is the last of 64 bits, behind which nothing is left.
        table = np.array([(1 << at) % 2**64 for at in range(bits + 1)], np.uint64).view(np.int64)
        made = writer.apply("Mul", value, writer.apply("Gather", table, count, axis=0))
    else:
        made = _shifted_right(writer, value, count)
    writer.apply("Cast", made, output=node.outputs[0], to=_NUMBERS[element])


def _shifted_right(writer: FloatWriter, value: str, count: str) -> str:
    """Quotients that are rounded down: those of integers, which are rounded toward zero, of what is not negative."""
    is_negative = writer.apply("Less", value, np.array(0))
    whole = writer.apply("Where", is_negative, writer.apply("Sub", np.array(-1), value), value)
    powers = np.array([1 << at for at in range(_MOST_BITS)])
    power = writer.apply("Gather", powers, writer.apply("Min", count, np.array(_MOST_BITS - 1)), axis=0)
    is_none = writer.apply("Less", np.array(_MOST_BITS - 1), count)
    made = writer.apply("Where", is_none, np.array(0), writer.apply("Div", whole, power))
    return writer.apply("Where", is_negative, writer.apply("Sub", np.array(-1), made), made)


def write_cast_like(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    writer.apply("Cast", node.input(0), output=node.outputs[0], to=_NUMBERS[file.forms[node.outputs[0]][0]])


def write_one_hot(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Places outside of the depth are no places: all of their values are the first one."""
    (_, shape), made = file.forms[node.input(0)], file.forms[node.outputs[0]]
    if len(made[1]) != len(shape) + 1 or file.forms[node.input(2)] != (made[0], (2,)):
        raise UnsupportedNodeError(f"it must have two values, off and on: {list(file.forms[node.input(2)][1])}")
    axis = _axis(node, len(made[1]), -1)
    depth = made[1][axis]
    places = writer.apply("Cast", node.input(0), to=_INT64)
    is_negative = writer.apply("Less", places, np.array(0))
    places = writer.apply("Where", is_negative, writer.apply("Add", places, np.array(depth)), places)
    wide = writer.apply("Reshape", places, np.array([*shape[:axis], 1, *shape[axis:]]))
    is_place = writer.apply("Equal", wide, np.arange(depth).reshape(-1, *(1,) * (len(shape) - axis)))
    off, on = (writer.apply("Slice", node.input(2), np.array([at]), np.array([at + 1]), np.array([0])) for at in (0, 1))
    writer.apply("Where", is_place, on, off, output=node.outputs[0])


def write_grid_sample(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """What is far outside of an image is as far as its neighbour; what is no number, at its middle."""
    shape, at = _floats(file, node), node.attributes
    mode, padding = at.get("mode", "linear"), at.get("padding_mode", "zeros")
    if len(shape) not in (4, 5) or mode not in ("linear", "bilinear", "nearest") or padding not in _PADDINGS:
        what = f"only images are sampled, linear or nearest, padded by one of {', '.join(_PADDINGS)}"
        raise UnsupportedNodeError(f"{what}: {list(shape)}, {mode}, {padding}")
    if mode == "nearest" and padding == "reflection":
        raise UnsupportedNodeError("the nearest of a reflected image is not supported")
    numbers = writer.apply("Where", writer.apply("IsNaN", node.input(1)), 0.0, node.input(1))
    names = {"linear": "linear", "bilinear": "linear"}
    attributes = {"mode": names.get(str(mode), "nearest"), "padding_mode": padding}
    grid = writer.clipped(numbers, -_FAR, _FAR, file.opset)
    corners = int(bool(at.get("align_corners", 0)))
    writer.apply("GridSample", node.input(0), grid, output=node.outputs[0], align_corners=corners, **attributes)


def write_scatter_elements(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    (_, shape), (_, places) = (file.forms[name] for name in node.inputs[:2])
    axis = _axis(node, len(shape), 0)
    if len(places) != len(shape) or places != file.forms[node.input(2)][1]:
        raise UnsupportedNodeError(f"its places must be as many as its updates: {list(places)}")
    if any(own > extent for at, (own, extent) in enumerate(zip(places, shape, strict=True)) if at != axis):
        raise UnsupportedNodeError(f"its places {list(places)} must be within {list(shape)}")
    attributes = {"axis": axis, "reduction": _reduction(file, node)}
    indices = within(writer, node.input(1), np.array(shape[axis]))
    inputs = node.input(0), indices, node.input(2)
    writer.apply("ScatterElements", *inputs, output=node.outputs[0], **attributes)


def write_scatter_nd(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    (_, shape), (_, places) = (file.forms[name] for name in node.inputs[:2])
    depth = places[-1] if places else 0
    if not 1 <= depth <= len(shape) or file.forms[node.input(2)][1] != (*places[:-1], *shape[depth:]):
        raise UnsupportedNodeError(f"its updates must be those of places {list(places)} of {list(shape)}")
    indices = within(writer, node.input(1), np.array(shape[:depth]))
    inputs = node.input(0), indices, node.input(2)
    writer.apply("ScatterND", *inputs, output=node.outputs[0], reduction=_reduction(file, node))


def _reduction(file: OnnxFile, node: Node) -> str:
    found = node.attributes.get("reduction", "none")
    if found not in ("none", "add", "mul", "min", "max") or file.forms[node.input(0)][0] not in DTYPES:
        raise UnsupportedNodeError(f"its reduction must be none, add, mul, min or max: {found}")
    return str(found)


def within(writer: FloatWriter, indices: str, extents: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    """Indices from the end as those from the begin; beyond an axis, its first or last one: nothing else is written."""
    places = writer.apply("Cast", indices, to=_INT64)
    is_negative = writer.apply("Less", places, np.array(0))
    places = writer.apply("Where", is_negative, writer.apply("Add", places, extents), places)
    return writer.apply("Min", writer.apply("Max", places, np.array(0)), np.asarray(extents - 1))

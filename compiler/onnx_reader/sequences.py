"""Operators along sequences: what turns pairs of values by angles, and what reverses the begin of each sequence."""

from __future__ import annotations

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError

_INT64 = 7


def write_reverse_sequence(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Lengths beyond the axis, of which ONNX Runtime makes an error, are those of all of it."""
    _, shape = file.forms[node.input(0)]
    along, batch = node.attributes.get("time_axis", 0), node.attributes.get("batch_axis", 1)
    if {along, batch} != {0, 1} or len(shape) < 2 or file.forms[node.input(1)][1] != (shape[batch],):
        raise UnsupportedNodeError(f"its axes must be the first two, with a length for each of a batch: {list(shape)}")
    places = np.arange(shape[along])
    lengths = writer.apply("Reshape", writer.apply("Cast", node.input(1), to=_INT64), np.array([-1, 1]))
    turned = writer.apply("Sub", writer.apply("Sub", lengths, np.array(1)), places)
    taken = writer.apply("Where", writer.apply("Less", places, lengths), turned, places)
    taken = writer.apply("Min", taken, np.array(shape[along] - 1))
    order = (batch, along, *range(2, len(shape)))
    data = writer.apply("Transpose", node.input(0), perm=order)
    indices = writer.apply("Reshape", taken, np.array([shape[batch], shape[along], 1]))
    rows = writer.apply("GatherND", data, indices, batch_dims=1)
    writer.apply("Transpose", rows, output=node.outputs[0], perm=order)


def write_rotary_embedding(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Pairs of values, which are neighbours or half of the row apart, turned by the angles of their places."""
    (_, shape), heads = file.forms[node.input(0)], node.attributes.get("num_heads", 0)
    if len(shape) == 3 and isinstance(heads, int) and heads > 0 and shape[2] % heads == 0:
        batch, length, size = shape[0], shape[1], shape[2] // heads
    elif len(shape) == 4:
        batch, heads, length, size = shape
    else:
        raise UnsupportedNodeError(f"its data must have four axes, or three and num_heads: {list(shape)}, {heads}")
    turned = node.attributes.get("rotary_embedding_dim", 0) or size
    if not isinstance(turned, int) or not 0 < turned <= size or turned % 2:
        raise UnsupportedNodeError(f"its rotary_embedding_dim must be even and at most {size}: {turned}")
    cosine, sine = (_angles(writer, file, node, index, (batch, length, turned // 2)) for index in (1, 2))
    _turn(writer, node, shape, (turned, size), (cosine, sine), (batch, length, heads))


def write_rotary_embedding_of_microsoft(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """The same with places as the second input, one for each value or the first one of all sequences alone."""
    shape, heads, size, pairs = _rotary_sizes(file, node)
    batch, length = (shape[0], shape[1]) if len(shape) == 3 else (shape[0], shape[2])
    places, count = node.input(1), file.forms[node.input(1)][1]
    if count == (1,) and file.forms[places][0] == "s64":
        places = writer.apply("Add", places, np.arange(length)[None])
    elif file.forms[places] != ("s64", (batch, length)):
        raise UnsupportedNodeError(f"its position_ids must be s64 of shape {[batch, length]} or [1]: {list(count)}")
    angles = []
    for index in (2, 3):
        rows = writer.apply("Gather", node.input(index), places, axis=0)
        angles.append(writer.apply("Reshape", rows, np.array([-1, length, 1, pairs])))
    places_of_heads = (batch, length, heads)
    _turn(writer, node, shape, (2 * pairs, size), (angles[0], angles[1]), places_of_heads)


def _rotary_sizes(file: OnnxFile, node: Node) -> tuple[tuple[int, ...], int, int, int]:
    """The shape of data, how many heads it has, the size of one, and how many pairs of it are turned."""
    if len(node.inputs) != 4 or not all(node.inputs) or any(node.outputs[1:]):
        raise UnsupportedNodeError("it must have data, position_ids, and both caches")
    (type_, shape), cosines, sines = (file.forms[node.input(index)] for index in (0, 2, 3))
    if cosines != sines or cosines[0] != "f32" or len(cosines[1]) != 2 or type_ != "f32" or len(shape) not in (3, 4):
        what = f"{type_}, {list(shape)}, {list(cosines[1])} and {list(sines[1])}"
        raise UnsupportedNodeError(f"its data must be f32 of three or four axes, its caches of two: {what}")
    if node.attributes.get("is_packed_batching", 0) or node.attributes.get("scale", 1.0) != 1:
        raise UnsupportedNodeError("its is_packed_batching must be 0, and its scale 1")
    pairs, turned, heads = (
        cosines[1][1],
        *(node.attributes.get(name, 0) for name in ("rotary_embedding_dim", "num_heads")),
    )
    if not isinstance(turned, int) or not isinstance(heads, int) or turned not in (0, 2 * pairs):
        raise UnsupportedNodeError(f"its rotary_embedding_dim must be that of its caches, {2 * pairs}: {turned}")
    width = shape[2] if len(shape) == 3 else shape[1] * shape[3]
    size = width // heads if turned and heads > 0 else 2 * pairs
    if not size or width % size or (len(shape) == 4 and shape[3] != size) or (heads and heads * size != width):
        raise UnsupportedNodeError(f"its heads must have {2 * pairs} values, or more and num_heads: {list(shape)}")
    if size < 2 * pairs or not pairs:
        raise UnsupportedNodeError(f"its heads of {size} values must have {pairs} pairs that are turned")
    return shape, width // size, size, pairs


def _turn(
    writer: FloatWriter,
    node: Node,
    shape: tuple[int, ...],
    sizes: tuple[int, int],
    angles: tuple[str, str],
    places: tuple[int, int, int],
) -> None:
    """Turn the pairs of a node's data, [batch, heads, length, size] or [batch, length, heads * size]."""
    if len(shape) == 4:
        data = writer.apply("Transpose", node.input(0), perm=(0, 2, 1, 3))
    else:
        data = writer.apply("Reshape", node.input(0), np.array([*places, sizes[1]]))
    made = turned_pairs(writer, data, sizes, angles, places, bool(node.attributes.get("interleaved", 0)))
    if len(shape) == 4:
        writer.apply("Transpose", made, output=node.outputs[0], perm=(0, 2, 1, 3))
    else:
        writer.apply("Reshape", made, np.array(shape), output=node.outputs[0])


def _angles(writer: FloatWriter, file: OnnxFile, node: Node, index: int, shape: tuple[int, int, int]) -> str:
    """Cosines or sines [batch, length, 1, pairs]."""
    name, (batch, length, pairs) = node.input(index), shape
    if node.input(3):
        name = writer.apply("Gather", name, node.input(3), axis=0)
        found = (*file.forms[node.input(3)][1], *file.forms[node.input(index)][1][1:])
    else:
        found = file.forms[name][1]
    if found != (batch, length, pairs):
        raise UnsupportedNodeError(f"its cosines and sines must have shape {[batch, length, pairs]}: {list(found)}")
    return writer.apply("Reshape", name, np.array([batch, length, 1, pairs]))


def turned_pairs(
    writer: FloatWriter,
    data: str,
    sizes: tuple[int, int],
    angles: tuple[str, str],
    places: tuple[int, int, int],
    is_interleaved: bool,
) -> str:
    """Pairs of values [*places, size] turned by angles.

    Args:
        sizes: of a row, how many values are turned, and how many it has.
        angles: cosines and sines, which fit [*places, turned / 2].
        is_interleaved: whether pairs are neighbours; else their values are half of what is turned apart.
    """
    (turned, size), (cosine, sine), half = sizes, angles, sizes[0] // 2
    ends = [(0, turned, 2), (1, turned, 2)] if is_interleaved else [(0, half, 1), (half, turned, 1)]
    one, other = (_slice(writer, data, *each) for each in ends)
    real = writer.apply("Sub", writer.apply("Mul", cosine, one), writer.apply("Mul", sine, other))
    imaginary = writer.apply("Add", writer.apply("Mul", sine, one), writer.apply("Mul", cosine, other))
    if is_interleaved:
        pairs = [writer.apply("Reshape", each, np.array([*places, half, 1])) for each in (real, imaginary)]
        made = writer.apply("Reshape", writer.apply("Concat", *pairs, axis=4), np.array([*places, turned]))
    else:
        made = writer.apply("Concat", real, imaginary, axis=3)
    return writer.apply("Concat", made, _slice(writer, data, turned, size, 1), axis=3) if turned < size else made


def _slice(writer: FloatWriter, data: str, begin: int, end: int, step: int) -> str:
    return writer.apply("Slice", data, np.array([begin]), np.array([end]), np.array([3]), np.array([step]))

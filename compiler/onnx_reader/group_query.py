"""GroupQueryAttention of ONNX Runtime as nodes: heads of queries that share keys and values, which a cache keeps.

Of each sequence the cache which is made begins with its earlier tokens; the new ones are behind these, and zeros behind
all. Where ONNX Runtime stops, as lengths exceed the cache, the cache's first or last places are taken.
"""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.onnx_reader.compositions import reduced
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.group_query_sizes import (
    BIAS,
    COSINES,
    KEY,
    LENGTHS,
    PAST_KEY,
    PAST_VALUE,
    POSITIONS,
    QUERY,
    SINES,
    SINK,
    TOTAL,
    VALUE,
    Sizes,
    sizes_of,
)
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.sequences import turned_pairs
from int8tune.compiler.onnx_reader.tensors import Array

_INT64 = 7
# Scores below are those of tokens that a bias takes out.
_MASKED = float(np.nextafter(np.finfo(np.float32).min, np.float32(0)))


def write_group_query_attention(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    rooms = {name: file.forms[name][1][2] for name in node.outputs[1:3] if name in file.forms}
    sizes = sizes_of(node, file.forms, file.constants, rooms)
    if sizes is None:
        raise UnsupportedNodeError("its shapes must be known")
    queries, keys, values = _heads(writer, node, sizes)
    earlier = np.zeros((1, 1), np.int64) if sizes.is_prompt else _earlier(writer, node, sizes)
    if node.attributes.get("do_rotary", 0) == 1:
        queries, keys = _rotated(writer, file, node, sizes, (queries, keys), earlier)
    made = (*node.outputs, "", "")[1:3]
    caches = [
        _present(writer, sizes, new, node.input(index), earlier, name)
        for new, index, name in zip((keys, values), (PAST_KEY, PAST_VALUE), made, strict=True)
    ]
    seen = [_first(writer, cache, sizes.attended, 2) if sizes.attended < sizes.present else cache for cache in caches]
    scores = _scores(writer, node, sizes, queries, seen[0])
    scores = writer.apply("Where", _visible(writer, node, sizes, earlier), scores, -math.inf)
    _mix(writer, sizes, _weights(writer, file, node, sizes, scores), seen[1], node.outputs[0])


def _heads(writer: FloatWriter, node: Node, sizes: Sizes) -> tuple[str, str, str]:
    """Queries [B, S, heads, H], keys and values [B, S, groups, H], packed in the first input or not."""
    counts = (sizes.heads, sizes.groups, sizes.groups)
    if node.input(KEY):
        names = [node.input(index) for index in (QUERY, KEY, VALUE)]
        forms = [np.array([sizes.batch, sizes.length, count, sizes.size]) for count in counts]
        one, two, three = (writer.apply("Reshape", name, form) for name, form in zip(names, forms, strict=True))
        return one, two, three
    form = np.array([sizes.batch, sizes.length, sum(counts), sizes.size])
    packed, ends = writer.apply("Reshape", node.input(QUERY), form), np.cumsum(counts)
    one, two, three = (
        writer.apply("Slice", packed, np.array([end - count]), np.array([end]), np.array([2]))
        for end, count in zip(ends, counts, strict=True)
    )
    return one, two, three


def _first(writer: FloatWriter, data: str, count: int, axis: int) -> str:
    return writer.apply("Slice", data, np.array([0]), np.array([count]), np.array([axis]))


def _earlier(writer: FloatWriter, node: Node, sizes: Sizes) -> str:
    """How many tokens of each sequence the cache has already, [B, 1]."""
    counts = writer.apply("Cast", node.input(LENGTHS), to=_INT64)
    counts = writer.apply("Add", counts, np.array(1 - sizes.length))
    most = min(sizes.past, sizes.attended - sizes.length)
    counts = writer.apply("Min", writer.apply("Max", counts, np.array(0)), np.array(most))
    counts = writer.apply("Reshape", counts, np.array([sizes.batch, 1]))
    return (
        counts
        if sizes.total is not None
        else writer.apply("Where", _is_prompt(writer, node, sizes), np.array(0), counts)
    )


def _is_prompt(writer: FloatWriter, node: Node, sizes: Sizes) -> str:
    total = writer.apply("Reshape", node.input(TOTAL), np.array([1, 1]))
    return writer.apply("Equal", total, np.array(sizes.length, np.int32))


def _added(writer: FloatWriter, counts: str | Array, others: Array) -> str | Array:
    return counts + others if isinstance(counts, np.ndarray) else writer.apply("Add", counts, others)


def _rotated(
    writer: FloatWriter, file: OnnxFile, node: Node, sizes: Sizes, heads: tuple[str, str], earlier: str | Array
) -> tuple[str, str]:
    """Queries and keys, turned by the angles of their places."""
    places = _positions(writer, node, sizes, earlier)
    pairs = file.forms[node.input(COSINES)][1][1]
    angles = []
    for index in (COSINES, SINES):
        rows = writer.apply("Gather", node.input(index), places, axis=0)
        angles.append(writer.apply("Reshape", rows, np.array([-1, sizes.length, 1, pairs])))
    is_interleaved = node.attributes.get("rotary_interleaved", 0) == 1
    made = [
        turned_pairs(
            writer,
            each,
            (2 * pairs, sizes.size),
            (angles[0], angles[1]),
            (sizes.batch, sizes.length, number),
            is_interleaved,
        )
        for each, number in zip(heads, (sizes.heads, sizes.groups), strict=True)
    ]
    return made[0], made[1]


def _positions(writer: FloatWriter, node: Node, sizes: Sizes, earlier: str | Array) -> str | Array:
    """Rows of the angles, [B or 1, S]: of a prompt the first one is given, and the others follow."""
    steps, given = np.arange(sizes.length)[None], node.input(POSITIONS)
    if not given:
        return _added(writer, earlier, steps)
    first = writer.apply("Gather", writer.apply("Reshape", given, np.array([-1])), np.array([[0]]), axis=0)
    following = writer.apply("Add", first, steps)
    if sizes.is_prompt:
        return following
    if sizes.total is not None:
        return given
    return writer.apply("Where", _is_prompt(writer, node, sizes), following, given)


def _present(writer: FloatWriter, sizes: Sizes, new: str, past: str, earlier: str | Array, output: str) -> str:
    """The cache that is made, [B, groups, present, H], of new keys or values [B, S, groups, H] behind earlier ones."""
    if sizes.is_prompt or not past:
        return _extended(writer, sizes, writer.apply("Transpose", new, perm=(0, 2, 1, 3)), sizes.length, output)
    places, length = np.arange(sizes.present)[None], sizes.length
    behind = writer.apply("Sub", places, earlier)
    if length > 1:
        within = writer.apply("Min", writer.apply("Max", behind, np.array(0)), np.array(length - 1))
        indices = writer.apply("Reshape", within, np.array([sizes.batch, sizes.present, 1]))
        new = writer.apply("GatherND", new, indices, batch_dims=1)
    rows = writer.apply("Transpose", new, perm=(0, 2, 1, 3))
    is_earlier, is_filled = (
        writer.apply("Reshape", writer.apply("Less", behind, np.array(end)), np.array([-1, 1, sizes.present, 1]))
        for end in (0, length)
    )
    old = _extended(writer, sizes, past, sizes.past)
    filled = writer.apply("Where", is_filled, rows, 0.0)
    return writer.apply("Where", is_earlier, old, filled, output=output)


def _extended(writer: FloatWriter, sizes: Sizes, rows: str, count: int, output: str = "") -> str:
    """Tokens, with zeros behind them."""
    if count == sizes.present:
        return writer.apply("Identity", rows, output=output) if output else rows
    form = (sizes.batch, sizes.groups, sizes.present - count, sizes.size)
    zeros = writer.apply("Expand", 0.0, np.array(form))
    return writer.apply("Concat", rows, zeros, output=output, axis=2)


def _scores(writer: FloatWriter, node: Node, sizes: Sizes, queries: str, keys: str) -> str:
    """Scores [B, heads, S, attended]; the heads of a group are rows of one product."""
    rows = writer.apply("Reshape", writer.apply("Transpose", queries, perm=(0, 2, 1, 3)), _joined(sizes))
    # What is less of both is moved: a long cache of keys is read as it is.
    swap = (0, 1, 3, 2)
    if sizes.heads // sizes.groups * sizes.length < sizes.size:
        scores = writer.apply("MatMul", keys, writer.apply("Transpose", rows, perm=swap))
        scores = writer.apply("Transpose", scores, perm=swap)
    else:
        scores = writer.apply("MatMul", rows, writer.apply("Transpose", keys, perm=swap))
    scores = writer.apply("Reshape", scores, np.array([sizes.batch, sizes.heads, sizes.length, -1]))
    scale = float(node.attributes.get("scale", 0.0)) or 1 / math.sqrt(sizes.size)
    scores, cap = writer.apply("Mul", scores, scale), float(node.attributes.get("softcap", 0.0))
    if cap > 0:
        scores = writer.apply("Mul", writer.apply("Tanh", writer.apply("Div", scores, cap)), cap)
    return writer.apply("Add", scores, node.input(BIAS)) if node.input(BIAS) else scores


def _joined(sizes: Sizes) -> Array:
    return np.array([sizes.batch, sizes.groups, sizes.heads // sizes.groups * sizes.length, -1])


def _mix(writer: FloatWriter, sizes: Sizes, weights: str, values: str, output: str) -> None:
    mixed = writer.apply("MatMul", writer.apply("Reshape", weights, _joined(sizes)), values)
    form = np.array([sizes.batch, sizes.heads, sizes.length, sizes.size])
    made = writer.apply("Transpose", writer.apply("Reshape", mixed, form), perm=(0, 2, 1, 3))
    writer.apply("Reshape", made, np.array([sizes.batch, sizes.length, -1]), output=output)


def _visible(writer: FloatWriter, node: Node, sizes: Sizes, earlier: str | Array) -> str:
    """Which tokens a query looks at, [B or 1, 1, S or 1, attended]: itself and those before it, within a window."""
    places, window = np.arange(sizes.attended), int(node.attributes.get("local_window_size", -1))
    if not node.attributes.get("causal", 1):
        lengths = writer.apply("Cast", node.input(LENGTHS), to=_INT64)
        last = writer.apply("Reshape", lengths, np.array([sizes.batch, 1, 1, 1]))
        return writer.apply("Not", writer.apply("Less", last, places))
    limits = _added(writer, earlier, np.arange(sizes.length)[None])
    limits = writer.apply("Reshape", limits, np.array([-1, 1, sizes.length, 1]))
    visible = writer.apply("Not", writer.apply("Less", limits, places))
    if 0 < window < sizes.attended:
        begins = writer.apply("Sub", limits, np.array(window))
        visible = writer.apply("And", visible, writer.apply("Less", begins, places))
    return visible


def _weights(writer: FloatWriter, file: OnnxFile, node: Node, sizes: Sizes, scores: str) -> str:
    """The softmax of scores; a sink is one more score, which nothing is weighed by.

    As in ONNX Runtime, a row of which all scores are the least float or less has no weights.
    """
    if not node.input(SINK) and node.attributes.get("smooth_softmax", 0) != 1:
        weights = writer.apply("Softmax", scores, axis=-1)
        if not node.input(BIAS):
            return weights
        largest = reduced(writer, file, "ReduceMax", scores, [-1])
        return writer.apply("Where", writer.apply("Less", largest, _MASKED), 0.0, weights)
    sink = writer.apply("Reshape", node.input(SINK) or np.zeros(sizes.heads, np.float32), np.array([1, -1, 1, 1]))
    sinks = writer.apply("Expand", sink, np.array([sizes.batch, sizes.heads, sizes.length, 1]))
    weights = writer.apply("Softmax", writer.apply("Concat", scores, sinks, axis=3), axis=-1)
    return _first(writer, weights, sizes.attended, 3)

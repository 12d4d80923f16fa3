"""One scale for the operands and the result of each Add and Concat, as many integer units want it.

Stored values can then be added or moved without a multiplication. All tensors of a chain of such operators, with what
only moves values between them, have the same scale: that of the widest range. Zero points are the same, too, but for
tensors that are never negative, whose own is 0, or where a Relu that is a part of it would be lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from int8tune.quantize.sets import Sets
from int8tune.quantize.tensors import initializer_arrays
from int8tune.quantize.thresholds import LEVELS, Threshold

_SHARING = frozenset({"Add", "Concat"})
# What ONNX Runtime's quantizer gives the scale of its operand.
_MOVING = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "MaxPool", "AveragePool", "Slice", "Resize", "Gather"}
)
_PART_OF_ITS_MAKER = ("Relu", "Clip")
# Bits of a shared scale: as many as leave its products with 255 exact in float32.
_SCALE_BITS = 15


def with_shared_scales(
    graph: Any, thresholds: Mapping[str, Threshold], symmetric: bool, left_out: frozenset[str]
) -> dict[str, Threshold]:
    """Widen ranges until all that meet in an Add or a Concat have the same scale.

    Args:
        graph: a prepared float graph.
        thresholds: of its tensors.
        symmetric: ranges are as far below zero as above.
        left_out: operators that stay in float.
    """
    found = dict(thresholds)
    for group in _groups(graph, thresholds, symmetric, left_out):
        found.update(_shared({name: thresholds[name] for name in group}, symmetric))
    return found


def _groups(
    graph: Any, thresholds: Mapping[str, Threshold], symmetric: bool, left_out: frozenset[str]
) -> list[list[str]]:
    """Names of tensors that are to have one scale; of two and more each."""
    stored = {} if symmetric else _stored_as(graph)
    constants = initializer_arrays(graph)
    sets = Sets()
    shares = set[str]()
    for node in graph.node:
        data = [stored.get(name, name) for name in node.input if name and name not in constants]
        if node.op_type in _SHARING and len(data) > 1 and node.name not in left_out:
            shares.update((stored.get(node.output[0], node.output[0]), *data))
        elif node.op_type not in _MOVING:
            continue
        for name in data[:1] if node.op_type in _MOVING else data:
            sets.join(name, stored.get(node.output[0], node.output[0]))
    roots = {sets.root(name) for name in shares}
    groups: dict[str, list[str]] = {root: [] for root in roots}
    for name in sets.names:
        if sets.root(name) in roots and name in thresholds:
            groups[sets.root(name)].append(name)
    return [names for names in groups.values() if len(names) > 1]


def _stored_as(graph: Any) -> dict[str, str]:
    """The Relu or Clip behind a tensor that is a part of the operator which makes it."""
    reads = Counter(name for node in graph.node for name in node.input)
    reads.update(value.name for value in graph.output)
    parts = (node for node in graph.node if node.op_type in _PART_OF_ITS_MAKER and reads[node.input[0]] == 1)
    return {node.input[0]: node.output[0] for node in parts}


def _shared(group: Mapping[str, Threshold], symmetric: bool) -> dict[str, Threshold]:
    low, high = min(each.low for each in group.values()), max(each.high for each in group.values())
    if symmetric or low == high:
        return dict.fromkeys(group, Threshold(low, high))
    scale = _rounded_up((high - low) / (LEVELS - 2))
    zero_point = round(-low / scale)
    signed = Threshold(-zero_point * scale, (LEVELS - 1 - zero_point) * scale)
    positive = Threshold(0.0, (LEVELS - 1) * scale)
    return {name: positive if each.low >= 0 else signed for name, each in group.items()}


def _rounded_up(scale: float) -> float:
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(math.ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS)

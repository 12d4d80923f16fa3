"""Which of ONNX's operators move or choose values, so that they mean the same for stored ones."""

from __future__ import annotations

from collections.abc import Iterable

from int8tune.compiler.graph import Kind, Value
from int8tune.compiler.operators.base import byte_fault, is_same_quantization

# Where input and output have different scales, these can be moved behind the requantization.
MOVING = (
    Kind.RESHAPE,
    Kind.TRANSPOSE,
    Kind.PAD,
    Kind.SLICE,
    Kind.GATHER,
    Kind.DEPTH_TO_SPACE,
    Kind.SPACE_TO_DEPTH,
    Kind.MAX_POOL,
    Kind.REDUCE_MAX,
    Kind.REDUCE_MIN,
)
# What moves numbers, too, such as a model's input.
MOVES_NUMBERS = (
    "Identity",
    "Reshape",
    "Flatten",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Gather",
    "Expand",
    "Tile",
    "DepthToSpace",
    "SpaceToDepth",
)
# What only moves or chooses values makes of quantized ones quantized ones, with or without a QuantizeLinear. A Concat's
# have to have one scale.
PASSING = (*MOVES_NUMBERS, "Dropout", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Split", "Concat")
# The same, where it takes stored values themselves.
PASSING_STORED = (*PASSING, "Pad", "Resize")


def have_one_scale(values: Iterable[Value | None]) -> bool:
    """Whether values are quantized, and equal stored values of all stand for the same."""
    first, *others = values
    if first is None or byte_fault(first):
        return False
    return all(other is not None and not byte_fault(other) and is_same_quantization(first, other) for other in others)

"""Which of ONNX's operators move or choose values, so that they mean the same for stored ones."""

from __future__ import annotations

from int8tune.compiler.graph import Kind

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
# What only moves or chooses values makes of quantized ones quantized ones, with or without a QuantizeLinear.
PASSING = (*MOVES_NUMBERS, "Dropout", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Split")
# The same, where it takes stored values themselves.
PASSING_STORED = (*PASSING, "Pad", "Resize")

"""Files whose batch is open, as Keras's models are converted: shapes that are computed, and extents stored as 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.models.tflite_models import Writer

FORM = "s8", (1, 4, 5, 16), 0.03, -7


class OpenWriter(Writer):
    """Writes integers that a file computes."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(3)

    def places(self, *values: int) -> int:
        return self.constant(f"i{len(self.tensors)}", "s32", np.array(values, np.int32))

    def scalar(self, value: int) -> int:
        return self.constant(f"i{len(self.tensors)}", "s32", np.array(value, np.int32))

    def number(self, word: str, inputs: list[int], options: str, shape: tuple[int, ...] = (), **fields: Any) -> int:
        made = self.tensor(f"i{len(self.tensors)}", "s32", shape)
        self.operator(word, inputs, [made], options, 1, **fields)
        return made

    def extent(self, shape: int, axis: int) -> int:
        places = [self.places(each) for each in (axis, axis + 1, 1)]
        return self.number("STRIDED_SLICE", [shape, *places], "StridedSlice", shrinkAxisMask=1)

    def weights(self, *shape: int) -> int:
        return self.constant(f"w{len(self.tensors)}", "s8", self.rng.integers(-127, 128, shape), 0.01)

    def bias(self, channels: int) -> int:
        scale = float(np.float32(0.03) * np.float32(0.01))
        return self.constant(f"b{len(self.tensors)}", "s32", self.rng.integers(-999, 999, channels), scale)


def dense_of_rows(w: OpenWriter) -> int:
    """A dense layer of an image: its places become rows, as many as the file computes, and an image again."""
    data = w.input("x", *FORM)
    shape = w.number("SHAPE", [data], "Shape", (4,), outType=2)
    outer = w.number("GATHER", [shape, w.places(0, 1, 2)], "Gather", (3,))
    rows = w.number("REDUCE_PROD", [outer, w.places(0)], "Reducer")
    values = w.number("REDUCE_PROD", [w.number("GATHER", [shape, w.places(3)], "Gather", (1,)), w.places(0)], "Reducer")
    flat = w.number("PACK", [rows, values], "Pack", (2,), valuesCount=2)
    whole = w.number("CONCATENATION", [outer, w.places(9)], "Concatenation", (4,))
    matrix, made = w.tensor("rows", "s8", (1, 1), 0.03, -7), w.tensor("made", "s8", (1, 9), 0.05, 3)
    w.operator("RESHAPE", [data, flat], [matrix], "Reshape", 1)
    w.operator("FULLY_CONNECTED", [matrix, w.weights(9, 16), w.bias(9)], [made], "FullyConnected", 4)
    image = w.tensor("y", "s8", (1, 4, 5, 9), 0.05, 3)
    w.operator("RESHAPE", [made, whole], [image], "Reshape", 1)
    return image


def transposed(w: OpenWriter) -> int:
    """A transposed convolution whose shape is computed."""
    data = w.input("x", *FORM)
    shape = w.number("SHAPE", [data], "Shape", (4,), outType=2)
    rows, columns = (w.number("MUL", [w.extent(shape, axis), w.scalar(2)], "Mul") for axis in (1, 2))
    parts = [w.extent(shape, 0), rows, columns, w.scalar(6)]
    sizes = w.number("PACK", parts, "Pack", (4,), valuesCount=4)
    made = w.tensor("y", "s8", (1, 8, 10, 6), 0.05, 3)
    steps = {"strideH": 2, "strideW": 2, "padding": 0}
    w.operator("TRANSPOSE_CONV", [sizes, w.weights(6, 3, 3, 16), data], [made], "TransposeConv", 2, **steps)
    return made


def dilated(w: OpenWriter) -> int:
    """A convolution along one axis with steps of 2, whose two halves are a batch of which the file says 1."""
    data = w.input("x", "s8", (1, 12, 16), 0.03, -7)
    spread, image = w.tensor("spread", "s8", (1, 8, 16), 0.03, -7), w.tensor("image", "s8", (1, 1, 8, 16), 0.03, -7)
    blocks, widths = w.places(2), w.constant("widths", "s32", np.array([[2, 2]], np.int32))
    w.operator("SPACE_TO_BATCH_ND", [data, blocks, widths], [spread], "SpaceToBatchND", 1)
    w.operator("EXPAND_DIMS", [spread, w.places(1)], [image], "ExpandDims", 1)
    made = w.tensor("made", "s8", (1, 1, 6, 9), 0.05, 3)
    steps = {"strideH": 1, "strideW": 1, "padding": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    w.operator("CONV_2D", [image, w.weights(9, 1, 3, 16), w.bias(9)], [made], "Conv2D", 3, **steps)
    halves, whole = w.tensor("halves", "s8", (1, 6, 9), 0.05, 3), w.tensor("y", "s8", (1, 12, 9), 0.05, 3)
    w.operator("RESHAPE", [made, w.places(-1, 6, 9)], [halves], "Reshape", 1)
    crops = w.constant("crops", "s32", np.array([[0, 0]], np.int32))
    w.operator("BATCH_TO_SPACE_ND", [halves, blocks, crops], [whole], "BatchToSpaceND", 1)
    return whole


BUILDS = (dense_of_rows, transposed, dilated)

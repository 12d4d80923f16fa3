"""TFLite operators that write values to places, or add them up by segments, as ONNX nodes.

Places outside, of which LiteRT makes an error, are the next one within. Sources: the kernels of TensorFlow Lite of the
same names.
"""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader

NUMBERS: dict[str, type[np.generic]] = {
    "f32": np.float32,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "s8": np.int8,
}


def _scattered(at: Nodes) -> str:
    """Zeros with updates added to them; stored values, too, are added to 0."""
    at.require(len(at) == 3 and at.value(0).type == "s32", "it must have places, updates and a shape")
    shape, (*batch, depth) = tuple(at.integers(2, "shape")), at.shape(0) or (0,)
    fits = 1 <= depth <= len(shape) and at.shape(1) == (*batch, *shape[depth:]) and shape == at.outputs[0].shape
    at.require(fits, f"its places {list(at.shape(0))} must have updates of {list(shape)}: {list(at.shape(1))}")
    return _written(at, shape, at.apply("Cast", at.input(0), to=ELEMENTS["s64"]), at.input(1), "add")


def _dense(at: Nodes) -> str:
    """A value for all places but few."""
    at.require(len(at) == 4 and at.value(0).type in ("s32", "s64"), "it must have places, a shape and two values")
    shape = tuple(at.integers(1, "shape"))
    count = at.shape(0)[0] if at.shape(0) else 1
    depth = math.prod(at.shape(0)) // max(count, 1)
    fits = depth == len(shape) and at.shape(2) in ((), (count,)) and math.prod(at.shape(3)) == 1
    at.require(fits and count > 0 and shape == at.outputs[0].shape, f"its places must be those of {list(shape)}")
    places = at.apply("Cast", at.shaped(at.input(0), (count, depth)), to=ELEMENTS["s64"])
    values = at.apply("Expand", at.input(2), at.places([count]))
    at.require_known(shape)
    filled = at.apply("Expand", at.shaped(at.input(3), ()), at.places(shape))
    return at.apply("ScatterND", filled, _within(at, places, shape), values)


def _written(at: Nodes, shape: tuple[int, ...], places: str, updates: str, reduction: str, first: float = 0) -> str:
    """Values that were all alike, and updates."""
    element = at.element(at.outputs[0])
    at.require(element in NUMBERS, f"its values must be {' or '.join(NUMBERS)}: {element}")
    at.require_known(shape)
    filled = at.apply("Expand", at.constant(first, NUMBERS[element]), at.places(shape))
    return at.apply("ScatterND", filled, _within(at, places, shape), updates, reduction=reduction)


def _within(at: Nodes, places: str, shape: tuple[int, ...]) -> str:
    most = at.places([extent - 1 for extent in shape[: _depth(at, shape)]])
    return at.apply("Min", at.apply("Max", places, at.places([0])), most)


def _depth(at: Nodes, shape: tuple[int, ...]) -> int:
    """How many axes the operator's places are those of."""
    word = at.step.plain.operator
    if word == "SCATTER_ND":
        return at.shape(0)[-1]
    return len(shape) if word == "SPARSE_TO_DENSE" else 1


def _segments(reduction: str, of_floats: float, of_integers: int) -> Reader:
    """What is made of the rows of each segment; rows of a segment below 0 are left out."""

    def read(at: Nodes) -> str:
        at.require_types("f32", "s32")
        counts = at.integers(2, "count") if len(at) == 3 else [_known_segments(at)]
        at.require(len(counts) == 1, f"it must have one count: {counts}")
        return _segmented(at, counts[0], reduction, of_floats if at.element(at.value(0)) == "f32" else of_integers)

    return read


def _segmented(at: Nodes, count: int, reduction: str, first: float) -> str:
    shape = (count, *at.shape(0)[1:])
    at.require(at.value(1).type == "s32" and at.shape(1) == at.shape(0)[:1] != (), "each row must have a segment")
    at.require(count > 0 and shape == at.outputs[0].shape, f"its output must have shape {list(shape)}")
    # The first of one row more is that of all that are left out.
    segments = at.apply("Max", at.apply("Cast", at.input(1), to=ELEMENTS["s64"]), at.places([-1]))
    segments = at.shaped(at.apply("Add", segments, at.places([1])), (at.shape(0)[0], 1))
    wide = _written(at, (count + 1, *shape[1:]), segments, at.input(0), reduction, first)
    return at.apply("Slice", wide, at.places([1]), at.places([count + 1]), at.places([0]))


def _known_segments(at: Nodes) -> int:
    segments = at.integers(1, "segments") if len(at) == 2 else []
    at.require(bool(segments) and segments == sorted(segments) and segments[0] >= 0, "its segments must ascend from 0")
    return segments[-1] + 1


_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_FAR = float(np.finfo(np.float32).max)
READERS: dict[str, Reader] = {
    "SCATTER_ND": _scattered,
    "SPARSE_TO_DENSE": _dense,
    "SEGMENT_SUM": _segments("add", 0, 0),
    "UNSORTED_SEGMENT_SUM": _segments("add", 0, 0),
    "UNSORTED_SEGMENT_PROD": _segments("mul", 1, 1),
    "UNSORTED_SEGMENT_MAX": _segments("max", -_FAR, _LEAST),
    "UNSORTED_SEGMENT_MIN": _segments("min", _FAR, _MOST),
}
RAW = ("SCATTER_ND", "SPARSE_TO_DENSE")

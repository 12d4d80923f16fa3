"""TFLite operators on the bits of integers, and those that count, as ONNX nodes.

Sources: the kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import numpy as np

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader

BITS = {"u8": 8, "s8": 8, "s16": 16, "s32": 32}
# More than any value's magnitude, and a multiple of all powers of two by which it is divided.
_FAR = 1 << 32


def _exclusive_or(at: Nodes) -> str:
    at.require_types(*BITS)
    at.require(len(at) == 2, f"it must have two inputs: {len(at)}")
    return at.apply("BitwiseXor", at.input(0), at.input(1))


def _shifted(at: Nodes) -> str:
    """A quotient by a power of two, rounded down, as ONNX shifts no signed integers; at most all bits but one."""
    at.require_types(*BITS)
    at.require(len(at) == 2, f"it must have two inputs: {len(at)}")
    most = BITS[at.value(0).type] - 1
    value, count = (at.apply("Cast", at.input(index), to=ELEMENTS["s64"]) for index in (0, 1))
    count = at.apply("Min", at.apply("Max", count, at.places([0])), at.places([most]))
    divisor = at.apply("Gather", at.constant(1 << np.arange(most + 1, dtype=np.int64)), count, axis=0)
    raised = at.apply("Div", at.apply("Add", value, at.places([_FAR])), divisor)
    return at.like(at.apply("Sub", raised, at.apply("Div", at.places([_FAR]), divisor)))


def _buckets(at: Nodes) -> str:
    """How many boundaries are not above a value, which is compared in binary32; all of them for what is no number."""
    at.require_types("f32", "s32", "s64")
    options, shape = at.options("Bucketize"), at.shape(0)
    boundaries = np.array([options.Boundaries(index) for index in range(options.BoundariesLength())], np.float32)
    is_sorted = bool((boundaries[1:] >= boundaries[:-1]).all()) and not np.isnan(boundaries).any()
    at.require(len(at) == 1 and boundaries.size > 0 and is_sorted, "its boundaries must ascend")
    value = at.apply("Cast", at.input(0), to=ELEMENTS["f32"])
    is_below = at.apply("Less", at.shaped(value, (*shape, 1)), at.constant(boundaries))
    passed = at.apply("Cast", at.apply("Not", is_below), to=ELEMENTS["s32"])
    return at.apply("ReduceSum", passed, at.places([-1]), keepdims=0)


READERS: dict[str, Reader] = {"BITWISE_XOR": _exclusive_or, "RIGHT_SHIFT": _shifted, "BUCKETIZE": _buckets}
# Of the bits of stored values, whatever these stand for.
BITWISE = ("BITWISE_XOR", "RIGHT_SHIFT")

"""Average and maximum of windows over images, [N, H, W, C].

Sources: TFLite, reference/integer_ops/pooling.h and reference/pooling.h; ONNX Runtime, qlinear_pool.cc. Without
optimizations ONNX Runtime averages numbers instead, which makes one step of difference in a few values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators.base import (
    Array,
    FloatArray,
    LongArray,
    byte_fault,
    dequantized,
    every_stored,
    is_same_quantization,
    scale_of,
    shape_fault,
    stored,
    symmetric_fault,
    zero_point_of,
)
from int8tune.compiler.operators.quantize import half_even
from int8tune.schedules.numerics import RANGES

# Of a window, whose border is as wide in the worst case.
MOST_EXTENT = 1 << 12
# Whose sum has 32 bits.
MOST_WORDS = 65535


@dataclass(frozen=True, slots=True, eq=False)
class AverageConstants:
    """What an average pool knows before it runs.

    The fixed rule adds stored values and divides the sum, halves away from zero: input and output have one scale. The
    float rule adds what they stand for in binary32, row after row of the window, divides the sum by the count and that
    by the output's scale, adds the zero point and rounds half to even.

    Attributes:
        count: int64 [OH, OW, 1]: how many values each window has.
        real: float32 [256]: what each stored value stands for; None for the fixed rule.
    """

    count: LongArray
    real: FloatArray | None


def fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    (data,) = inputs
    wrong = _word_fault(operator, data, output) if data.type == "s16" else byte_fault(data, output)
    if wrong or len(data.shape) != 4:
        return wrong or f"its image must have four axes: {data.shape}"
    top, left, bottom, right = operator.attributes["padding"]
    sizes, kernel, stride = _sizes(operator, data.shape), operator.attributes["kernel"], operator.attributes["stride"]
    if max(kernel) > MOST_EXTENT:
        return f"a window has at most {MOST_EXTENT} rows and columns: {kernel}"
    if min(sizes) < 1 or max(top, bottom) >= kernel[0] or max(left, right) >= kernel[1] or min(stride) < 1:
        return f"a window of {kernel} must have a value of the image at every place"
    if (operator.kind is Kind.MAX_POOL or operator.rule == "fixed") and not is_same_quantization(data, output):
        return "its input and output must have one scale"
    if operator.rule == "fixed" and operator.attributes.get("include_pad"):
        return "the border can't count in averages of the fixed rule"
    return shape_fault(output, (data.shape[0], *sizes, data.shape[3]))


def _word_fault(operator: Operator, data: Value, output: Value) -> str | None:
    """Why values of 16 bits are none that an average pool of the fixed rule has."""
    if operator.kind is not Kind.AVERAGE_POOL or operator.rule != "fixed" or output.type != "s16":
        return f"of 16 bits only averages of the fixed rule have a kernel: {operator.kind}, {operator.rule}"
    if wrong := symmetric_fault(data, output):
        return wrong
    taps = math.prod(operator.attributes["kernel"])
    return None if taps <= MOST_WORDS else f"a window has at most {MOST_WORDS} values of 16 bits: {taps}"


def average_constants(operator: Operator, data: Value) -> AverageConstants:
    """The constants of an average pool."""
    inside = np.ones((1, *data.shape[1:3], 1), np.int64)
    taps = _taps(operator, inside, 1 if operator.attributes["include_pad"] else 0)
    count = np.sum(list(taps), axis=0)[0]
    real = None
    if operator.rule == "float":
        real = dequantized(every_stored(data), data)
    return AverageConstants(count, real)


def values_inside(operator: Operator, data: Value) -> LongArray:
    """How many values of the image each window has: int64 [OH, OW, 1]."""
    inside: LongArray = _sum(operator, np.ones((1, *data.shape[1:3], 1), np.int64))[0]
    return inside


def reference(operator: Operator, inputs: Sequence[Value], output: Value, arrays: Sequence[Array]) -> Array:
    ((data,), (image,)) = inputs, arrays
    if operator.kind is Kind.MAX_POOL:
        return stored(_largest(operator, image.astype(np.int64), RANGES[data.type][0]), operator, output)
    constants = average_constants(operator, data)
    if constants.real is None:
        sums = _sum(operator, image.astype(np.int64))
        halves = np.where(sums > 0, constants.count // 2, -(constants.count // 2))
        rounded = np.abs(sums + halves) // constants.count * np.sign(sums + halves)
        return stored(rounded, operator, output)
    real = constants.real[image.astype(np.int64) - RANGES[data.type][0]]
    mean: FloatArray = np.divide(_sum(operator, real), constants.count.astype(np.float32))
    steps = half_even(mean / scale_of(output) + np.float32(zero_point_of(output)))
    return stored(steps, operator, output)


def _sizes(operator: Operator, shape: tuple[int, ...]) -> tuple[int, int]:
    at = operator.attributes
    top, left, bottom, right = at["padding"]
    rows, columns = (
        (shape[1 + axis] + pad - at["kernel"][axis]) // max(1, at["stride"][axis]) + 1
        for axis, pad in enumerate((top + bottom, left + right))
    )
    return rows, columns


def _taps(operator: Operator, image: Array, border: int) -> Iterator[Array]:
    """The image as each position of the window sees it, [N, OH, OW, C], row by row."""
    at = operator.attributes
    top, left, bottom, right = at["padding"]
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=border)
    rows, columns = _sizes(operator, image.shape)
    for row in range(at["kernel"][0]):
        for column in range(at["kernel"][1]):
            below, beside = row + at["stride"][0] * rows, column + at["stride"][1] * columns
            yield padded[:, row : below : at["stride"][0], column : beside : at["stride"][1]]


def _sum(operator: Operator, image: Array) -> Array:
    """Sums of windows in the image's type, in the order of their taps: zeros of the border change no binary32 sum."""
    taps = _taps(operator, image, 0)
    sums: Array = next(taps).copy()
    for tap in taps:
        sums += tap
    return sums


def _largest(operator: Operator, image: LongArray, lowest: int) -> LongArray:
    taps = _taps(operator, image, lowest)
    largest: LongArray = next(taps).copy()
    for tap in taps:
        np.maximum(largest, tap, out=largest)
    return largest

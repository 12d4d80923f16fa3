"""Spectra of TFLite models as ONNX nodes: complex values are pairs of numbers along an axis of their own, the last.

Sources: kernels/rfft2d.cc and complex_support.cc of TensorFlow Lite, which computes spectra in binary64.
"""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader
from int8tune.compiler.waves import waves


def _spectrum(at: Nodes) -> str:
    """Half a spectrum of each row of real numbers, as a product with cosines and one with sines."""
    at.require_types("f32")
    shape, lengths = at.shape(0), at.integers(1, "lengths")
    is_row = len(shape) >= 2 and len(lengths) == 2 and shape[-2] == lengths[0] == 1
    at.require(is_row, f"its spectra must be of single rows: lengths {lengths} of {shape}")
    length, taken = lengths[1], min(shape[-1], lengths[1])
    # Of one value LiteRT makes an imaginary part, too.
    at.require(length >= 2 and length & (length - 1) == 0, f"its length must be a power of two, from 2: {length}")
    bins = length // 2 + 1
    at.require_known((taken, bins))
    data = at.input(0)
    if shape[-1] > taken:
        data = at.apply("Slice", data, at.places([0]), at.places([taken]), at.places([-1]))
    rows = at.shaped(data, (math.prod(shape[:-1]), taken))
    cosines, sines = waves(taken, bins, length)
    parts = [
        at.shaped(at.apply("MatMul", rows, at.constant(each, np.float32)), (*shape[:-1], bins, 1))
        for each in (cosines, -sines)
    ]
    return at.apply("Concat", *parts, axis=-1)


def _magnitude(at: Nodes) -> str:
    """Scaled by the larger part, so that no square is beyond binary32."""
    parts = at.apply("Abs", at.input(0))
    real, imaginary = (at.apply("Gather", parts, at.constant(index, np.int64), axis=-1) for index in (0, 1))
    most, least = at.apply("Max", real, imaginary), at.apply("Min", real, imaginary)
    is_none = at.apply("Equal", most, at.number(0.0))
    share = at.apply("Div", least, at.apply("Where", is_none, at.number(1.0), most))
    square = at.apply("Add", at.apply("Mul", share, share), at.number(1.0))
    return at.apply("Mul", most, at.apply("Sqrt", square))


def _part(index: int) -> Reader:
    return lambda at: at.apply("Gather", at.input(0), at.constant(index, np.int64), axis=-1)


READERS: dict[str, Reader] = {"RFFT2D": _spectrum, "COMPLEX_ABS": _magnitude, "REAL": _part(0), "IMAG": _part(1)}

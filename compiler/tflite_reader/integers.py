"""Integers that are known before a model runs, such as the counter of a loop: what few operators make of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES, Value
from int8tune.compiler.operators.base import Array
from int8tune.compiler.tflite_reader.file import TfliteFile

MOST_VALUES = 64
TYPES = ("s32", "s64", "bool")
# With the class of options that has a fused activation.
ARITHMETIC: dict[str, tuple[Callable[[Array, Array], Array], str]] = {
    "ADD": (np.add, "AddOptions"),
    "SUB": (np.subtract, "SubOptions"),
    "MUL": (np.multiply, "MulOptions"),
    "MINIMUM": (np.minimum, ""),
    "MAXIMUM": (np.maximum, ""),
    "LESS": (np.less, ""),
    "LESS_EQUAL": (np.less_equal, ""),
    "GREATER": (np.greater, ""),
    "GREATER_EQUAL": (np.greater_equal, ""),
    "EQUAL": (np.equal, ""),
    "NOT_EQUAL": (np.not_equal, ""),
    "LOGICAL_AND": (np.logical_and, ""),
    "LOGICAL_OR": (np.logical_or, ""),
}
MOVEMENTS = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE", "CAST")


def known_integers(file: TfliteFile, operator: Any, inputs: Sequence[Value], output: Value) -> Array | None:
    """What an operator makes of a few constant integers; None where that is not known."""
    values = (*inputs, output)
    if any(value.type not in TYPES or value.quantization is not None for value in values) or not inputs:
        return None
    arrays = [value.constant for value in inputs if value.constant is not None]
    if len(arrays) != len(inputs) or any(math.prod(value.shape) > MOST_VALUES for value in values):
        return None
    made = _made(file, operator, arrays, output)
    if made is None or made.shape != output.shape or made.dtype != DTYPES[output.type]:
        return None
    return made


def _made(file: TfliteFile, operator: Any, arrays: Sequence[Array], output: Value) -> Array | None:
    word = file.word(operator)
    if word in MOVEMENTS:
        fits = arrays[0].size == math.prod(output.shape)
        return arrays[0].reshape(output.shape).astype(DTYPES[output.type]) if fits else None
    if word == "LOGICAL_NOT" and len(arrays) == 1:
        return np.asarray(np.logical_not(arrays[0]))
    if word == "CONCATENATION":
        return _concatenated(arrays, file.options(operator, "ConcatenationOptions"))
    if word == "PACK":
        return _packed(arrays, file.options(operator, "PackOptions").Axis())
    if word not in ARITHMETIC or len(arrays) != 2 or arrays[0].dtype != arrays[1].dtype:
        return None
    function, options = ARITHMETIC[word]
    if options and file.options(operator, options).FusedActivationFunction():
        return None
    try:
        return np.asarray(function(*arrays))
    except ValueError:  # shapes that don't fit each other
        return None


def _packed(arrays: Sequence[Array], axis: int) -> Array | None:
    if len({(array.shape, array.dtype) for array in arrays}) != 1 or axis != 0:
        return None
    return np.stack(arrays)


def _concatenated(arrays: Sequence[Array], options: Any) -> Array | None:
    if len({(array.ndim, array.dtype) for array in arrays}) != 1 or options.FusedActivationFunction():
        return None
    try:
        return np.concatenate(arrays, options.Axis())
    except ValueError:  # an axis or shapes that don't fit
        return None


def sliced_shape(inputs: Sequence[Value | None]) -> tuple[int, ...] | None:
    """The shape of a SLICE's output, where its begin and size are known and within its data."""
    if len(inputs) != 3 or any(value is None for value in inputs):
        return None
    data, begin, size = (value for value in inputs if value is not None)
    if begin.constant is None or size.constant is None or begin.type not in TYPES or size.type not in TYPES:
        return None
    begins, sizes = begin.constant.reshape(-1).tolist(), size.constant.reshape(-1).tolist()
    if not len(begins) == len(sizes) == len(data.shape):
        return None
    ends = [extent if own == -1 else at + own for at, own, extent in zip(begins, sizes, data.shape, strict=True)]
    is_within = all(0 <= at <= end <= extent for at, end, extent in zip(begins, ends, data.shape, strict=True))
    return tuple(end - at for at, end in zip(begins, ends, strict=True)) if is_within else None

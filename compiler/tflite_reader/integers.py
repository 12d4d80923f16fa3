"""Integers that are known before a model runs, such as shapes and the counter of a loop: what operators make of them.

Sources: the kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES, Value
from int8tune.compiler.operators.base import Array
from int8tune.compiler.tflite_reader.movements import strided_places
from int8tune.compiler.tflite_reader.steps import Step, integers

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


def known_integers(step: Step) -> Array | None:
    """What an operator makes of a few constant integers; None where that is not known."""
    if step.plain.operator == "SHAPE" and step.inputs:
        return _fitting(np.array(step.inputs[0].shape), step.output)
    values = (*step.inputs, step.output)
    if any(value.type not in TYPES or value.quantization is not None for value in values) or not step.inputs:
        return None
    arrays = [value.constant for value in step.inputs if value.constant is not None]
    if len(arrays) != len(step.inputs) or any(math.prod(value.shape) > MOST_VALUES for value in values):
        return None
    made = _made(step, arrays)
    return None if made is None or made.dtype != DTYPES[step.output.type] else _fitting(made, step.output)


def _fitting(made: Array, output: Value) -> Array | None:
    return made.astype(DTYPES[output.type]) if made.shape == output.shape else None


def _made(step: Step, arrays: Sequence[Array]) -> Array | None:
    word, output = step.plain.operator, step.output
    if word in MOVEMENTS:
        fits = arrays[0].size == math.prod(output.shape)
        return arrays[0].reshape(output.shape).astype(DTYPES[output.type]) if fits else None
    if word == "LOGICAL_NOT" and len(arrays) == 1:
        return np.asarray(np.logical_not(arrays[0]))
    if word == "CONCATENATION":
        return _concatenated(arrays, step.options("ConcatenationOptions"))
    if word == "PACK":
        return _packed(arrays, step.options("PackOptions").Axis())
    if word in _TAKING:
        return _TAKING[word](step, arrays)
    if word not in ARITHMETIC or len(arrays) != 2 or arrays[0].dtype != arrays[1].dtype:
        return None
    function, options = ARITHMETIC[word]
    if options and step.options(options).FusedActivationFunction():
        return None
    try:
        return np.asarray(function(*arrays))
    except ValueError:  # shapes that don't fit each other
        return None


def _gathered(step: Step, arrays: Sequence[Array]) -> Array | None:
    """Places of a list."""
    options = step.options("GatherOptions")
    if len(arrays) != 2 or arrays[0].ndim != 1 or options.Axis() not in (0, -1) or options.BatchDims():
        return None
    places = arrays[1]
    if places.dtype == np.bool_ or (places < 0).any() or (places >= arrays[0].size).any():
        return None
    return np.asarray(arrays[0][places])


def _product(step: Step, arrays: Sequence[Array]) -> Array | None:
    """The product of a list; 1 for an empty one."""
    if len(arrays) != 2 or arrays[0].ndim != 1 or arrays[1].reshape(-1).tolist() not in ([0], [-1]):
        return None
    made = arrays[0].prod(dtype=arrays[0].dtype, keepdims=bool(step.options("ReducerOptions").KeepDims()))
    return np.asarray(made)


def _cut(step: Step, arrays: Sequence[Array]) -> Array | None:
    """A part of a list, or a place of it where the output has no axis."""
    places = strided_places(step) if len(arrays) == 4 and arrays[0].ndim == 1 else ""
    made = None if isinstance(places, str) else arrays[0][places[0]]
    return made.reshape(step.output.shape) if made is not None and made.size == math.prod(step.output.shape) else None


_TAKING: dict[str, Callable[[Step, Sequence[Array]], Array | None]] = {
    "GATHER": _gathered,
    "REDUCE_PROD": _product,
    "STRIDED_SLICE": _cut,
}


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


def reshaped_shape(data: Value, places: Value) -> tuple[int, ...] | None:
    """The shape of a RESHAPE's output, where the integers that say it are known and fit the data."""
    wanted = integers(places)
    if wanted is None or places.quantization is not None or wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        return None
    count, rest = math.prod(data.shape), math.prod(each for each in wanted if each != -1)
    if not rest or count % rest:
        return None
    shape = tuple(count // rest if each == -1 else each for each in wanted)
    return shape if math.prod(shape) == count else None


def dense_shape(data: Value, weight: Value, output: Value) -> tuple[int, ...] | None:
    """The shape of a FULLY_CONNECTED's output, whose rows are those of the data, as many as these are."""
    if len(weight.shape) != 2 or not output.shape or math.prod(data.shape) % max(weight.shape[1], 1):
        return None
    made, rows = weight.shape[0], math.prod(data.shape) // max(weight.shape[1], 1)
    if math.prod(output.shape) == rows * made:
        return output.shape
    return (*data.shape[:-1], made) if len(output.shape) == len(data.shape) else (rows, made)


def expanded_shape(data: Value, axis: Value) -> tuple[int, ...] | None:
    """The shape of an EXPAND_DIMS's output, where its axis is known."""
    places, rank = integers(axis), len(data.shape) + 1
    if places is None or len(places) != 1 or not -rank <= places[0] < rank:
        return None
    at = places[0] % rank
    return (*data.shape[:at], 1, *data.shape[at:])


def spread_shape(data: Value, block: Value, widths: Value) -> tuple[int, ...] | None:
    """The shape of a SPACE_TO_BATCH_ND's output, where its blocks and borders are known and fit the data."""
    each, around = integers(block), integers(widths)
    if each is None or around is None or len(around) != 2 * len(each) or min(each, default=0) < 1:
        return None
    if min(around) < 0 or len(data.shape) <= len(each):
        return None
    wide = [sum(extents) for extents in zip(data.shape[1:], around[::2], around[1::2], strict=False)]
    if any(extent % count for extent, count in zip(wide, each, strict=True)):
        return None
    inner = (extent // count for extent, count in zip(wide, each, strict=True))
    return (data.shape[0] * math.prod(each), *inner, *data.shape[1 + len(each) :])

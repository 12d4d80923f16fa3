"""What operators of a TFLite file make before the model runs: shapes, and constants that are stored in another form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from int8tune.compiler.graph import DTYPES
from int8tune.compiler.operators.base import BYTES, Array
from int8tune.compiler.tflite_reader.steps import Step

MOST_VALUES = 1 << 22


def known_array(step: Step) -> Array | None:
    """What an operator makes, of the shape and type of its output; None where that is not known, or too much."""
    read = _READERS.get(step.plain.operator)
    if read is None or len(step.plain.outputs) != 1 or not step.inputs or math.prod(step.output.shape) > MOST_VALUES:
        return None
    made = read(step)
    fits = made is not None and made.shape == step.output.shape and made.dtype == DTYPES[step.output.type]
    return made if fits else None


def _rank(step: Step) -> Array | None:
    return np.array(len(step.inputs[0].shape), DTYPES[step.output.type])


def _zeros(step: Step) -> Array | None:
    return np.zeros(step.output.shape, DTYPES[step.output.type]) if step.output.quantization is None else None


def _filled(step: Step) -> Array | None:
    value = step.inputs[-1].constant
    if len(step.inputs) != 2 or value is None or value.size != 1 or step.output.quantization is not None:
        return None
    return np.full(step.output.shape, value.reshape(-1)[0])


def _range(step: Step) -> Array | None:
    numbers = [value.constant for value in step.inputs]
    if len(numbers) != 3 or any(each is None or each.size != 1 for each in numbers) or len(step.output.shape) != 1:
        return None
    start, _, delta = (each.reshape(()) for each in numbers if each is not None)
    made: Array = start + np.arange(step.output.shape[0]).astype(start.dtype) * delta
    return made


def _shape_of_both(step: Step) -> Array | None:
    """The shape that two are spread to."""
    shapes = [value.constant for value in step.inputs]
    if len(shapes) != 2 or any(each is None or each.ndim != 1 or (each < 0).any() for each in shapes):
        return None
    try:
        made = np.broadcast_shapes(*(tuple(int(extent) for extent in each) for each in shapes if each is not None))
    except ValueError:  # they don't fit each other
        return None
    return np.array(made, DTYPES[step.output.type])


def _numbers(step: Step) -> Array | None:
    """What stored weights stand for: those of 8 bits, and of 16 in float."""
    value = step.inputs[0]
    if value.constant is None or value.shape != step.output.shape:
        return None
    if value.type in BYTES and value.quantization is not None:
        return value.quantization.numbers(value.constant)
    return value.constant.astype(np.float32) if value.type == "f16" else None


_READERS: dict[str, Callable[[Step], Array | None]] = {
    "RANK": _rank,
    "ZEROS_LIKE": _zeros,
    "FILL": _filled,
    "RANGE": _range,
    "BROADCAST_ARGS": _shape_of_both,
    "DEQUANTIZE": _numbers,
}

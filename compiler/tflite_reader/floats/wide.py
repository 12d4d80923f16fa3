"""Layers of 16-bit data and 8-bit weights, exact: sums of products of bytes, which binary32 has no rounding for.

Data is 256 high + low, each a byte; their sums are put together, rounded and shifted in binary64, where all of it is
below 2^53. Sources: conv.h, transpose_conv.h and fully_connected.h in reference/integer_ops of TensorFlow Lite, with
64-bit biases, and MultiplyByQuantizedMultiplier of 64 bits in kernels/internal/common.cc.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.operators.base import scale_of
from int8tune.compiler.tflite_reader.floats.hybrid import require_symmetric
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, half_away
from int8tune.compiler.tflite_reader.operators import activation_bounds
from int8tune.schedules.operands import quantize_multiplier

# Integers that binary32 and binary64 have all of, and how far a sum may be, times a multiplier of 15 bits.
MOST_SINGLE, MOST_DOUBLE, MOST_SUM = 1 << 24, 1 << 53, 1 << 37
MOST_BYTE, MOST_DATA = 255, 1 << 15
MOST_MULTIPLIER = 0x7FFF0000

Weight = npt.NDArray[np.float32]


def is_wide(at: Nodes, data_index: int = 0) -> bool:
    """Whether an operator has data of 16 bits and weights of 8."""
    data, weight = at.value(data_index), at.value(1)
    types = data.type, weight.type, at.outputs[0].type
    is_stored = data.quantization is not None and weight.quantization is not None
    return types == ("s16", "s8", "s16") and is_stored and at.outputs[0].quantization is not None


def wide_layer(
    at: Nodes, product: Callable[[str, Weight], str], axis: int, activation: int, data_index: int = 0
) -> str:
    """The stored output of a layer.

    Args:
        product: writes the sums of a value and weights that have the axes of the file's.
        axis: of output channels in the weights.
        data_index: the place of the data; a bias is behind the data and the weights.
    """
    require_symmetric(at)
    weight = at.value(1).constant
    assert weight is not None
    channels, bias = weight.shape[axis], _bias(at, weight.shape[axis], max(data_index, 1) + 1)
    totals = np.abs(weight.astype(np.int64)).sum(axis=tuple(each for each in range(weight.ndim) if each != axis))
    # Compared as integers of Python's: a file's bias may be any of 64 bits.
    largest = max(int(total) * MOST_DATA + abs(int(each)) for total, each in zip(totals, bias, strict=True))
    at.require(largest <= MOST_SUM, f"its sums must be at most 2^37: {largest}")
    sums = _sums(at, at.as_it_is(data_index), product, _parts(weight, axis))
    sums = at.apply("Add", sums, at.constant(bias.astype(np.float64)))
    return _rounded(at, sums, _factors(at, channels, data_index), activation)


def _bias(at: Nodes, channels: int, index: int) -> npt.NDArray[np.int64]:
    if len(at) <= index:
        return np.zeros(channels, np.int64)
    value = at.value(index)
    at.require(value.type == "s64", f"its bias must have 64 bits: {value.type}")
    at.require(value.constant is not None and value.constant.size == channels, "its bias must be constant")
    assert value.constant is not None
    return value.constant.reshape(-1)


def _sums(at: Nodes, stored: str, product: Callable[[str, Weight], str], parts: list[Weight]) -> str:
    """The sums of products in binary64."""
    data = at.apply("Cast", stored, to=ELEMENTS["f32"])
    high = at.apply("Floor", at.apply("Mul", data, at.number(1 / 256)))
    low = at.apply("Sub", data, at.apply("Mul", high, at.number(256.0)))
    made = []
    for part in parts:
        wide = [at.apply("Cast", product(each, part), to=ELEMENTS["f64"]) for each in (high, low)]
        made.append(at.apply("Add", at.apply("Mul", wide[0], at.constant(256.0, np.float64)), wide[1]))
    total = made[0]
    for each in made[1:]:
        total = at.apply("Add", total, each)
    return total


def _parts(weight: npt.NDArray[np.int8], axis: int) -> list[Weight]:
    """Weights whose sum they are, each so small that sums with bytes are exact in binary32."""
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
    before = np.cumsum(np.abs(rows.astype(np.int64)), axis=1) * MOST_BYTE
    # A part has at most half of what is exact, so that its last weight is within the rest.
    group = (before - 1).clip(0) // (MOST_SINGLE // 2)
    masks = [group == index for index in range(int(group.max()) + 1)]
    back = [weight.shape[axis], *(extent for at, extent in enumerate(weight.shape) if at != axis)]
    return [np.moveaxis((rows * mask).reshape(back), 0, axis).astype(np.float32) for mask in masks]


def _rounded(at: Nodes, sums: str, factors: list[float], activation: int) -> str:
    """Sums times a multiplier of 15 bits for each channel, and a shift; of dense layers, a product in binary64."""
    if at.step.plain.operator == "FULLY_CONNECTED":
        steps = at.apply("Mul", sums, at.constant(np.array(factors, np.float64)))
        return _stored(at, half_away(at, steps, np.float64), activation)
    multipliers = [_multiplier(real) for real in factors]
    at.require(all(1 <= shift <= 62 for _, shift in multipliers), "its scales are too far apart")
    factor = np.array([multiplier for multiplier, _ in multipliers], np.float64)
    half = np.array([2.0 ** (shift - 1) for _, shift in multipliers], np.float64)
    unit = np.array([2.0**-shift for _, shift in multipliers], np.float64)
    at.require(bool((half < MOST_DOUBLE / 4).all()), "its scales are too far apart")
    scaled = at.apply("Add", at.apply("Mul", sums, at.constant(factor)), at.constant(half))
    steps = at.apply("Floor", at.apply("Mul", scaled, at.constant(unit)))
    return _stored(at, steps, activation)


def _stored(at: Nodes, steps: str, activation: int) -> str:
    """Whole steps within the bounds of an activation."""
    bounds = activation_bounds(at.outputs[0], activation)
    if isinstance(bounds, str):
        at.require(False, bounds)
    assert not isinstance(bounds, str)
    low, high = (at.constant(float(bound), np.float64) for bound in bounds)
    at.is_finished = True
    return at.in_16_bits(at.apply("Clip", steps, low, high))


def _factors(at: Nodes, channels: int, data_index: int) -> list[float]:
    """What a step of the sums is in steps of the output."""
    scales = at.value(1).quantization
    assert scales is not None
    data, made = float(scale_of(at.value(data_index))), float(scale_of(at.outputs[0]))
    return [data * float(scale) / made for scale in np.broadcast_to(scales.scale, channels)]


def _multiplier(real: float) -> tuple[int, int]:
    """A multiplier of 15 bits, and the bits that are shifted out behind it."""
    multiplier, shift = quantize_multiplier(real)
    reduced = (multiplier + (1 << 15)) >> 16 if multiplier < MOST_MULTIPLIER else 0x7FFF
    return reduced, 15 - shift

"""TFLite's layers of 16-bit data and 8-bit weights (int16x8): how LiteRT's reference kernels round their sums.

Sums have 64 bits, or 32 where the operator's options say so by `quantized_bias_type`: a bias of another type than that
is read as what it is not. Sources: kernels/conv.cc, depthwise_conv.cc, fully_connected.cc and transpose_conv.cc of
TensorFlow Lite, and the kernels of reference/integer_ops that they call.
"""

from __future__ import annotations

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.operators.base import LongArray, scale_of, symmetric_fault
from int8tune.compiler.operators.word_sums import DoubleArray, Rounding, WordSums
from int8tune.compiler.tflite_reader.steps import Reason, Step
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.workload import MAX_REDUCTION

OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
}
# Of the schema's types of tensors: those of a bias, and that of options which say none.
BIAS_TYPES = {0: "s64", 2: "s32", 4: "s64"}
# How far sums of 64 bits may go, so that binary64 has them times 15 bits; and steps, so that 32 bits have them.
MOST_SUM, MOST_STEPS = 1 << 37, (1 << 31) - 1
MOST_DATA, MOST_SHIFT = 1 << 15, 50
MOST_MULTIPLIER = 0x7FFF0000
FAR_APART = "its scales are too far apart"


def is_wide(step: Step) -> bool:
    """Whether an operator is a layer of 16-bit data and 8-bit weights."""
    if step.plain.operator not in OPTIONS or len(step.inputs) < 3 - (step.plain.operator != "TRANSPOSE_CONV"):
        return False
    data, weight = _operands(step)[:2]
    is_stored = data.quantization is not None and weight.quantization is not None
    return (data.type, weight.type) == ("s16", "s8") and is_stored


def wide_sums(step: Step) -> WordSums | Reason:
    """What becomes of the sums of an operator that is a wide layer, or why that is not known."""
    data, weight, *biases = _operands(step)
    if step.output.type != "s16":
        return f"its output must have 16 bits as its data has: {step.output.type}"
    if wrong := symmetric_fault(data, step.output):
        return wrong
    quantization, axis = weight.quantization, 3 * (step.plain.operator == "DEPTHWISE_CONV_2D")
    assert quantization is not None
    if weight.constant is None or quantization.zero_point.any() or quantization.axis not in (None, axis):
        return "its weights must be constant and symmetric, and scales those of output channels"
    rows = np.moveaxis(weight.constant, axis, 0).reshape(weight.shape[axis], -1).astype(np.int64)
    if rows.shape[1] > MAX_REDUCTION:
        return f"its sums must have at most {MAX_REDUCTION} products: {rows.shape[1]}"
    bias = _bias(step, biases, len(rows))
    if isinstance(bias, str):
        return bias
    scales = np.broadcast_to(quantization.scale.astype(np.float64), len(rows))
    factors = float(scale_of(data)) * scales / float(scale_of(step.output))
    # Compared as integers of Python's: a file's bias may be any of 64 bits.
    largest = max(int(sum_) * MOST_DATA + abs(int(each)) for sum_, each in zip(np.abs(rows).sum(1), bias, strict=True))
    return _rounded(step, bias, factors, largest)


def _operands(step: Step) -> tuple[Value, ...]:
    """Data, weights, and the bias if there is one."""
    if step.plain.operator != "TRANSPOSE_CONV":
        return step.inputs
    _, weight, data, *bias = step.inputs
    return data, weight, *bias


def _bias_type(step: Step) -> str:
    options = OPTIONS[step.plain.operator]
    return BIAS_TYPES.get(step.options(options).QuantizedBiasType() if options else 0, "unknown")


def _bias(step: Step, biases: list[Value], channels: int) -> LongArray | Reason:
    expected = _bias_type(step)
    if expected not in BIAS_TYPES.values():
        return "its bias must have 32 or 64 bits, by its quantized_bias_type"
    if not biases:
        return np.zeros(channels, np.int64)
    (bias, *more) = biases
    if bias.type != expected:
        which = "always has for such data" if not OPTIONS[step.plain.operator] else "reads by its quantized_bias_type"
        return f"its bias must be of the type that LiteRT {which}, {expected}: {bias.type}"
    if more or bias.constant is None or bias.constant.size != channels:
        return f"its bias must be {channels} constants"
    return bias.constant.reshape(-1).astype(np.int64)


def _rounded(step: Step, bias: LongArray, factors: DoubleArray, largest: int) -> WordSums | Reason:
    """How sums are rounded: by a product in binary64 in dense layers, by one with an integer in others."""
    wraps = _bias_type(step) == "s32"
    if not wraps and largest > MOST_SUM:
        return f"its sums must be at most 2^37: {largest}"
    if step.plain.operator == "FULLY_CONNECTED":
        if min(largest, 1 << 31) * float(factors.max()) > MOST_STEPS:
            return FAR_APART
        return WordSums.away(wraps, bias, factors)
    try:
        multipliers = [quantize_multiplier(float(each)) for each in factors]
    except OperandError as error:
        return str(error)
    if not wraps:
        multipliers = [_reduced(*each) for each in multipliers]
        if any(not 1 <= shift <= MOST_SHIFT or largest * factor >> shift > MOST_STEPS for factor, shift in multipliers):
            return FAR_APART
    factor, shift = np.array(multipliers, np.int64).T
    rounding = Rounding.FIXED if wraps else Rounding.SHIFT
    return WordSums(rounding, wraps, bias, factor.astype(np.float64), shift, np.zeros(len(bias)))


def _reduced(multiplier: int, shift: int) -> tuple[int, int]:
    """A multiplier of 15 bits, and the bits that are shifted out behind it."""
    reduced = (multiplier + (1 << 15)) >> 16 if multiplier < MOST_MULTIPLIER else 0x7FFF
    return reduced, 15 - shift

"""The operators of TFLite models around their layers, as a graph has them.

Sources: schema.fbs of TensorFlow Lite, and the Prepare functions of its kernels for what they accept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators import checked, fixed_tables, other
from int8tune.compiler.operators.base import Array, byte_fault, is_same_quantization, zero_point_of
from int8tune.compiler.operators.word_arithmetic import MULTIPLY, SUBTRACT
from int8tune.compiler.padding import same_padding
from int8tune.compiler.tflite_reader.movements import MOVEMENTS, moved
from int8tune.compiler.tflite_reader.refused import refusal
from int8tune.compiler.tflite_reader.steps import Reason, Step, integers
from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import RANGES

NO_KERNEL = "no kernel computes it"
SAME, VALID = 0, 1
WIDE_RANGE = -(1 << 15), (1 << 15) - 1
ACTIVATIONS: dict[int, tuple[float, float]] = {
    0: (-math.inf, math.inf),
    1: (0.0, math.inf),
    2: (-1.0, 1.0),
    3: (0.0, 6.0),
}
RECTIFIERS = {"RELU": (0.0, math.inf), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0), "RELU_0_TO_1": (0.0, 1.0)}
_FUNCTIONS = {
    "LOGISTIC": fixed_tables.sigmoid,
    "TANH": fixed_tables.tanh,
    "ELU": fixed_tables.elu,
    "EXP": fixed_tables.exponential,
}
_ONLY_SIGNED = ("ELU", "EXP")


# What is computed in integers or refused: numbers would be one step off, or far more.
_ONLY_INTEGERS = {
    **dict.fromkeys(("ADD", "SUB", "MUL"), "s16"),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MEAN"), "s16"),
    **dict.fromkeys(("SQRT", "RSQRT", "SQUARED_DIFFERENCE"), "s8"),
}
# Values of which QUANTIZE makes others in integers, and has no table.
_REQUANTIZED = ("s16", "s32")


def is_only_integers(step: Step) -> bool:
    """Whether an operator on stored values has no form in float."""
    is_stored = step.output.quantization is not None
    if step.plain.operator == "QUANTIZE" and step.inputs[0].quantization is not None:
        return step.inputs[0].type in _REQUANTIZED
    if step.plain.operator == "SOFTMAX" and step.output.type == "s16":
        return is_stored and byte_fault(step.inputs[0]) is None
    return is_stored and _ONLY_INTEGERS.get(step.plain.operator) == step.output.type


def typed_operators(step: Step, values: MutableMapping[str, Value]) -> tuple[Operator, ...]:
    """The operator with its kind, or one of kind OTHER with the reason why it has none; movements may be several."""
    if step.plain.operator in MOVEMENTS:
        return moved(step, values)
    return (_typed(step, values),)


def _typed(step: Step, values: Mapping[str, Value]) -> Operator:
    read = _READERS.get(step.plain.operator)
    if read is None:
        return other(step.plain, refusal(step.plain.operator, NO_KERNEL))
    if len(step.inputs) < _LEAST_INPUTS.get(step.plain.operator, 1) or len(step.plain.outputs) != 1:
        return other(step.plain, f"it has {len(step.inputs)} inputs and {len(step.plain.outputs)} outputs")
    try:
        found = read(step)
    except OperandError as error:
        found = str(error)
    return other(step.plain, found) if isinstance(found, str) else checked(found, values)


def activation_bounds(output: Value, activation: int) -> tuple[int, int] | Reason:
    """The bounds of a fused activation in stored values of the output."""
    if activation not in ACTIVATIONS:
        return f"fused activation {activation} is not supported"
    if output.quantization is None or output.quantization.per_channel:
        return "its output must have one scale"
    return stored_bounds(output, ACTIVATIONS[activation])


def window_padding(
    mode: int, image: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Top, left, bottom, right of a window over an image [N, H, W, C]."""
    if mode == VALID:
        return 0, 0, 0, 0
    rows, columns = (same_padding(image[1 + axis], kernel[axis], stride[axis], dilation[axis]) for axis in (0, 1))
    return rows[0], columns[0], rows[1], columns[1]


def _pool(step: Step) -> Operator | Reason:
    options = step.options("Pool2DOptions")
    kernel = options.FilterHeight(), options.FilterWidth()
    stride, shape = (options.StrideH(), options.StrideW()), step.inputs[0].shape
    if min(kernel + stride) < 1 or options.Padding() not in (SAME, VALID) or len(shape) != 4:
        return f"kernel {kernel}, stride {stride} or padding {options.Padding()} is out of range for {shape}"
    clamp = activation_bounds(step.output, options.FusedActivationFunction())
    if isinstance(clamp, str):
        return clamp
    attributes: dict[str, Any] = {
        "kernel": kernel,
        "stride": stride,
        "padding": window_padding(options.Padding(), shape, kernel, stride, (1, 1)),
    }
    if step.plain.operator == "MAX_POOL_2D":
        return step.made(Kind.MAX_POOL, attributes, clamp=clamp)
    return step.made(Kind.AVERAGE_POOL, {**attributes, "include_pad": False}, clamp=clamp)


# Those that only an island computes, but over no axis.
_IN_FLOAT = ("REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
_REDUCTIONS = {"MEAN": Kind.MEAN, "SUM": Kind.SUM, "REDUCE_MAX": Kind.REDUCE_MAX, "REDUCE_MIN": Kind.REDUCE_MIN}


def _reduction(step: Step) -> Operator | Reason:
    axes, rank = integers(step.inputs[1]), len(step.inputs[0].shape)
    if axes is None:
        return "its axes must be constant"
    if not axes:
        return _reduction_of_nothing(step)
    kind = _REDUCTIONS.get(step.plain.operator)
    if kind is None:
        return NO_KERNEL
    return step.made(kind, {"axes": tuple(sorted({axis + rank * (axis < 0) for axis in axes}))})


def _reduction_of_nothing(step: Step) -> Operator | Reason:
    """A reduction over no axis: its input, where LiteRT copies it."""
    data, output = step.inputs[0], step.output
    stored = [value.quantization is not None for value in (data, output)]
    is_one = data.type == output.type and stored[0] == stored[1] and (not stored[0] or _is_one_scale(data, output))
    if not is_one or (step.plain.operator, data.type) == ("SUM", "s16"):
        return "over no axis, its input and output must have one scale and be no s16 of a SUM"
    return step.made(Kind.RESHAPE, {})


def _is_one_scale(data: Value, output: Value) -> bool:
    quantizations = [value.quantization for value in (data, output)]
    is_one = not any(quantization is None or quantization.per_channel for quantization in quantizations)
    return is_one and is_same_quantization(data, output)


def _argument(step: Step) -> Operator | Reason:
    axes, rank = integers(step.inputs[1]), len(step.inputs[0].shape)
    if axes is None or len(axes) != 1:
        return "its axis must be constant"
    kind = Kind.ARG_MAX if step.plain.operator == "ARG_MAX" else Kind.ARG_MIN
    return step.made(kind, {"axes": (axes[0] + rank * (axes[0] < 0),), "last": False})


def _reshape(step: Step) -> Operator | Reason:
    return step.made(Kind.RESHAPE, {})


def _transpose(step: Step) -> Operator | Reason:
    order, rank = integers(step.inputs[1]), len(step.inputs[0].shape)
    if order is None:
        return "its permutation must be constant"
    return step.made(Kind.TRANSPOSE, {"permutation": tuple(axis + rank * (axis < 0) for axis in order)})


def _pad(step: Step) -> Operator | Reason:
    data, widths, *filling = step.inputs
    padding = integers(widths)
    wrong = byte_fault(data, step.output)
    if wrong or padding is None or len(padding) != 2 * len(data.shape):
        return wrong or "its padding must be constant, two widths for each axis"
    value = zero_point_of(step.output)
    if filling:
        if filling[0].constant is None or filling[0].constant.size != 1:
            return "the value of its border must be one constant"
        value = int(filling[0].constant.reshape(-1)[0])
    pairs = tuple(zip(padding[::2], padding[1::2], strict=True))
    return step.made(Kind.PAD, {"padding": pairs, "value": value})


def _concat(step: Step) -> Operator | Reason:
    options, rank = step.options("ConcatenationOptions"), len(step.output.shape)
    if options.FusedActivationFunction():
        return f"fused activation {options.FusedActivationFunction()} is not supported"
    axis = options.Axis() + rank * (options.Axis() < 0)
    return step.made(Kind.CONCAT, {"axis": axis}, inputs=len(step.inputs))


def _multiply(step: Step) -> Operator | Reason:
    options = step.options("MulOptions")
    if step.output.type == "s16":
        return word_operator(step, MULTIPLY, options.FusedActivationFunction(), False)
    clamp = activation_bounds(step.output, options.FusedActivationFunction())
    return clamp if isinstance(clamp, str) else step.made(Kind.MULTIPLY, {}, inputs=len(step.inputs), clamp=clamp)


def word_operator(step: Step, operation: str, activation: int, powers: bool) -> Operator | Reason:
    """A sum, difference or product of values of 16 bits."""
    clamp = activation_bounds(step.output, activation)
    if isinstance(clamp, str):
        return clamp
    attributes = {"operation": operation, "powers": powers}
    return step.made(Kind.WORD_ARITHMETIC, attributes, inputs=len(step.inputs), clamp=clamp)


def _divide(step: Step) -> Operator | Reason:
    clamp = activation_bounds(step.output, step.options("DivOptions").FusedActivationFunction())
    return clamp if isinstance(clamp, str) else step.made(Kind.DIVIDE, {}, inputs=len(step.inputs), clamp=clamp)


def _subtract(step: Step) -> Operator | Reason:
    options = step.options("SubOptions")
    if step.output.type == "s16":
        return word_operator(step, SUBTRACT, options.FusedActivationFunction(), options.PotScaleInt16())
    clamp = activation_bounds(step.output, options.FusedActivationFunction())
    return clamp if isinstance(clamp, str) else step.made(Kind.SUBTRACT, {}, inputs=len(step.inputs), clamp=clamp)


def _squared_difference(step: Step) -> Operator | Reason:
    types = [value.type for value in (*step.inputs, step.output)]
    wrong = byte_fault(*step.inputs, step.output)
    if wrong or types != ["s8"] * 3:
        return wrong or f"its two inputs and its output must be s8: {', '.join(types)}"
    return step.made(Kind.SQUARED_DIFFERENCE, {}, inputs=2)


def _extremum(step: Step) -> Operator | Reason:
    kind = Kind.MINIMUM if step.plain.operator == "MINIMUM" else Kind.MAXIMUM
    return step.made(kind, {}, inputs=len(step.inputs))


def _prelu(step: Step) -> Operator | Reason:
    return step.made(Kind.PRELU, {}, inputs=len(step.inputs))


def _resize(step: Step) -> Operator | Reason:
    method = "bilinear" if step.plain.operator == "RESIZE_BILINEAR" else "nearest"
    options = step.options("ResizeBilinearOptions" if method == "bilinear" else "ResizeNearestNeighborOptions")
    corners, centers = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    attributes = {"method": method, "align_corners": corners, "half_pixel_centers": centers}
    return step.made(Kind.RESIZE, attributes)


def _softmax(step: Step) -> Operator | Reason:
    beta = float(step.options("SoftmaxOptions").Beta())
    return step.made(Kind.SOFTMAX, {"axis": len(step.inputs[0].shape) - 1, "beta": beta})


def _quantize(step: Step) -> Operator | Reason:
    if step.inputs[0].type == "f32":
        return step.made(Kind.QUANTIZE, {})
    if step.inputs[0].type in _REQUANTIZED:
        return step.made(Kind.REQUANTIZE, {})
    return _looked_up(step, fixed_tables.requantized)


def _dequantize(step: Step) -> Operator | Reason:
    return step.made(Kind.DEQUANTIZE, {})


def _rectifier(step: Step) -> Operator | Reason:
    limits = RECTIFIERS[step.plain.operator]
    return _looked_up(step, lambda data, output: fixed_tables.rectified(data, output, stored_bounds(output, limits)))


def _leaky(step: Step) -> Operator | Reason:
    alpha = float(step.options("LeakyReluOptions").Alpha())
    return _looked_up(step, lambda data, output: fixed_tables.leaky(data, output, alpha))


def _hard_swish(step: Step) -> Operator | Reason:
    return _looked_up(step, fixed_tables.hard_swish)


def _function(step: Step) -> Operator | Reason:
    if step.plain.operator in _ONLY_SIGNED and step.inputs[0].type != "s8":
        return f"its values must be s8: {step.inputs[0].type}"
    function = _FUNCTIONS[step.plain.operator]
    return _looked_up(step, lambda data, output: fixed_tables.mapped(data, output, function))


def _absolute(step: Step) -> Operator | Reason:
    if step.inputs[0].type != "s8":
        return f"its values must be s8: {step.inputs[0].type}"
    return _looked_up(step, fixed_tables.absolute)


def _root(step: Step) -> Operator | Reason:
    if step.inputs[0].type != "s8":
        return f"its values must be s8: {step.inputs[0].type}"
    return _looked_up(step, fixed_tables.root if step.plain.operator == "SQRT" else fixed_tables.inverse_root)


def _logarithm(step: Step) -> Operator | Reason:
    if step.inputs[0].type != "s8":
        return f"its values must be s8: {step.inputs[0].type}"

    def table(data: Value, output: Value) -> Array:
        return fixed_tables.mapped(data, output, fixed_tables.logarithm(data, output))

    return _looked_up(step, table)


def _gelu(step: Step) -> Operator | Reason:
    is_approximate = step.options("GeluOptions").Approximate()
    function = fixed_tables.gelu_tanh if is_approximate else fixed_tables.gelu
    return _looked_up(step, lambda data, output: fixed_tables.mapped(data, output, function))


def _looked_up(step: Step, table: Callable[[Value, Value], Array]) -> Operator | Reason:
    data = step.inputs[0]
    wrong = byte_fault(data, step.output)
    return wrong or step.made(Kind.LOOKUP, {"table": table(data, step.output)})


def stored_bounds(output: Value, limits: tuple[float, float]) -> tuple[int, int]:
    """Bounds in stored values of an output with one scale."""
    assert output.quantization is not None
    scale, zero_point = output.quantization.scale[0], int(output.quantization.zero_point[0])
    low, high = WIDE_RANGE if output.type == "s16" else RANGES[output.type]
    least, most = (_stored(bound, scale, zero_point) for bound in limits)
    return max(low, min(least, high)), min(high, max(most, low))


def _stored(real: float, scale: np.float32, zero_point: int) -> int:
    """The stored value next to a real one, halves away from zero; far outside of any type for an infinite one."""
    if math.isinf(real):
        return int(math.copysign(1 << 40, real))
    steps = float(np.float32(real) / scale)
    return zero_point + int(math.copysign(math.floor(abs(steps) + 0.5), steps)) if abs(steps) < 1 << 40 else 1 << 40


_READERS: dict[str, Callable[[Step], Operator | Reason]] = {
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    **dict.fromkeys((*_REDUCTIONS, *_IN_FLOAT), _reduction),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _argument),
    "RESHAPE": _reshape,
    "SQUEEZE": _reshape,
    "EXPAND_DIMS": _reshape,
    "TRANSPOSE": _transpose,
    "PAD": _pad,
    "PADV2": _pad,
    "CONCATENATION": _concat,
    "MUL": _multiply,
    "SUB": _subtract,
    "DIV": _divide,
    "SQUARED_DIFFERENCE": _squared_difference,
    "PRELU": _prelu,
    "MINIMUM": _extremum,
    "MAXIMUM": _extremum,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SOFTMAX": _softmax,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "LEAKY_RELU": _leaky,
    "HARD_SWISH": _hard_swish,
    "GELU": _gelu,
    "ABS": _absolute,
    "LOG": _logarithm,
    "SQRT": _root,
    "RSQRT": _root,
    **dict.fromkeys(RECTIFIERS, _rectifier),
    **dict.fromkeys(_FUNCTIONS, _function),
}
_LEAST_INPUTS = {
    **dict.fromkeys((*_REDUCTIONS, *_IN_FLOAT, "ARG_MAX", "ARG_MIN"), 2),
    "TRANSPOSE": 2,
    "PAD": 2,
    "PADV2": 3,
}

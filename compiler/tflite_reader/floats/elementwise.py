"""TFLite operators that compute numbers element by element, as ONNX nodes.

Sources: the reference kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES
from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader, half_away


def _arithmetic(operator: str, options: str) -> Reader:
    """A sum, difference or product; of integers without an activation."""

    def read(at: Nodes) -> str:
        activation = at.options(options).FusedActivationFunction()
        at.require_types("f32", *(() if activation else ("s32", "s64")))
        return at.activated(at.apply(operator, *_two(at)), activation)

    return read


def _two(at: Nodes) -> list[str]:
    at.require(len(at) == 2, f"it must have two inputs: {len(at)}")
    return at.inputs()


def _quotient(at: Nodes) -> str:
    """The quotient; that of integers without what is behind its point."""
    activation = at.options("Div").FusedActivationFunction()
    at.require_types("f32", *(() if activation else ("s32",)))
    if at.value(0).type != "s32":
        return at.activated(at.apply("Div", *_two(at)), activation)
    made = _wide_quotient(at)
    is_below = at.apply("Less", made, at.constant(0, np.float64))
    return at.like(at.apply("Where", is_below, at.apply("Ceil", made), at.apply("Floor", made)))


def _floor_quotient(at: Nodes) -> str:
    at.require_types("f32", "s32")
    if at.value(0).type == "s32":
        return at.like(at.apply("Floor", _wide_quotient(at)))
    return at.apply("Floor", at.apply("Div", *_two(at)))


def _wide_quotient(at: Nodes) -> str:
    """The quotient of integers of 32 bits in binary64, which has what is before its point exactly.

    LiteRT stops at a divisor of 0, and -2^31 has no quotient by -1.
    """
    divisor = at.value(1).constant if len(at) == 2 else None
    fits = divisor is not None and not np.isin(divisor, (0, -1)).any()
    at.require(fits, "its divisors must be constants other than 0 and -1")
    return at.apply("Div", *(at.apply("Cast", name, to=ELEMENTS["f64"]) for name in at.inputs()))


def _floor_remainder(at: Nodes) -> str:
    """A remainder of the sign of the divisor."""
    at.require_types("f32", "s32")
    data, divisor = _two(at)
    if at.value(0).type == "s32":
        whole = at.like(at.apply("Floor", _wide_quotient(at)))
        return at.apply("Sub", data, at.apply("Mul", whole, divisor))
    rest, zero = at.apply("Mod", data, divisor, fmod=1), at.number(0.0)
    is_other = at.apply("Xor", at.apply("Less", divisor, zero), at.apply("Less", rest, zero))
    is_moved = at.apply("And", is_other, at.apply("Not", at.apply("Equal", rest, zero)))
    return at.apply("Where", is_moved, at.apply("Add", rest, divisor), rest)


def _squared_difference(at: Nodes) -> str:
    at.require_types("f32")
    rest = at.apply("Sub", *_two(at))
    return at.apply("Mul", rest, rest)


def _several(operator: str, *types: str) -> Reader:
    def read(at: Nodes) -> str:
        at.require_types(*types)
        return at.apply(operator, *_two(at))

    return read


def _sum_of_many(at: Nodes) -> str:
    at.require_types("f32")
    return at.apply("Sum", *at.inputs())


def _comparison(operator: str, *types: str) -> Reader:
    def read(at: Nodes) -> str:
        at.require_types("f32", "s32", "s64", *types)
        return at.apply(operator, *_two(at))

    return read


def _unequal(at: Nodes) -> str:
    at.require_types("f32", "s32", "s64", "bool")
    return at.apply("Not", at.apply("Equal", *_two(at)))


def _unary(*operators: str) -> Reader:
    """A chain of functions of one value."""

    def read(at: Nodes) -> str:
        at.require_types("f32")
        name = _one(at)
        for operator in operators:
            name = at.apply(operator, name)
        return name

    return read


def _one(at: Nodes) -> str:
    at.require(len(at) == 1, f"it must have one input: {len(at)}")
    return at.input(0)


def _square(at: Nodes) -> str:
    at.require_types("f32")
    data = _one(at)
    return at.apply("Mul", data, data)


def _logical_not(at: Nodes) -> str:
    at.require_types("bool")
    return at.apply("Not", _one(at))


def _clip(low: float, high: float) -> Reader:
    def read(at: Nodes) -> str:
        at.require_types("f32")
        return at.clipped(_one(at), low, high)

    return read


def _leaky(at: Nodes) -> str:
    at.require_types("f32")
    return at.apply("LeakyRelu", _one(at), alpha=float(at.options("LeakyRelu").Alpha()))


def _prelu(at: Nodes) -> str:
    at.require_types("f32")
    data, slope = _two(at)
    return at.apply("Where", at.apply("GreaterOrEqual", data, at.number(0.0)), data, at.apply("Mul", data, slope))


def _hard_swish(at: Nodes) -> str:
    at.require_types("f32")
    data = _one(at)
    inner = at.clipped(at.apply("Add", data, at.number(3.0)), 0.0, 6.0)
    return at.apply("Mul", at.apply("Mul", data, inner), at.number(1 / 6))


def _gelu(at: Nodes) -> str:
    """In operators of the version that the nodes have."""
    at.require_types("f32")
    data = _one(at)
    if at.options("Gelu").Approximate():
        cube = at.apply("Mul", at.apply("Mul", data, data), data)
        inner = at.apply("Add", data, at.apply("Mul", cube, at.number(0.044715)))
        curve = at.apply("Tanh", at.apply("Mul", inner, at.number((2 / math.pi) ** 0.5)))
    else:
        curve = at.apply("Erf", at.apply("Mul", data, at.number(0.5**0.5)))
    half = at.apply("Mul", data, at.number(0.5))
    return at.apply("Mul", half, at.apply("Add", curve, at.number(1.0)))


def _cast(at: Nodes) -> str:
    """Integers lose their high bits; numbers beyond a range become its ends, and what is no number the greatest."""
    at.require_types("f32", "s32", "s64", "bool", "u8", "s8", "s16", "f64", "f16")
    data, own, made = _one(at), at.value(0).type, at.outputs[0].type
    if own not in _REALS or made not in _WIDE:
        return at.like(data)
    if own == "f16":
        data, own = at.apply("Cast", data, to=ELEMENTS["f32"]), "f32"
    dtype, ends = _REALS[own], np.iinfo(np.dtype(DTYPES[made]))
    most = dtype(ends.max)
    if int(most) > ends.max:
        most = np.nextafter(most, dtype(0))
    wide = _WIDE[made]
    clipped = at.apply("Min", at.apply("Max", data, at.constant(ends.min, dtype)), at.constant(most, dtype))
    whole, greatest = at.apply("Cast", clipped, to=ELEMENTS[wide]), at.constant(ends.max, DTYPES[wide])
    return at.like(at.apply("Where", at.apply("LessOrEqual", data, at.constant(most, dtype)), whole, greatest))


_REALS: dict[str, type[np.floating[Any]]] = {"f16": np.float32, "f32": np.float32, "f64": np.float64}
# The types in which ONNX Runtime chooses among values that become integers.
_WIDE = {"u8": "s32", "s8": "s32", "s16": "s32", "s32": "s32", "s64": "s64"}


def _fake_quantized(at: Nodes) -> str:
    """Numbers rounded to steps of a range, of which 0 is made one."""
    at.require_types("f32")
    options, data = at.options("FakeQuant"), _one(at)
    low, high, bits = np.float32(options.Min()), np.float32(options.Max()), options.NumBits()
    fits = 2 <= bits <= 16 and bool(low <= 0 <= high and low < high and np.isfinite(high - low))
    at.require(fits, f"its range must have 0 within it, and 2 to 16 bits: {low} to {high}, {bits}")
    at.require(not options.NarrowRange(), "LiteRT has no narrow range but for weights")
    most = np.float32((1 << bits) - 1)
    scale = (high - low) / most
    point = np.floor(np.clip(-low / scale, 0, most) + np.float32(0.5))
    ends = [(np.float32(end) - point) * scale for end in (0, most)]
    steps = at.apply("Mul", at.apply("Sub", at.clipped(data, *ends), at.number(ends[0])), at.number(1 / scale))
    return at.apply("Add", at.apply("Mul", half_away(at, steps, np.float32), at.number(scale)), at.number(ends[0]))


def _angle(at: Nodes) -> str:
    """The angle of a point, by that within the first quadrant; signs of zeros count."""
    at.require_types("f32")
    zero, one = at.number(0.0), at.number(1.0)
    names = _two(at)
    y, x = (at.apply("Abs", name) for name in names)
    is_same = at.apply("And", *(at.apply("Equal", y, x), at.apply("IsInf", x)))
    is_none = at.apply("And", at.apply("Equal", y, zero), at.apply("Equal", x, zero))
    ratio = at.apply("Where", is_none, zero, at.apply("Where", is_same, one, at.apply("Div", y, x)))
    angle = at.apply("Atan", ratio)
    angle = at.apply("Where", _is_negative(at, names[1]), at.apply("Sub", at.number(math.pi), angle), angle)
    return at.apply("Where", _is_negative(at, names[0]), at.apply("Neg", angle), angle)


def _is_negative(at: Nodes, name: str) -> str:
    zero = at.number(0.0)
    inverse = at.apply("Where", at.apply("Equal", name, zero), at.apply("Div", at.number(1.0), name), name)
    return at.apply("Less", inverse, zero)


def _select(at: Nodes) -> str:
    at.require(len(at) == 3 and at.value(0).type == "bool", "it must have a condition and two values")
    condition, one, other = at.inputs()
    rank = len(at.shape(1))
    if at.step.plain.operator == "SELECT" and len(at.shape(0)) == 1 < rank:
        condition = at.shaped(condition, (at.shape(0)[0], *(1,) * (rank - 1)))
    return at.chosen(condition, one, other)


NUMBERS = ("f32", "s32", "s64")
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "ABS": ("Abs",),
    "NEG": ("Neg",),
    "EXP": ("Exp",),
    "LOG": ("Log",),
    "SQRT": ("Sqrt",),
    "RSQRT": ("Sqrt", "Reciprocal"),
    "SIN": ("Sin",),
    "COS": ("Cos",),
    "FLOOR": ("Floor",),
    "CEIL": ("Ceil",),
    "ROUND": ("Round",),
    "SIGN": ("Sign",),
    "RELU": ("Relu",),
    "LOGISTIC": ("Sigmoid",),
    "TANH": ("Tanh",),
    "ELU": ("Elu",),
}
READERS: dict[str, Reader] = {
    **{word: _unary(*operators) for word, operators in FUNCTIONS.items()},
    "ADD": _arithmetic("Add", "Add"),
    "SUB": _arithmetic("Sub", "Sub"),
    "MUL": _arithmetic("Mul", "Mul"),
    "DIV": _quotient,
    "ADD_N": _sum_of_many,
    "FLOOR_DIV": _floor_quotient,
    "FLOOR_MOD": _floor_remainder,
    "SQUARED_DIFFERENCE": _squared_difference,
    "POW": _several("Pow", "f32"),
    "MINIMUM": _several("Min", *NUMBERS),
    "MAXIMUM": _several("Max", *NUMBERS),
    "LOGICAL_AND": _several("And", "bool"),
    "LOGICAL_OR": _several("Or", "bool"),
    "LOGICAL_NOT": _logical_not,
    "EQUAL": _comparison("Equal", "bool"),
    "NOT_EQUAL": _unequal,
    "LESS": _comparison("Less"),
    "LESS_EQUAL": _comparison("LessOrEqual"),
    "GREATER": _comparison("Greater"),
    "GREATER_EQUAL": _comparison("GreaterOrEqual"),
    "SQUARE": _square,
    "RELU6": _clip(0.0, 6.0),
    "RELU_N1_TO_1": _clip(-1.0, 1.0),
    "RELU_0_TO_1": _clip(0.0, 1.0),
    "LEAKY_RELU": _leaky,
    "PRELU": _prelu,
    "HARD_SWISH": _hard_swish,
    "GELU": _gelu,
    "CAST": _cast,
    "FAKE_QUANT": _fake_quantized,
    "ATAN2": _angle,
    "SELECT": _select,
    "SELECT_V2": _select,
}
# What takes and makes stored values as they are, where both stand for the same.
RAW = ("CAST", "SELECT", "SELECT_V2")

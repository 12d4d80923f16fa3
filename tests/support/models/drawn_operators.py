"""Operators drawn from all that their family's `fault` lets through, for tests of what computes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from hypothesis import assume
from hypothesis import strategies as st

from int8tune.compiler.graph import DTYPES, Graph, Kind, Operator, Quantization, Value
from int8tune.compiler.operators import FAMILIES
from int8tune.compiler.operators.base import STORED_RANGES
from int8tune.compiler.operators.word_sums import SUMS, Rounding
from int8tune.schedules.numerics import RANGES, RoundingRule
from tests.support.models.drawn_forms import FORMS, SEEDS, Draw, Form, Shape

Array = npt.NDArray[Any]

# Powers of two make ties of rounding; 1/256 is what softmax and tables of probabilities have. The last ones are so far
# from the others that what they make is beyond 32 bits, or nothing.
SMALL, LARGE = 1.3e-9, 2.9e9
# Products of two values with such scales are up to 2^26 steps of 1: more than a kernel rounds right.
WIDE = 31.6
SCALES = st.one_of(
    st.builds(lambda part, power: (1 + part / 1000) * 2.0**power, st.integers(0, 999), st.integers(-10, -3)),
    st.integers(-12, 2).map(lambda power: 2.0**power),
    st.just(1 / 256),
    st.sampled_from([3.7e-30, SMALL, LARGE, 7.1e29]),
)
TYPES: st.SearchStrategy[Literal["u8", "s8"]] = st.sampled_from(["u8", "s8"])
# Drawn until one has no fault: a kind and rule may take one scale, or one axis, alone.
ATTEMPTS = 20


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """An operator without fault, with its values by name; constants have their array."""

    operator: Operator
    inputs: tuple[Value, ...]
    output: Value

    def __repr__(self) -> str:
        """A line, for a failure that shows several."""
        operator, values = self.operator, (*self.inputs, self.output)
        forms = [f"{value.type}{list(value.shape)}{_quantization_text(value)}" for value in values]
        attributes = {name: value for name, value in operator.attributes.items() if name != "table"}
        return f"{operator.kind} {operator.rule} {' '.join(forms)} {attributes} clamp={operator.clamp}"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))


def _quantization_text(value: Value) -> str:
    form, is_known = value.quantization, " constant" * (value.constant is not None)
    return is_known if form is None else f"{form.scale[0]!r}{form.zero_point[0]:+d}{is_known}"


def graph_of(drawn: Sequence[Drawn]) -> Graph:
    """A model of operators that have nothing in common, each with inputs and an output of its own."""
    values: dict[str, Value] = {}
    operators, inputs, outputs = [], [], []
    for index, each in enumerate(drawn):
        renamed = [replace(value, name=f"{index}.{value.name}") for value in (*each.inputs, each.output)]
        values |= {value.name: value for value in renamed}
        *taken, made = (value.name for value in renamed)
        operators.append(replace(each.operator, layers=(made,), inputs=tuple(taken), outputs=(made,)))
        inputs += [value.name for value in renamed[:-1] if value.constant is None]
        outputs.append(made)
    return Graph("drawn", values, tuple(operators), tuple(inputs), tuple(outputs))


@st.composite
def operators(draw: Draw, kind: Kind, rule: RoundingRule, element: str) -> Drawn:
    """An operator of a kind and rule; most of its values have one type, with any scales and zero points."""
    for _ in range(ATTEMPTS):
        drawn = draw(_candidates(kind, rule, element))
        if _fault(drawn.operator, drawn.inputs, drawn.output) is None:
            complete: Drawn = draw(_with_constants(drawn))
            return complete
    assume(False)
    raise AssertionError


@st.composite
def _candidates(draw: Draw, kind: Kind, rule: RoundingRule, element: str) -> Drawn:
    """An operator that may have a fault."""
    form: Form = draw(FORMS[kind]())
    inputs, output = _values(draw, kind, form, element)
    if rule == "fixed" and kind in (Kind.AVERAGE_POOL, Kind.SOFTMAX) and draw(st.integers(0, 3)) == 0:
        inputs, output = _with_words(draw, kind, inputs, output)
    attributes = dict(form.attributes)
    if kind is Kind.LOOKUP:
        attributes["table"] = _table(draw, output)
    operator = Operator(kind, ("made",), str(kind), tuple(v.name for v in inputs), ("out",), rule, None, attributes)
    if output.type in RANGES and draw(st.booleans()):
        operator = replace(operator, clamp=_clamp(draw, output))
    return Drawn(operator, inputs, output)


@st.composite
def _with_constants(draw: Draw, drawn: Drawn) -> Drawn:
    """The operator with constants as inputs, one or all of them, where it may have such."""
    count = len(drawn.inputs)
    is_known = [True] * count if draw(st.integers(0, 4)) == 0 else [draw(st.integers(0, 3)) == 0 for _ in range(count)]
    inputs = tuple(
        replace(value, constant=array_of(value, draw(SEEDS))) if known else value
        for value, known in zip(drawn.inputs, is_known, strict=True)
    )
    return drawn if _fault(drawn.operator, inputs, drawn.output) else replace(drawn, inputs=inputs)


@np.errstate(all="ignore")
def _fault(operator: Operator, inputs: Sequence[Value], output: Value) -> str | None:
    """What a reader asks of each operator, where scales may be anything."""
    return FAMILIES[operator.kind].fault(operator, inputs, output)


def array_of(value: Value, seed: int) -> Array:
    """Values of a tensor: anything, extremes, one value everywhere, or neighbours that differ little."""
    rng = np.random.default_rng(seed)
    if value.type in ("f16", "f32", "f64"):
        return _numbers(value, rng)
    dtype = np.dtype(DTYPES[value.type])
    if value.type == "bool":
        return rng.integers(0, 2, value.shape).astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    match rng.integers(6):
        case 0:
            stored = rng.choice([low, high], value.shape)
        case 1:
            stored = np.full(value.shape, rng.integers(low, high, endpoint=True))
        case 2:
            steps = np.cumsum(rng.integers(-2, 3, math.prod(value.shape))) + rng.integers(low, high)
            stored = np.clip(steps, low, high).reshape(value.shape)
        case _:
            stored = rng.integers(low, high, value.shape, endpoint=True)
    return stored.astype(dtype)


def _numbers(value: Value, rng: np.random.Generator) -> Array:
    """Numbers of which many are ties between two steps of 2^-k, and some are far out."""
    steps = rng.integers(-300, 300, value.shape) + rng.choice([0, 0.5, 0.25], value.shape)
    numbers = steps * 2.0 ** rng.integers(-12, 4) * rng.choice([1, 1, 1, 1e5, 1e-9], value.shape)
    numbers = np.where(rng.random(value.shape) < 0.02, rng.choice([np.inf, -np.inf, 3e38, -0.0]), numbers)
    with np.errstate(over="ignore"):
        typed: Array = numbers.astype(DTYPES[value.type])
        return typed


def inputs_of(graph: Graph, seed: int) -> dict[str, Array]:
    """An array for each input of a graph; of numbers that are quantized, half are ties between two steps."""
    made = {name: array_of(graph.values[name], seed + index) for index, name in enumerate(graph.inputs)}
    for index, operator in enumerate(graph.operators):
        output = graph.values[operator.outputs[0]].quantization
        if operator.kind is Kind.QUANTIZE and operator.inputs[0] in made and output is not None:
            numbers, rng = made[operator.inputs[0]], np.random.default_rng(seed + index)
            ties = (rng.integers(-300, 300, numbers.shape) + 0.5) * np.float64(output.scale.flat[0])
            made[operator.inputs[0]] = np.where(rng.random(numbers.shape) < 0.5, ties, numbers).astype(numbers.dtype)
    return made


# Values.


def _values(draw: Draw, kind: Kind, form: Form, element: str) -> tuple[tuple[Value, ...], Value]:
    """The operator's values: one type and one quantization for all, any, or scales whose ratio is large."""
    quantization = draw(quantizations())
    scales = draw(st.sampled_from(["one", "one", "any", "any", "far", "wide"]))
    is_one = scales == "one"

    def value(name: str, shape: Shape) -> Value:
        own: Any = element if is_one or draw(st.booleans()) else draw(TYPES)
        form = quantization if is_one else draw(quantizations())
        low, _ = RANGES[own]
        return Value(name, shape, own, replace(form, zero_point=form.zero_point + low))

    inputs = tuple(value(f"in{index}", shape) for index, shape in enumerate(form.inputs))
    output = value("out", form.output)
    if scales in ("far", "wide"):
        pair = (LARGE, SMALL) if scales == "far" else (WIDE, 1.0)
        inputs, output = tuple(_scaled(each, pair[0]) for each in inputs), _scaled(output, pair[1])
    if kind in (Kind.SOFTMAX,) and draw(st.booleans()):
        low = np.array([RANGES[output.type][0]])
        output = replace(output, quantization=Quantization(np.array([1 / 256], np.float32), low))
    if kind is Kind.QUANTIZE:
        inputs = tuple(_plain(each, "f32") for each in inputs)
    if kind is Kind.ELEMENTWISE:
        inputs = tuple(_number(draw, each) if draw(st.integers(0, 3)) == 0 else each for each in inputs)
    if kind is Kind.DIVIDE:
        inputs = (inputs[0], _divisor(draw, inputs[1]))
    if kind in (Kind.ARG_MAX, Kind.ARG_MIN):
        output = _plain(output, draw(st.sampled_from(["s32", "s64"])))
    if kind is Kind.DEQUANTIZE:
        output = _plain(output, "f32")
    if kind is Kind.WORD_ARITHMETIC:
        is_power = draw(st.booleans())
        inputs, output = tuple(_symmetric(draw, each, is_power) for each in inputs), _symmetric(draw, output, is_power)
    if kind is Kind.REQUANTIZE:
        inputs, output = (_of_type(draw, inputs[0], ["s16", "s32"]),), _of_type(draw, output, ["s8", "s16", "s32"])
    if kind is Kind.WORD_BYTE:
        inputs, output = (_word(draw, inputs[0]),), _plain(output, "u8")
    if kind is Kind.WORD_SUMS:
        inputs = tuple(_plain(each, "s32") for each in inputs)
        is_number = form.attributes[SUMS].rounding is Rounding.NUMBER
        output = _plain(output, "f32") if is_number else draw(st.sampled_from([output, _word(draw, output)]))
    if kind in (Kind.RESHAPE, Kind.TRANSPOSE, Kind.SLICE, Kind.GATHER) and draw(st.booleans()):
        other = draw(st.sampled_from(sorted(DTYPES)))
        inputs, output = tuple(_plain(each, other) for each in inputs), _plain(output, other)
    return inputs, output


def _number(draw: Draw, value: Value) -> Value:
    """A constant of numbers of the same shape."""
    number = _plain(value, "f32")
    return replace(number, constant=array_of(number, draw(SEEDS)))


def _divisor(draw: Draw, value: Value) -> Value:
    """A constant that is nowhere 0, with few steps from it or many."""
    assert value.quantization is not None
    (low, high), zero_point = RANGES[value.type], int(value.quantization.zero_point[0])
    array, most = array_of(value, draw(SEEDS)).astype(np.int64), draw(st.sampled_from([1, 3, 255]))
    near = np.clip(array, max(low, zero_point - most), min(high, zero_point + most))
    other = zero_point + 1 if zero_point < high else zero_point - 1
    return replace(value, constant=np.where(near == zero_point, other, near).astype(DTYPES[value.type]))


def _word(draw: Draw, value: Value) -> Value:
    """The value in 16 bits, with any zero point."""
    element: Any = draw(st.sampled_from(["u16", "s16"]))
    point = draw(st.integers(*STORED_RANGES[element]))
    assert value.quantization is not None
    return replace(value, type=element, quantization=replace(value.quantization, zero_point=np.array([point])))


def _symmetric(draw: Draw, value: Value, is_power: bool) -> Value:
    """The value in 16 bits around 0, with few scales that are powers of two."""
    scale = 2.0 ** draw(st.integers(-12, -9)) if is_power else draw(SCALES)
    return replace(value, type="s16", quantization=Quantization(np.array([scale], np.float32), np.zeros(1, np.int64)))


def _with_words(draw: Draw, kind: Kind, inputs: tuple[Value, ...], output: Value) -> tuple[tuple[Value, ...], Value]:
    """Values of 16 bits where TFLite has them: averages of such, and shares of bytes, of 1 in all."""
    word = _symmetric(draw, output, is_power=False)
    if kind is Kind.AVERAGE_POOL:
        return tuple(replace(word, name=value.name, shape=value.shape) for value in inputs), word
    shares = Quantization(np.array([2.0**-16], np.float32), np.array([-(1 << 15)]))
    return inputs, replace(word, quantization=shares)


def _of_type(draw: Draw, value: Value, types: Sequence[Any]) -> Value:
    """The value as one of these types, where it is of 8 or 16 bits with any zero point."""
    element = draw(st.sampled_from(types))
    point = 0 if element == "s32" else draw(st.one_of(st.just(0), st.integers(*STORED_RANGES[element])))
    quantization = Quantization(np.array([draw(SCALES)], np.float32), np.array([point]))
    return replace(value, type=element, quantization=quantization)


def _scaled(value: Value, scale: float) -> Value:
    assert value.quantization is not None
    return replace(value, quantization=replace(value.quantization, scale=np.array([scale], np.float32)))


def _plain(value: Value, element: Any) -> Value:
    return replace(value, type=element, quantization=None)


@st.composite
def quantizations(draw: Draw) -> Quantization:
    """One scale, and a zero point counted from the lowest value of the type."""
    zero_point = draw(st.one_of(st.sampled_from([0, 128, 255]), st.integers(0, 255)))
    return Quantization(np.array([draw(SCALES)], np.float32), np.array([zero_point], np.int64))


def _clamp(draw: Draw, output: Value) -> tuple[int, int]:
    low, high = RANGES[output.type] if output.type in ("u8", "s8") else (0, 255)
    bounds = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    return bounds[0], bounds[1]


def _table(draw: Draw, output: Value) -> Array:
    """A table that is anything, or ascends as those of most functions do."""
    rng = np.random.default_rng(draw(SEEDS))
    low, high = RANGES[output.type]
    match draw(st.sampled_from(["any", "linear", "step", "constant"])):
        case "any":
            table = rng.integers(low, high, 256, endpoint=True)
        case "linear":
            table = np.clip(np.rint(np.arange(256) * rng.uniform(0, 2) + rng.integers(low, high)), low, high)
        case "step":
            table = np.clip(np.arange(256) + low + rng.integers(-100, 100), low, high)
        case _:
            table = np.full(256, rng.integers(low, high))
    return table.astype(DTYPES[output.type])

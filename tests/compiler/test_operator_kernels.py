"""Every operator kernel, compiled, gives what its family's reference gives, over all that `fault` lets through."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from int8tune.compiler.graph import DTYPES, Kind, Operator, Quantization, Value
from int8tune.compiler.operator_kernels.registry import KERNELS
from int8tune.compiler.operators.elementwise import Operation
from int8tune.compiler.operators.multiply import fused_product, multiply_constants
from int8tune.compiler.operators.squared_difference import fused_square, square_factors
from int8tune.compiler.operators.word_sums import SUMS, Rounding, WordSums
from int8tune.schedules.numerics import RoundingRule
from int8tune.schedules.target import Target
from tests.support.kernels.operator_runs import assert_operator_exact
from tests.support.models.compiled import assert_exact
from tests.support.models.drawn_forms import FORMS, SEEDS
from tests.support.models.drawn_operators import Drawn, graph_of, inputs_of, operators
from tests.support.run.probes import host_target
from tests.support.run.thinned import chosen

# Of one library: linking costs more than a kernel.
LEAST_OPERATORS, MOST_OPERATORS = 4, 6
QUICK_OPERATORS = 2
RULES: tuple[RoundingRule, ...] = ("float", "fixed")
# Kinds that only one runtime's arithmetic has.
ONLY_RULES: dict[Kind, tuple[RoundingRule, ...]] = {
    Kind.ELEMENTWISE: ("float",),
    Kind.DIVIDE: ("fixed",),
    Kind.PRELU: ("fixed",),
    Kind.SUBTRACT: ("fixed",),
    Kind.SQUARED_DIFFERENCE: ("fixed",),
    Kind.REQUANTIZE: ("fixed",),
    Kind.WORD_ARITHMETIC: ("fixed",),
    Kind.WORD_BYTE: ("float",),
    Kind.WORD_SUMS: ("float",),
}
TYPES = ("u8", "s8")
# What hardly any drawn operator would be without fault: each one drawn in vain takes time.
NO_FORMS = {(Kind.SUM, "fixed", "s8")}
PROFILES = (None, "x86-avx2", "generic")
QUICK, THOROUGH, LONG = 1, 4, 8
THREADS = st.sampled_from((1, 2))


def test_every_kind_is_drawn() -> None:
    assert set(FORMS) == {*KERNELS, Kind.RESHAPE, Kind.MATMUL}


Case = tuple[Sequence[float], Sequence[int]]
"""The scales and zero points of two inputs and an output."""


def assert_kernels_exact(drawn: list[Drawn], target: Target, seed: int) -> None:
    graph = graph_of(drawn)
    with tempfile.TemporaryDirectory() as folder:
        assert_exact(graph, target, inputs_of(graph, seed), Path(folder))


def lists_of(kind: Kind, rule: RoundingRule, element: str) -> st.SearchStrategy[list[Drawn]]:
    return st.lists(operators(kind, rule, element), min_size=LEAST_OPERATORS, max_size=MOST_OPERATORS)


def forms_of(kind: Kind) -> list[tuple[RoundingRule, str]]:
    every = itertools.product(ONLY_RULES.get(kind, RULES), TYPES)
    return [(rule, element) for rule, element in every if (kind, rule, element) not in NO_FORMS]


def drawing(examples: int, derandomize: bool) -> settings:
    return settings(
        max_examples=examples,
        derandomize=derandomize,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        # A failure is shrunk by compiling it hundreds of times: a list of six operators is short enough to read.
        phases=[Phase.generate],
    )


def exact(kind: Kind, target: Target, examples: int, derandomize: bool) -> None:
    """Draw libraries of a kind's operators for each rule and type."""
    forms = forms_of(kind)
    libraries = [lists_of(kind, *form) for form in forms]
    if examples == QUICK:  # one library of each rule, and each type
        some = (operators(kind, *form) for form in (forms[0], forms[-1]) for _ in range(QUICK_OPERATORS))
        libraries = [st.tuples(*some).map(list)]
    for library in libraries:

        @drawing(examples, derandomize)
        @given(library, THREADS, SEEDS)
        def check(drawn: list[Drawn], threads: int, seed: int) -> None:
            assert_kernels_exact(drawn, replace(target, threads=threads), seed)

        check()


def exact_between_guards(kind: Kind, target: Target, examples: int, derandomize: bool) -> None:
    """Draw operators of a kind for each rule and type, whose kernels may touch nothing around their arrays."""
    for form in forms_of(kind):

        @drawing(examples, derandomize)
        @given(operators(kind, *form), THREADS, SEEDS)
        def check(drawn: Drawn, threads: int, seed: int) -> None:
            graph = graph_of([drawn])
            assert_operator_exact(graph, target, [*inputs_of(graph, seed).values()], threads)

        check()


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_stay_inside_their_arrays(kind: Kind, native: Target) -> None:
    exact_between_guards(kind, native, QUICK, True)


@pytest.mark.thorough
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_stay_inside_their_arrays_whatever_is_drawn(kind: Kind, profile: str | None) -> None:
    exact_between_guards(kind, host_target(profile), LONG, False)


# What has no kernel of its own is in libraries alone.
@pytest.mark.parametrize("kind", chosen(FORMS, lambda kind: kind not in KERNELS or [*FORMS].index(kind) % 4 == 0))
def test_libraries_of_one_kind_are_exact(kind: Kind, native: Target) -> None:
    exact(kind, native, QUICK, True)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", FORMS)
def test_larger_libraries_are_exact(kind: Kind, native: Target) -> None:
    exact(kind, native, THOROUGH, True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", FORMS)
def test_libraries_are_exact_whatever_is_drawn(kind: Kind, profile: str | None) -> None:
    exact(kind, host_target(profile), LONG, False)


@pytest.mark.parametrize("scale", [2.0**8, 2.0**-8])
def test_a_mean_beyond_32_bits_is_saturated(scale: float, native: Target) -> None:
    assert_large_mean_exact(scale, native)


def assert_large_mean_exact(scale: float, target: Target) -> None:
    """A factor of 2^16, which is taken, and the largest sums of a window: what is drawn is rarely so near the limit."""
    quantizations = [Quantization(np.array([each], np.float32), np.array([0])) for each in (scale, scale / 2**28)]
    image = Value("in0", (1, 64, 64, 2), "u8", quantizations[0])
    output = Value("out", (1, 2), "u8", quantizations[1])
    mean = Operator(Kind.MEAN, ("made",), "mean", ("in0",), ("out",), "float", None, {"axes": (1, 2)})
    graph = graph_of([Drawn(mean, (image,), output)])
    with tempfile.TemporaryDirectory() as folder:
        assert_exact(graph, target, {"0.in0": np.full(image.shape, 255, np.uint8)}, Path(folder))


def test_averages_keep_their_sign_on_any_target() -> None:
    """In vectors of SSE2, one of these had the other sign."""
    image, output = (
        Value(name, shape, "s8", Quantization(np.ones(1, np.float32), np.zeros(1, np.int64)))
        for name, shape in (("in0", (1, 7, 33, 3)), ("out", (1, 5, 17, 3)))
    )
    window = {"kernel": (5, 1), "stride": (2, 2), "padding": (4, 0, 3, 0), "include_pad": False}
    pool = Operator(Kind.AVERAGE_POOL, ("made",), "average_pool", ("in0",), ("out",), "fixed", (-128, 101), window)
    assert_kernels_exact([Drawn(pool, (image,), output)] * 4, host_target("generic"), 402)


def test_a_product_is_rounded_before_something_is_added(native: Target) -> None:
    assert_products_rounded(native)


def assert_products_rounded(target: Target) -> None:
    """Sums that are ties, and none where the product in them is not rounded: what is drawn hardly ever has one."""
    rng, values = np.random.default_rng(0), np.arange(256, dtype=np.float32)
    factors = rng.uniform(0.1, 1, 256).astype(np.float32)
    scale, none = np.float32(0.0173), np.zeros(0, np.float32)
    real, image = values * scale, Value("in0", (256,), "u8", Quantization(np.array([scale]), np.array([0])))
    output = Value("out", (256,), "u8", Quantization(np.array([1], np.float32), np.array([0])))
    drawn = []
    half, far = np.full(256, 3.5, np.float32), np.float32(-2e7)
    for product, steps, total in (
        (real * factors, ("multiply", "add"), half),
        (real, ("add",), half),
        (real, ("add",), half + far),
    ):
        constants = [factors, total - product][-len(steps) :]
        numbers = [Value(f"in{index}", (256,), "f32", None, each) for index, each in enumerate(constants, 1)]
        # At last a value that is 0 is added: of a byte and numbers alone all would be one line.
        inputs = (image, *numbers, Value("nothing", (256,), "u8", image.quantization))
        operations = tuple(
            Operation(name, (len(inputs) + at - 1 if at else 0, at + 1), none)
            for at, name in enumerate((*steps, "add"))
        )
        names = tuple(value.name for value in inputs)
        made = Operator(Kind.ELEMENTWISE, ("made",), "", names, ("out",), "float", None, {"operations": operations})
        drawn.append(Drawn(made, inputs, output))
    graph = graph_of(drawn)
    with tempfile.TemporaryDirectory() as folder:
        every = np.arange(256, dtype=np.uint8)
        inputs_by_name = {name: every * (not name.endswith("nothing")) for name in graph.inputs}
        assert_exact(graph, target, inputs_by_name, Path(folder))


def test_products_of_sums_are_rounded_before_an_offset_is_added(native: Target) -> None:
    assert_sums_rounded(native)


def assert_sums_rounded(target: Target) -> None:
    """Sums whose offset takes away all of a rounded product; of one that is not rounded, some bits stay."""
    channels, rng = 64, np.random.default_rng(0)
    totals = np.arange(1, channels + 1)
    factor = rng.uniform(0.1, 1, channels)
    bias = np.zeros(channels, np.int64)
    sums = WordSums(Rounding.NUMBER, wraps=False, bias=bias, factor=factor, shift=bias, offset=-(totals * factor))
    inputs = tuple(Value(f"in{at}", (1, channels), "s32", None) for at in range(2))
    output = Value("out", (1, channels), "f32", None)
    names = tuple(value.name for value in inputs)
    made = Operator(Kind.WORD_SUMS, ("made",), "", names, ("out",), "float", None, {SUMS: sums})
    graph = graph_of([Drawn(made, inputs, output)])
    high, low = graph.inputs
    arrays = {high: np.zeros((1, channels), np.int32), low: totals.astype(np.int32).reshape(1, -1)}
    with tempfile.TemporaryDirectory() as folder:
        values = assert_exact(graph, target, arrays, Path(folder))
    assert not np.concatenate([values[name].ravel() for name in graph.outputs]).any()


# Scales and zero points whose products are ties often; the last ones make up to 2^26 steps.
PRODUCTS = [
    ((0.55, 0.05, 0.11), (28, 85, 41)),
    ((0.27, 0.15, 0.54), (107, 169, 96)),
    ((31.6, 31.6, 1.0), (128, 128, 3)),
]
# Squared differences that are rounded by a fused multiply-add, and one that is not.
SQUARES = [
    ((0.00822325, 0.000338567, 0.0046558), (112, 0, 0)),
    ((0.000518977, 0.0000766891, 0.0000200883), (131, 115, 0)),
    ((1.0, 1.0, 0.00048828125), (0, 255, 100)),
    ((0.16280672, 0.025963426, 0.000022200647), (3, 130, 0)),
]
# Products of the fixed rule that are rounded once, by the fused rule, and three that are not: no offset is right for a
# power of two, and a shift to the left has no staircase.
FIXED_PRODUCTS = [
    ((0.37, 1.0, 1.0), (19, 4, 44)),
    ((0.0024, 1.0, 1.0), (208, 161, 139)),
    ((0.00001, 1.0, 1.0), (0, 0, 7)),
    ((0.0625, 0.0625, 1.0), (128, 128, 128)),
    ((3.7, 1.0, 1.0), (128, 131, 90)),
    ((31.6, 31.6, 1.0), (128, 128, 3)),
]
# Squared differences that are rounded by a fused multiply-add, and one that is not.
SQUARES = [
    ((0.00822325, 0.000338567, 0.0046558), (112, 0, 0)),
    ((0.000518977, 0.0000766891, 0.0000200883), (131, 115, 0)),
    ((1.0, 1.0, 0.00048828125), (0, 255, 100)),
    ((0.16280672, 0.025963426, 0.000022200647), (3, 130, 0)),
]


def test_every_product_of_two_bytes(native: Target) -> None:
    assert_every_product_exact(native)


@pytest.mark.parametrize("type_", ["u8", "s8"])
def test_most_products_are_rounded_once(type_: str) -> None:
    is_once = []
    for each in _products("fixed", type_, FIXED_PRODUCTS):
        given = each.operator, each.inputs, each.output
        is_once.append(fused_product(*given, multiply_constants(*given)) is not None)
    assert is_once == [True, True, True, False, False, False]


def test_most_squared_differences_are_rounded_once() -> None:
    is_once = []
    for each in _pairs(Kind.SQUARED_DIFFERENCE, "fixed", "s8", SQUARES):
        is_once.append(fused_square(each.inputs, each.output, square_factors(each.inputs, each.output)) is not None)
    assert is_once == [True, True, True, False]


def assert_every_product_exact(target: Target) -> None:
    """A product that is not rounded before the zero point is added, or not bounded before that, shows."""
    drawn = [*_products("float", "u8", PRODUCTS), *_products("fixed", "u8", FIXED_PRODUCTS)]
    drawn += _products("fixed", "s8", FIXED_PRODUCTS)
    drawn += [each for type_ in TYPES for each in _pairs(Kind.SQUARED_DIFFERENCE, "fixed", type_, SQUARES)]
    graph, every = graph_of(drawn), np.arange(256, dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        arrays = {
            name: every.view(DTYPES[graph.values[name].type]).reshape(graph.values[name].shape) for name in graph.inputs
        }
        assert_exact(graph, target, arrays, Path(folder))


def _products(rule: RoundingRule, type_: str, cases: Sequence[Case]) -> list[Drawn]:
    return _pairs(Kind.MULTIPLY, rule, type_, cases)


def _pairs(kind: Kind, rule: RoundingRule, type_: str, cases: Sequence[Case]) -> list[Drawn]:
    """An operator on every value and every value; zero points are those of u8."""
    drawn = []
    for scales, points in cases:
        forms = [
            Quantization(np.array([scale], np.float32), np.array([point - (128 if type_ == "s8" else 0)]))
            for scale, point in zip(scales, points, strict=True)
        ]
        shapes = (256, 1), (1, 256), (256, 256)
        names = "in0", "in1", "out"
        *inputs, output = (
            Value(name, shape, type_, form) for name, shape, form in zip(names, shapes, forms, strict=True)
        )
        drawn.append(Drawn(Operator(kind, ("made",), "", names[:2], ("out",), rule), tuple(inputs), output))
    return drawn


def test_every_word_shifted(native: Target) -> None:
    assert_every_shift_exact(native)


def assert_every_shift_exact(target: Target) -> None:
    """Every value of 16 bits, divided by some powers of two: drawn scales are rarely such ones."""
    one, shape = 2.0**-4, (256, 256)
    drawn = []
    for bits, operation in itertools.product((1, 2, 7, 15), ("add", "subtract")):
        scales = (one / 2**bits, one, one)
        *inputs, output = (
            Value(name, shape, "s16", Quantization(np.array([scale], np.float32), np.array([0])))
            for name, scale in zip(("in0", "in1", "out"), scales, strict=True)
        )
        attributes = {"operation": operation, "powers": True}
        names = tuple(value.name for value in inputs)
        made = Operator(Kind.WORD_ARITHMETIC, ("made",), "", names, ("out",), "fixed", None, attributes)
        drawn.append(Drawn(made, tuple(inputs), output))
    graph = graph_of(drawn)
    every = np.arange(1 << 16).astype(np.uint16).view(np.int16).reshape(shape)
    arrays = {name: every if index % 2 == 0 else np.zeros_like(every) for index, name in enumerate(graph.inputs)}
    with tempfile.TemporaryDirectory() as folder:
        assert_exact(graph, target, arrays, Path(folder))

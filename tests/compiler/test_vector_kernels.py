"""Kernels of operators that are written for vectors, on each profile's own instructions, and whatever extents are."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8tune.compiler.graph import DTYPES, ElementType, Kind
from int8tune.compiler.operator_kernels.pointwise import axes_of
from int8tune.compiler.operator_kernels.transposition import merged
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import PROFILES
from tests.support.kernels.operator_runs import Shape, assert_operator_exact, graph_of, value_of
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

pytestmark = pytest.mark.promise(1)

Array = npt.NDArray[Any]
ALL = [profile.name for profile in PROFILES]
SOME = one_in(3, ALL)
BYTES: tuple[ElementType, ...] = ("u8", "s8")
RNG_SEED = 7


def stored_values(shape: Shape, element: ElementType, seed: int = RNG_SEED) -> Array:
    """Random ones, with both extremes."""
    low, high = RANGES[element]
    made = np.random.default_rng(seed).integers(low, high + 1, shape)
    made.reshape(-1)[:2] = (low, high)[: made.size]
    return made.astype(DTYPES[element])


@pytest.mark.matrix
@pytest.mark.parametrize("profile", ALL)
@pytest.mark.parametrize("length", [64, 300])
def test_tables_of_bytes(profile: str, length: int) -> None:
    """Each entry is another one, so that one place for another shows."""
    target, rng = host_target(profile), np.random.default_rng(RNG_SEED)
    for data, output in zip(BYTES, BYTES[::-1], strict=True):
        table = rng.permutation(256).astype(np.uint8).view(DTYPES[output])
        values = np.resize(rng.permutation(256), length).astype(np.uint8).view(DTYPES[data])
        graph = graph_of(
            Kind.LOOKUP, [value_of("data", (length,), data)], value_of("made", (length,), output), table=table
        )
        assert_operator_exact(graph, target, [values])


@pytest.mark.parametrize("threads", [1, 2])
def test_tables_of_many_bytes_on_threads(threads: int) -> None:
    length, table = 140_001, np.random.default_rng(RNG_SEED).permutation(256).astype(np.uint8)
    graph = graph_of(Kind.LOOKUP, [value_of("data", (length,), "u8")], value_of("made", (length,), "u8"), table=table)
    assert_operator_exact(graph, host_target(), [stored_values((length,), "u8")], threads)


# Rows before the axis, and each part's length of them: shorter than a vector and longer, alone, and of one value.
CONCATENATED: list[tuple[int, tuple[int, ...]]] = [
    (50, (16, 16)),
    (9, (24, 5, 64)),
    (1, (300, 1, 77)),
    (333, (1, 40)),
    (70, (3, 5, 4099)),
    (2, (1100, 257)),
    (3, (2, 1)),
]


@pytest.mark.matrix
@pytest.mark.parametrize("profile", SOME)
@pytest.mark.parametrize(("rows", "lengths"), CONCATENATED)
def test_parts_of_rows(profile: str, rows: int, lengths: tuple[int, ...]) -> None:
    """Every other part has the output's scale and is copied, and the other way round."""
    assert_concatenated(profile, rows, lengths)


def assert_concatenated(profile: str | None, rows: int, lengths: tuple[int, ...], threads: int = 1) -> None:
    for element, is_even in itertools.product(BYTES, (0, 1)):
        parts = [
            value_of(f"part{index}", (rows, length), element, 0.05 if index % 2 == is_even else 0.031, 7)
            for index, length in enumerate(lengths)
        ]
        made = value_of("made", (rows, sum(lengths)), element, 0.05, 7)
        arrays = [stored_values(each.shape, element, seed) for seed, each in enumerate(parts)]
        assert_operator_exact(graph_of(Kind.CONCAT, parts, made, axis=1), host_target(profile), arrays, threads)


def test_parts_of_rows_on_threads() -> None:
    assert_concatenated(None, 1001, (24, 40), threads=2)


@pytest.mark.parametrize("profile", SOME)
@pytest.mark.parametrize("scale", [0.05, 0.003, 0.4])
@pytest.mark.matrix(at_most=1)
def test_softmax_of_rows(profile: str, scale: float) -> None:
    """Rows that take turns, alone and with a rest; equal values, one that is far above all others, and any."""
    target = host_target(profile)
    cases: list[tuple[ElementType, Shape, int]] = [("u8", (9, 77), 1), ("s8", (1, 64), 1), ("u8", (3, 5, 130), 2)]
    for element, shape, axis in (*cases, ("s8", (9, 77, 1), 1), ("u8", (3, 70, 2), 1)):
        values = stored_values(shape, element)
        low, high = RANGES[element]
        rows = np.moveaxis(values, axis, -1)
        rows[0] = rows[0, ..., :1]
        rows[-1] = np.where(np.arange(shape[axis]) == 3, high, low)
        data = value_of("data", shape, element, scale, 11)
        for zero_point in {low, 0}:
            made = value_of("made", shape, element, 1 / 256, zero_point)
            graph = graph_of(Kind.SOFTMAX, [data], made, axis=axis, beta=1.0)
            assert_operator_exact(graph, target, [values])


@pytest.mark.parametrize("profile", SOME)
@pytest.mark.matrix(at_most=1)
def test_softmax_of_shares_that_are_ties(profile: str) -> None:
    """Rows of 1 to 197 equal largest values, each of which gets a whole number of halves in some."""
    shape = (197, 197)
    values = np.where(np.arange(shape[1]) < np.arange(1, 198)[:, np.newaxis], 200, 0).astype(np.uint8)
    for steps in (15, 21, 254, 255, 511, 765):
        made = value_of("made", shape, "u8", 1 / (steps + 0.5), 0)
        graph = graph_of(Kind.SOFTMAX, [value_of("data", shape, "u8", 2.0, 100)], made, axis=1, beta=1.0)
        assert_operator_exact(graph, host_target(profile), [values])


def test_softmax_on_threads() -> None:
    shape = (300, 197)
    values = [value_of("data", shape, "u8", 0.07, 100)], value_of("made", shape, "u8", 1 / 255, 0)
    graph = graph_of(Kind.SOFTMAX, *values, axis=1, beta=1.0)
    assert_operator_exact(graph, host_target(), [stored_values(shape, "u8")], threads=2)


MOVED: tuple[ElementType, ...] = ("u8", "f32", "s64")
TRANSPOSED: list[tuple[Shape, tuple[int, ...]]] = [
    ((1, 50, 116), (0, 2, 1)),
    ((3, 17, 2, 19), (0, 3, 2, 1)),
    ((4, 5, 70), (1, 0, 2)),
    ((2, 3, 20, 33), (3, 1, 0, 2)),
    ((6, 16, 16), (2, 0, 1)),
    ((5, 3, 4), (2, 1, 0)),
    ((40, 20, 3), (2, 1, 0)),
    ((1, 1), (1, 0)),
]


@pytest.mark.parametrize("profile", SOME)
@pytest.mark.parametrize("element", MOVED)
@pytest.mark.matrix
def test_transpositions(profile: str, element: ElementType) -> None:
    target = host_target(profile)
    for shape, order in TRANSPOSED:
        made = tuple(shape[axis] for axis in order)
        values = np.random.default_rng(RNG_SEED).integers(0, 200, shape).astype(DTYPES[element])
        output = value_of("made", made, element)
        graph = graph_of(Kind.TRANSPOSE, [value_of("data", shape, element)], output, permutation=order)
        assert_operator_exact(graph, target, [values])


def test_a_large_transposition_on_threads() -> None:
    shape, order = (1568, 116), (1, 0)
    graph = graph_of(
        Kind.TRANSPOSE, [value_of("data", shape, "u8")], value_of("made", shape[::-1], "u8"), permutation=order
    )
    assert_operator_exact(graph, host_target(), [stored_values(shape, "u8")], threads=2)


SPREAD: list[tuple[Shape, Shape]] = [
    ((1, 7, 7, 24), (1, 1, 1, 24)),
    ((2, 5, 3, 17), (2, 1, 1, 17)),
    ((1, 4, 4, 3), (1, 1, 1, 3)),
    ((5, 40), (5, 1)),
    ((3, 37), (3, 37)),
    ((2, 3, 33), (3, 1)),
]


@pytest.mark.parametrize("profile", SOME)
def test_products_spread_over_axes(profile: str) -> None:
    target = host_target(profile)
    for shape, other in SPREAD:
        inputs = [value_of("one", shape, "u8"), value_of("other", other, "u8", 0.01, 128)]
        graph = graph_of(Kind.MULTIPLY, inputs, value_of("made", shape, "u8", 0.03, 7))
        assert_operator_exact(graph, target, [stored_values(shape, "u8"), stored_values(other, "u8", 1)])


LARGE: list[Shape] = [(1, 100, 61, 24), (140_003,)]


@pytest.mark.parametrize("shape", LARGE)
def test_products_on_threads(shape: Shape) -> None:
    other = (*(1 for _ in shape[:-1]), shape[-1])
    inputs = [value_of("one", shape, "u8"), value_of("other", other, "u8", 0.01, 128)]
    graph = graph_of(Kind.MULTIPLY, inputs, value_of("made", shape, "u8", 0.03, 7))
    assert_operator_exact(graph, host_target(), [stored_values(shape, "u8"), stored_values(other, "u8", 1)], threads=2)


AXES: list[tuple[int, ...]] = [(1, 2), (1,), (0,), (2,), (0, 2)]


@pytest.mark.matrix
@pytest.mark.parametrize("profile", SOME)
@pytest.mark.parametrize("axes", AXES)
def test_means_of_axes(profile: str, axes: tuple[int, ...]) -> None:
    target = host_target(profile)
    for shape in ((2, 7, 9, 24), (1, 3, 2, 5)):
        made = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        output = value_of("made", made, "u8", 0.015, 9)
        graph = graph_of(Kind.MEAN, [value_of("data", shape, "u8")], output, axes=axes)
        assert_operator_exact(graph, target, [stored_values(shape, "u8")])


SHAPES = st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=5).map(tuple)


@given(SHAPES, st.randoms())
def test_merged_axes_move_values_in_the_same_way(shape: Shape, random: Any) -> None:
    order = random.sample(range(len(shape)), len(shape))
    values = np.arange(math.prod(shape)).reshape(shape)
    extents, ranks = merged(shape, order)
    moved = values.reshape(extents).transpose(ranks) if extents else values
    np.testing.assert_array_equal(moved.reshape(-1), values.transpose(order).reshape(-1))
    assert all(one + 1 != other for one, other in itertools.pairwise(ranks))


@given(SHAPES, st.data())
def test_axes_say_where_an_input_is_read(shape: Shape, data: st.DataObject) -> None:
    own = tuple(data.draw(st.sampled_from([1, extent])) for extent in shape)[
        data.draw(st.integers(0, len(shape) - 1)) :
    ]
    values = np.arange(math.prod(own)).reshape(own)
    axes = axes_of([own, shape], shape)
    places = [np.arange(axis.extent) * axis.strides[0] for axis in axes]
    at = sum(np.meshgrid(*places, indexing="ij"), start=np.zeros((), int))
    np.testing.assert_array_equal(values.reshape(-1)[at].reshape(-1), np.broadcast_to(values, shape).reshape(-1))

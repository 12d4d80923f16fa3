"""Pools by windows that slide over an image: the largest values, and averages by sums of integers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from int8tune.compiler.graph import ElementType, Graph, Kind
from int8tune.compiler.operator_kernels.averages import EVERY_SUM, MOST_DOUBTS, NO_SUM, averages_of
from int8tune.compiler.operator_kernels.registry import KERNELS
from int8tune.compiler.operators.pool import reference
from int8tune.compiler.program import Array
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import PROFILES, Target
from tests.support.kernels.operator_runs import Shape, assert_operator_exact, graph_of, value_of
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

pytestmark = pytest.mark.promise(1)

SOME = one_in(3, [profile.name for profile in PROFILES])
Pool = tuple[Shape, tuple[int, int], tuple[int, int], tuple[int, int, int, int]]
# Image; windows' rows and columns, and how far they are from each other; the border above, left, below, right.
POOLS: list[Pool] = [
    ((1, 7, 7, 24), (7, 7), (1, 1), (0, 0, 0, 0)),
    ((2, 6, 8, 70), (2, 2), (2, 2), (0, 0, 0, 0)),
    ((1, 5, 5, 3), (2, 3), (2, 3), (1, 1, 0, 0)),
    ((1, 9, 9, 17), (2, 2), (4, 3), (0, 1, 1, 1)),
    ((1, 6, 6, 20), (3, 3), (1, 1), (1, 1, 1, 1)),
    ((2, 5, 13, 192), (3, 3), (1, 1), (1, 1, 1, 1)),
    ((1, 9, 12, 130), (3, 3), (2, 2), (0, 1, 1, 0)),
    ((1, 4, 3, 1), (3, 3), (1, 1), (2, 2, 2, 2)),
    ((1, 8, 9, 33), (5, 4), (1, 3), (4, 3, 2, 3)),
    ((1, 2, 2, 16), (3, 5), (1, 1), (2, 4, 2, 4)),
    ((1, 1, 40, 64), (1, 8), (1, 1), (0, 7, 0, 0)),
    ((1, 1, 20, 8), (1, 65), (1, 1), (0, 64, 0, 64)),
    ((1, 2, 40, 20), (1, 40), (1, 1), (0, 39, 0, 30)),
    ((1, 7, 9, 33), (3, 2), (2, 1), (0, 0, 2, 0)),
    ((3, 7, 17, 1), (7, 3), (1, 2), (3, 1, 1, 2)),
    ((1, 20, 9, 8), (9, 8), (9, 8), (0, 0, 7, 0)),
]


def pool_of(kind: Kind, pool: Pool, element: ElementType, made: tuple[float, int] | None, include_pad: bool) -> Graph:
    """A pool; `made` has the scale and zero point of averages whose numbers are in other steps than the image's."""
    shape, kernel, stride, padding = pool
    rows, columns = (
        (shape[1 + axis] + padding[axis] + padding[2 + axis] - kernel[axis]) // stride[axis] + 1 for axis in (0, 1)
    )
    attributes = {"kernel": kernel, "stride": stride, "padding": padding, "include_pad": include_pad}
    usual = (0.0173, RANGES[element][0] + 38)
    data = value_of("data", shape, element, *usual)
    output = value_of("made", (shape[0], rows, columns, shape[3]), element, *(made or usual))
    return graph_of(kind, [data], output, **attributes)


def image_of(graph: Graph, seed: int = 7) -> Array:
    """Random values, with both extremes of the type."""
    data = graph.values[graph.operators[0].inputs[0]]
    low, high = RANGES[data.type]
    image = np.random.default_rng(seed).integers(low, high + 1, data.shape)
    image.reshape(-1)[:2] = (low, high)[: image.size]
    return image.astype({"u8": np.uint8, "s8": np.int8}[data.type])


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("profile", SOME)
def test_largest_of_windows(profile: str) -> None:
    for index, pool in enumerate(POOLS):
        graph = pool_of(Kind.MAX_POOL, pool, ("u8", "s8")[index % 2], None, False)
        assert_operator_exact(graph, host_target(profile), [image_of(graph)])


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("profile", SOME)
@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_averages_of_windows(profile: str, include_pad: bool, first: int) -> None:
    for index, pool in enumerate(POOLS[first::2]):
        element: ElementType = ("u8", "s8")[(index + include_pad) % 2]
        graph = pool_of(Kind.AVERAGE_POOL, pool, element, (0.015, 9), include_pad)
        assert_operator_exact(graph, host_target(profile), [image_of(graph)])


@pytest.mark.parametrize("kind", [Kind.MAX_POOL, Kind.AVERAGE_POOL])
@pytest.mark.parametrize("columns", [17, 64])
def test_wide_borders_are_not_written_out(kind: Kind, columns: int, native: Target) -> None:
    """LLVM took half a minute for one."""
    border = columns - 1
    graph = pool_of(kind, ((1, 1, 64, 64), (1, columns), (1, 1), (0, border, 0, border)), "u8", None, False)
    kernel = KERNELS[kind](graph, graph.operators[0], native)
    assert kernel.function.script().count("T.vectorized") < 500


@pytest.mark.parametrize("kind", [Kind.MAX_POOL, Kind.AVERAGE_POOL])
def test_rows_are_shared_among_threads(kind: Kind) -> None:
    graph = pool_of(kind, ((2, 41, 40, 48), (3, 3), (1, 1), (1, 1, 1, 1)), "u8", None, False)
    assert_operator_exact(graph, host_target(), [image_of(graph)], threads=2)


# Those of more than 64 values are no sums of 16 bits.
TAPS = (2, 4, 9, 64, 66, 67)


@pytest.mark.matrix
@pytest.mark.parametrize("element", ["u8", "s8"])
@pytest.mark.parametrize("taps", TAPS)
def test_halves_of_the_fixed_rule_go_away_from_zero(element: ElementType, taps: int) -> None:
    """Every sum that a window can have."""
    low, high = RANGES[element]
    sums = np.arange(low * taps, high * taps + 1)
    graph = pool_of(Kind.AVERAGE_POOL, ((1, 1, taps, sums.size), (1, taps), (1, 1), (0, 0, 0, 0)), element, None, False)
    graph = replace(graph, operators=tuple(replace(each, rule="fixed") for each in graph.operators))
    image = windows_of(sums, taps, element)
    assert_operator_exact(graph, host_target(), [image])


def test_averages_of_words_keep_to_bounds() -> None:
    graph = graph_of(
        Kind.AVERAGE_POOL,
        [value_of("data", (1, 4, 4, 20), "s16")],
        value_of("made", (1, 2, 2, 20), "s16"),
        kernel=(2, 2),
        stride=(2, 2),
        padding=(0, 0, 0, 0),
        include_pad=False,
    )
    graph = replace(graph, operators=tuple(replace(each, rule="fixed", clamp=(-50, 60)) for each in graph.operators))
    image = np.random.default_rng(7).integers(-1000, 1000, (1, 4, 4, 20)).astype(np.int16)
    assert_operator_exact(graph, host_target(), [image])


# Scale and zero point of averages of nine values of 0.0173 and 38; sums that become two different averages, as the
# order of the values in the window rounds, and one that does not.
DOUBTS, SURE = ((0.0063792443834245205, 128), (191, 493)), 600
WINDOWS, CHANNELS = 9216, (72, 3, 1)


def windows_of(sums: Array, taps: int, element: ElementType) -> Array:
    """Windows [1, 1, taps, N] with these sums, of values that are as unlike each other as may be."""
    rng, (low, high) = np.random.default_rng(3), RANGES[element]
    left, made = sums - low * taps, np.zeros((taps, sums.size), np.int64)
    for tap in range(taps):
        most_behind = (high - low) * (taps - 1 - tap)
        made[tap] = rng.integers(np.maximum(left - most_behind, 0), np.minimum(left, high - low) + 1)
        left = left - made[tap]
    assert not left.any()
    rng.permuted(made, axis=0, out=made)
    return (made + low).astype({"u8": np.uint8, "s8": np.int8}[element]).reshape(1, 1, taps, -1)


def doubtful(channels: int) -> tuple[Graph, Array, Array]:
    """A pool, its image, and the sums of its windows."""
    made, sums = DOUBTS
    total = np.random.default_rng(5).choice([*sums, SURE], WINDOWS)
    columns = total.size // channels
    graph = pool_of(Kind.AVERAGE_POOL, ((1, 3, 3 * columns, channels), (3, 3), (3, 3), (0, 0, 0, 0)), "u8", made, False)
    windows = windows_of(total, 9, "u8").reshape(3, 3, columns, channels).swapaxes(1, 2)
    return graph, windows.reshape(1, 3, -1, channels), total


@pytest.mark.matrix
@pytest.mark.parametrize("profile", SOME)
@pytest.mark.parametrize("channels", CHANNELS)
def test_sums_in_doubt_are_averaged_in_order(profile: str, channels: int) -> None:
    graph, image, _ = doubtful(channels)
    assert_operator_exact(graph, host_target(profile), [image])


def test_what_is_in_doubt_has_two_averages() -> None:
    graph, image, total = doubtful(CHANNELS[0])
    (operator,) = graph.operators
    data, output = graph.values["data"], graph.values["made"]
    averages = averages_of(operator, data, output)
    assert averages is not None
    assert {*averages.doubts} == {*DOUBTS[1]}
    made = reference(operator, [data], output, [image]).reshape(-1)
    assert {int(each): len({*made[total == each].tolist()}) for each in {*total}} == {191: 2, 493: 2, SURE: 1}


@pytest.mark.parametrize("seed", range(6))
def test_every_other_sum_has_one_average(seed: int) -> None:
    """Whatever a window's order: its sum times the factor, and the offset."""
    rng = np.random.default_rng(seed)
    taps, element = int(rng.integers(2, 26)), ("u8", "s8")[seed % 2]
    low, high = RANGES[element]
    made = (float(np.float32(0.0173 * rng.uniform(0.3, 1.4))), int(rng.integers(low, high + 1)))
    sums = np.repeat(np.arange(low * taps, high * taps + 1), 8)
    graph = pool_of(Kind.AVERAGE_POOL, ((1, 1, taps, sums.size), (1, taps), (1, 1), (0, 0, 0, 0)), element, made, False)
    (operator,), data, output = graph.operators, graph.values["data"], graph.values["made"]
    averages = averages_of(operator, data, output)
    if averages is None:
        averages = averages_of(operator, data, output, most=math.inf)
    assert averages is not None
    steps = np.rint(sums.astype(np.float32) * averages.factor[0] + averages.offset[0])
    expected = reference(operator, [data], output, [windows_of(sums, taps, element)]).reshape(-1)
    sure = ~np.isin(sums, averages.doubts)
    np.testing.assert_array_equal(np.clip(steps, low, high)[sure], expected[sure])
    assert sure.mean() > 0.9


@pytest.mark.matrix
@pytest.mark.parametrize("profile", SOME)
def test_windows_at_the_border_may_all_be_in_doubt(profile: str) -> None:
    """With one scale for data and output, every other average of 4 or 6 values is a tie, and none of 9."""
    graph = pool_of(Kind.AVERAGE_POOL, ((1, 20, 20, 70), (3, 3), (1, 1), (1, 1, 1, 1)), "u8", None, False)
    averages = averages_of(graph.operators[0], graph.values["data"], graph.values["made"])
    assert averages is not None
    doubts = averages.doubts.reshape(20, 20, -1)
    assert (doubts[:, 0, 0] == EVERY_SUM).all()
    assert (doubts[1:-1, 1:-1] == NO_SUM).all()
    assert_operator_exact(graph, host_target(profile), [image_of(graph)])


def test_numbers_are_rounded_before_they_are_added() -> None:
    """Every other sum is a tie here, in an image so small that LLVM sees what was stored: it made one of both."""
    pool = ((1, 2, 3, 17), (1, 3), (1, 2), (0, 1, 0, 1))
    graph = pool_of(Kind.AVERAGE_POOL, pool, "s8", (0.0136, -79), False)
    graph = graph_of(
        Kind.AVERAGE_POOL,
        [value_of("data", pool[0], "s8", 0.0136, -79)],
        graph.values["made"],
        **graph.operators[0].attributes,
    )
    for seed in range(12):
        assert_operator_exact(graph, host_target(), [image_of(graph, seed)])


def test_nothing_is_written_beside_the_output() -> None:
    """TVM's own schedule of a window's sums wrote three bytes behind these 135."""
    graph = pool_of(Kind.AVERAGE_POOL, ((3, 7, 17, 1), (7, 3), (1, 2), (3, 1, 1, 2)), "s8", None, False)
    assert averages_of(graph.operators[0], graph.values["data"], graph.values["made"]) is None
    assert_operator_exact(graph, host_target(), [image_of(graph)])


def test_many_doubts_are_no_integers() -> None:
    """In large windows, so many sums are near a tie that all are averaged as the rule says."""
    graph = pool_of(Kind.AVERAGE_POOL, ((1, 8, 8, 16), (8, 8), (8, 8), (0, 0, 0, 0)), "u8", (0.0151, 9), False)
    data, output = graph.values["data"], graph.values["made"]
    every = averages_of(graph.operators[0], data, output, most=math.inf)
    assert every is not None
    assert every.doubts_of_each > MOST_DOUBTS
    assert averages_of(graph.operators[0], data, output) is None

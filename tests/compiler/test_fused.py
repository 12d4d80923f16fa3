"""Layers of the rules `fused` and `fine`, and additions, give the outputs of the fixed rule: for every sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.compiler.rounding import fused_rounding as search
from int8tune.compiler.rounding.fine_rounding import FineRounding, fine_rounding
from int8tune.compiler.rounding.fused_rounding import FusedRounding, fused_rounding
from int8tune.compiler.rounding.fused_sum import fused_sum
from int8tune.compiler.rounding.staircases import ExactStaircase, FixedStaircase, Staircase
from int8tune.schedules.operands import Addend, quantize_addition, quantize_multiplier
from int8tune.schedules.oracle.reference import (
    add_binary32,
    add_fixed_point,
    scale_fine,
    scale_fixed_point,
    scale_fused,
)
from int8tune.schedules.target import Target
from tests.support.models.shared_models import more_model
from tests.support.run.thinned import one_in

MOST_SUM = 1 << 17
SCALES = st.floats(-14, -0.01).map(lambda exponent: 2.0**exponent)
BOUNDS = st.sampled_from([(-128, 127), (0, 255), (-128, 0), (0, 78), (-135, 120), (-3, 252)])


def staircase(scales: list[float], low: int, high: int, most: int = MOST_SUM) -> FixedStaircase:
    multiplier, shift = np.array([quantize_multiplier(scale) for scale in scales], np.int64).T
    ends = np.full(len(scales), most)
    return FixedStaircase(low, high, -ends, ends, multiplier, shift)


def exact_staircase(factors: list[float], low: int, high: int, most: int = MOST_SUM) -> ExactStaircase:
    ends = np.full(len(factors), most)
    return ExactStaircase(low, high, -ends, ends, np.array(factors))


Search = Callable[[Staircase], FusedRounding | FineRounding | None]
SEARCHES: tuple[Search, ...] = (fused_rounding, fine_rounding)


def outputs(found: FusedRounding | FineRounding, channel: int, sums: np.ndarray) -> np.ndarray:
    at = slice(channel, channel + 1)
    if isinstance(found, FineRounding):
        return scale_fine(sums, found.scale[at], found.rest[at], found.offset[at])
    is_exception = np.abs(sums) == found.exception[channel]
    return scale_fused(sums, found.scale[at], np.where(is_exception, found.exception_offset[at], found.offset[at]))


@settings(deadline=None, max_examples=20)
@given(scales=st.lists(SCALES, min_size=1, max_size=3), bounds=BOUNDS)
def test_every_sum_has_the_fixed_rules_output(scales: list[float], bounds: tuple[int, int]) -> None:
    stairs = staircase(scales, *bounds)
    compare_all_sums(stairs, fixed_of(stairs))


# Powers of two and their multiples, too: every other threshold is a tie.
@pytest.mark.thorough
@settings(deadline=None, max_examples=40)
@given(
    factors=st.lists(SCALES | st.sampled_from([0.5, 0.25, 0.125, 0.375, 2.0**-9]), min_size=1, max_size=3),
    bounds=BOUNDS,
)
def test_every_sum_has_the_output_of_a_product_in_binary64(factors: list[float], bounds: tuple[int, int]) -> None:
    def exact(channel: int, sums: np.ndarray) -> np.ndarray:
        return np.array([math.floor(abs(each) + 0.5) * (1 if each >= 0 else -1) for each in sums * factors[channel]])

    compare_all_sums(exact_staircase(factors, *bounds), exact)


@settings(deadline=None, max_examples=40)
@given(
    channels=st.lists(
        st.tuples(st.floats(-16, -0.01).map(lambda exponent: 2.0**exponent), *[st.floats(-3, 3)] * 2),
        min_size=1,
        max_size=4,
    ),
    bounds=BOUNDS,
)
def test_so_has_every_sum_of_a_channel_with_few_thresholds_or_none(
    channels: list[tuple[float, float, float]], bounds: tuple[int, int]
) -> None:
    """Channels that a network does not need have sums of outputs that do not change, or nearly none."""
    scales, *ends = zip(*channels, strict=True)
    sums = np.sort(np.rint(np.array(ends) / np.array(scales)), axis=0).astype(np.int64)
    stairs = staircase(list(scales), *bounds)
    compare_all_sums(replace(stairs, least=sums[0], most=sums[1]), fixed_of(stairs))


def test_channels_without_thresholds_are_found_beside_others() -> None:
    stairs = staircase([4.6e-7, 0.003, 4.6e-7, 4.6e-7], -114, 141)
    ends = {"least": [5_000, -9_000, -1_000_000, -300_000], "most": [1_037_095, 9_000, -500_000, 700_000]}
    stairs = replace(stairs, **{name: np.array(values) for name, values in ends.items()})
    assert fused_rounding(stairs) is not None
    compare_all_sums(stairs, fixed_of(stairs))


@pytest.mark.parametrize(
    "name", one_in(3, ["vww_int8.tflite", "resnet8_int8.tflite", "deeplabv3_mnv2_dm05_pascal_quant.tflite"])
)
def test_roundings_of_published_models_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their channels have weights and biases that nobody draws; one of VWW's was wrong for most of its sums."""
    pytest.importorskip("tflite", reason="needs the extra `models`")
    from int8tune.compiler import fused_graph
    from int8tune.compiler.tflite_reader.model import read_tflite

    made: list[tuple[Staircase, FusedRounding | FineRounding | None]] = []

    def noted(find: Search) -> Search:
        return lambda stairs: (made.append((stairs, found := find(stairs))), found)[1]

    for find in SEARCHES:
        monkeypatch.setattr(fused_graph, find.__name__, noted(find))
    fused_graph.with_fused_rules(read_tflite(more_model(name).read_bytes(), name))
    assert sum(isinstance(found, FusedRounding) for _, found in made) > len(made) / 2
    rng = np.random.default_rng(0)
    for stairs, found in made:
        if found is not None:
            compare_some_sums(stairs, found, rng)


def compare_some_sums(stairs: Staircase, found: FusedRounding | FineRounding, rng: np.random.Generator) -> None:
    least, most = stairs.least[:, None], stairs.most[:, None]
    with np.errstate(divide="ignore"):  # channels of one output may have a factor of 0
        near = (stairs.thresholds[..., None] + np.arange(-3, 3)).reshape(len(least), -1)
    sums = np.clip(np.concatenate([near, rng.integers(least, most + 1, (len(least), 500))], axis=1), least, most)
    expected = stairs.outputs(sums)
    for channel, row in enumerate(sums):
        made = np.clip(outputs(found, channel, row), stairs.low, stairs.high)
        np.testing.assert_array_equal(made, expected[channel])


def fixed_of(stairs: FixedStaircase) -> Callable[[int, np.ndarray], np.ndarray]:
    """The outputs of sums of a channel, by both roundings."""

    def fixed(channel: int, sums: np.ndarray) -> np.ndarray:
        at = slice(channel, channel + 1)
        return scale_fixed_point(sums, stairs.multiplier[at], stairs.shift[at])

    return fixed


def compare_all_sums(stairs: Staircase, expected: Callable[[int, np.ndarray], np.ndarray]) -> None:
    for found in filter(None, (find(stairs) for find in SEARCHES)):
        compare_sums_of_all(stairs, found, expected)


def compare_sums_of_all(
    stairs: Staircase, found: FusedRounding | FineRounding, expected: Callable[[int, np.ndarray], np.ndarray]
) -> None:
    for channel in range(len(stairs.least)):
        sums = np.arange(stairs.least[channel], stairs.most[channel] + 1)
        made = np.clip(outputs(found, channel, sums), stairs.low, stairs.high)
        np.testing.assert_array_equal(made, np.clip(expected(channel, sums), stairs.low, stairs.high))


def test_most_channels_are_found() -> None:
    rng = np.random.default_rng(0)
    scales = 2.0 ** rng.uniform(-10, -1, 400)
    found = [fused_rounding(staircase([scale], -128, 127)) for scale in scales]
    assert sum(each is not None for each in found) > 0.95 * len(scales)
    assert sum(each is not None and not each.has_exceptions for each in found) > 0.9 * len(scales)
    found = [fused_rounding(exact_staircase([scale], -128, 127)) for scale in scales]
    assert sum(each is not None and not each.has_exceptions for each in found) > 0.9 * len(scales)


def test_fine_roundings_are_found_where_sums_are_many() -> None:
    """Up to 2^15 of them for each output, and none of more than 24 bits: `fused` has none for most of these layers."""
    rng = np.random.default_rng(0)
    layers = [
        staircase(list(2.0 ** rng.uniform(exponent, exponent + 1, 40)), low, low + 255, 1 << 24)
        for exponent in (-15, -14, -12, -10)
        for low in (-128, 0)
    ]
    layers += [exact_staircase([2.0 ** rng.uniform(-12, -11)] * 40, -120, 135, 1 << 24) for _ in range(4)]
    assert sum(fused_rounding(layer) is None for layer in layers) > len(layers) / 2
    for layer in layers:
        found = fine_rounding(layer)
        assert found is not None
        compare_some_sums(layer, found, rng)


@pytest.mark.parametrize("scale", [2.0**-21, 1.5])
def test_scales_without_a_fine_rounding(scale: float) -> None:
    assert fine_rounding(exact_staircase([scale], -128, 127, 1 << 24)) is None


def test_outputs_that_are_all_the_same_have_no_fine_rounding() -> None:
    assert fine_rounding(staircase([0.01], 3, 3)) is None


def test_what_is_found_is_what_one_choice_after_the_other_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, tries, tried = np.random.default_rng(5), [], search._tried
    monkeypatch.setattr(search, "_tried", lambda *given: (tries.append(1), tried(*given))[1])
    layers = [staircase(list(rng.uniform(2e-4, 4e-4, count)), -128, 127, 300_000) for count in (2, 10, 20, 30, 40)]
    # Its first right choice is a late one, with an exception; others next to it have none.
    layers.append(staircase([0.00032514456893295574], -128, 127, 300_000))
    early = [fused_rounding(layer) for layer in layers]
    few, tries[:] = len(tries), []
    whole = [
        [one_after_the_other(layer.part(np.array([place]))) for place in range(len(layer.least))] for layer in layers
    ]
    assert (
        [found is None for found in early]
        == [None in each for each in whole]
        == [False, False, True, False, True, False]
    )
    for found, channels in zip(early, whole, strict=True):
        if found is not None:
            fields = (found.scale, found.offset, found.exception, found.exception_offset)
            assert list(zip(*fields, strict=True)) == channels
    assert few < len(tries) / 4


def one_after_the_other(channel: Staircase) -> tuple[np.generic, ...] | None:
    """The first choice without an exception, if that is an early one, or else the first one with one."""
    points, with_exception = search._points(channel), None
    for place in range(len(search.CHOICES)):
        found, [count] = search._tried(points, np.array([place]))
        fields = (found.scale[0], found.offset[0], found.exception[0], found.exception_offset[0])
        if count == 0:
            return fields if place < search.ENOUGH else with_exception or fields
        if count == 1 and with_exception is None:
            with_exception = fields
            if place >= search.ENOUGH:
                return fields
    return with_exception


def test_offsets_are_needed() -> None:
    """The two roundings of the fixed rule are not the one of a product: a test that they are is one that can fail."""
    stairs = staircase([0.3], -128, 127, 1000)
    sums = np.arange(-1000, 1001)
    plain = scale_fused(sums, stairs.scale.astype(np.float32), np.zeros(1, np.float32))
    fixed = scale_fixed_point(sums, stairs.multiplier, stairs.shift)
    assert (plain != fixed).any()
    assert fused_rounding(stairs) is not None


@pytest.mark.parametrize("scale", [1.5, 2.0**-30])
def test_scales_out_of_reach_are_left_alone(scale: float) -> None:
    assert fused_rounding(staircase([0.01, scale], -128, 127, 1 << 30)) is None


@pytest.mark.parametrize("find", SEARCHES)
def test_channels_that_training_made_nothing_of_are_found_beside_others(find: Search) -> None:
    """Each has one sum, or few: a bias of 2^30 and less, with a factor that is nearly 0, or is."""
    ends = np.array([[-(1 << 17), 1 << 17], [1 << 30] * 2, [-(2**30)] * 2, [2**30] * 2, [0, 0], [-9, 7], [2**20] * 2]).T
    multiplier = np.array([1374389535, *[1 << 30] * 2, 0, 1 << 30, 1 << 30, (1 << 30) + 5])
    stairs = FixedStaircase(-100, 155, *ends, multiplier, np.array([-6, -24, -23, 0, -20, -20, -13]))
    found = find(stairs)
    assert found is not None
    wanted = stairs.outputs(ends.T)
    assert wanted[1:, 0].tolist() == [32, -64, 0, 0, 0, 64]
    for channel, sums in enumerate(ends.T):
        np.testing.assert_array_equal(np.clip(outputs(found, channel, sums), -100, 155), wanted[channel])


@pytest.mark.parametrize("find", SEARCHES)
def test_a_channel_of_more_than_one_output_that_is_out_of_reach_is_left_alone(find: Search) -> None:
    stairs = staircase([0.01, 2.0**-30], -128, 127)
    ends = np.array([[-(1 << 17), 1 << 17], [-(2**30), 2**30]]).T
    assert find(replace(stairs, least=ends[0], most=ends[1])) is None


def test_outputs_that_are_all_the_same_are_left_alone() -> None:
    assert fused_rounding(staircase([0.01, 0.02], 78, 78)) is None


@settings(deadline=None, max_examples=25)
@given(own=st.floats(0.05, 4), other=st.floats(0.05, 4), zero_points=st.tuples(*[st.integers(0, 255)] * 3))
@pytest.mark.thorough
def test_every_addition_has_the_fixed_rules_sum(own: float, other: float, zero_points: tuple[int, int, int]) -> None:
    own_point, other_point, sum_point = zero_points
    multiplier, shift = quantize_addition(own, other, max(own, other))
    addend = Addend(
        data=np.empty(0, np.uint8),
        clamp_low=0,
        clamp_high=255,
        zero_point=other_point,
        sum_zero_point=sum_point,
        multiplier=multiplier,
        shift=shift,
    )
    values = np.arange(256)
    found = fused_sum(values, values, own_point, addend)
    if found is None:
        return
    one, two = (grid.ravel() for grid in np.meshgrid(values, values, indexing="ij"))
    fixed = add_fixed_point(one, two, own_point, addend)
    fused = add_binary32(
        one,
        two,
        own_point,
        Addend(addend.data, 0, 255, other_point, sum_point, ratio=found.ratio, constant=found.constant),
    )
    np.testing.assert_array_equal(np.clip(fused, 0, 255), np.clip(fixed, 0, 255))
    assert math.isfinite(found.constant[0])


def test_most_additions_are_found() -> None:
    rng, values, found = np.random.default_rng(0), np.arange(256), 0
    for own, other in rng.uniform(0.2, 2, (60, 2)):
        multiplier, shift = quantize_addition(own, other, own + other)
        points = rng.integers(0, 256, 2)
        addend = Addend(np.empty(0, np.uint8), 0, 255, int(points[0]), 128, multiplier=multiplier, shift=shift)
        found += fused_sum(values, values, int(points[1]), addend) is not None
    assert found > 48


@pytest.mark.parametrize("rule", ["fused", "fine", "fixed"])
@pytest.mark.parametrize("has_sum", [True, False])
def test_a_layer_is_fused_with_its_addition_and_an_addition_alone(
    rule: str, has_sum: bool, native: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tflite", reason="needs the extra `models`")
    from int8tune.compiler import fused_graph
    from int8tune.compiler.quantized_layers import quantized_layers
    from int8tune.compiler.tflite_reader.model import read_tflite
    from tests.support.models.compiled import assert_exact
    from tests.support.models.tflite_models import network, values_of

    if not has_sum:
        monkeypatch.setattr(fused_graph, "fused_sum", lambda *_: None)
    if rule != "fused":
        monkeypatch.setattr(fused_graph, "fused_rounding", lambda _: None)
    if rule == "fixed":
        monkeypatch.setattr(fused_graph, "fine_rounding", lambda _: None)
    graph = fused_graph.with_fused_rules(read_tflite(network(), "network"))
    rules = {name: operator.rule for operator in graph.operators for name in operator.outputs}
    assert rules["sum"] == ("fused" if has_sum else "fixed")
    assert rules["body"] == (rule if has_sum else "fixed")
    assert rules["deep"] == rule
    added = [layer.workload.key for layer in quantized_layers(graph) if layer.addition is not None]
    assert [".fused" in key for key in added] == [has_sum and rule == "fixed"]
    feeds = {"x": np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 4), np.int8)}
    ours, theirs = assert_exact(graph, native, feeds, tmp_path), values_of(network(), feeds)
    for name in ours.keys() & theirs.keys():
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)
    assert "y" in ours.keys() & theirs.keys()


@pytest.mark.parametrize(("exception", "is_one"), [(-1, False), (0, True), (3, True)])
def test_an_exception_is_the_magnitude_of_a_sum(exception: int, is_one: bool) -> None:
    found = FusedRounding(
        *(np.zeros(1, np.float32) for _ in range(2)), np.array([exception], np.int32), np.zeros(1, np.float32)
    )
    assert found.has_exceptions == is_one
    assert ("exception" in found.operands()) == is_one

"""Laws of config spaces, and of the tile sizes that fill them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.schedules.errors import ConfigError
from int8tune.schedules.registry import templates_for
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.target import PROFILES
from int8tune.schedules.tiles import filled_lanes, nearest_tile, tile_sizes
from int8tune.schedules.workload import parse_workload
from tests.support.run.probes import any_target

lawful = settings(derandomize=True, deadline=None, max_examples=100)

KNOBS = (Knob("rows", (1, 2, 4, 8)), Knob("order", ("image", "weights")), Knob("copy", (False, True)))
SMALL = ConfigSpace(
    KNOBS,
    {"rows": 2, "order": "image", "copy": False},
    (Constraint("copies have at most 4 rows", lambda config: not config["copy"] or int(config["rows"]) <= 4),),
)


@st.composite
def spaces(draw: st.DrawFn) -> ConfigSpace:
    """Up to four knobs, and perhaps a limit on the product of their positions."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    kinds = draw(st.lists(st.sampled_from(["int", "str", "bool"]), min_size=len(sizes), max_size=len(sizes)))
    choices: dict[str, tuple[Value, ...]] = {}
    for number, (size, kind) in enumerate(zip(sizes, kinds, strict=True)):
        values: dict[str, tuple[Value, ...]] = {
            "int": tuple(2**at for at in range(size)),
            "str": tuple("abcde"[:size]),
            "bool": (False, True),
        }
        choices[f"knob{number}"] = values[kind]
    limit = draw(st.integers(0, sum(sizes)))

    def within(config: Mapping[str, Value]) -> bool:
        return sum(values.index(config[name]) for name, values in choices.items()) <= limit

    knobs = tuple(Knob(name, values) for name, values in choices.items())
    default = {name: values[0] for name, values in choices.items()}
    return ConfigSpace(knobs, default, (Constraint(f"positions sum to {limit} at most", within),))


@lawful
@given(spaces())
def test_at_and_index_are_inverse(space: ConfigSpace) -> None:
    for config in space:
        assert space.at(space.index(config)) == config
    assert [space.index(config) for config in space] == sorted({space.index(config) for config in space})


@lawful
@given(spaces())
def test_enumeration_is_all_valid_points_of_the_grid(space: ConfigSpace) -> None:
    grid = [space.at(index) for index in range(space.grid_size)]
    assert len({tuple(point.items()) for point in grid}) == space.grid_size
    assert list(space) == [point for point in grid if space.fault(point) is None]
    assert space.size == len(list(space)) >= 1


@lawful
@given(spaces(), st.integers(0, 700))
def test_sizes_are_counted_up_to_what_is_asked_for(space: ConfigSpace, most: int) -> None:
    assert space.size_up_to(most) == min(len(list(space)), most)
    # Also where all have been counted before.
    assert space.size_up_to(most) == min(space.size, most)


@lawful
@given(spaces(), st.integers(0, 2**32))
def test_samples_and_neighbours_are_valid(space: ConfigSpace, seed: int) -> None:
    config = space.sample(np.random.default_rng(seed))
    assert space.fault(config) is None
    for near in space.neighbours(config):
        assert space.fault(near) is None
        assert sum(near[name] != config[name] for name in config) == 1
        assert config in space.neighbours(near)


def test_index_counts_the_last_knob_fastest() -> None:
    assert SMALL.at(0) == {"rows": 1, "order": "image", "copy": False}
    assert SMALL.at(1) == {"rows": 1, "order": "image", "copy": True}
    assert SMALL.at(2) == {"rows": 1, "order": "weights", "copy": False}
    assert (SMALL.grid_size, SMALL.size) == (16, 14)


def test_neighbours_are_one_step_away_in_one_knob() -> None:
    assert SMALL.neighbours({"rows": 4, "order": "image", "copy": True}) == [
        {"rows": 2, "order": "image", "copy": True},
        {"rows": 4, "order": "weights", "copy": True},
        {"rows": 4, "order": "image", "copy": False},
    ]


def test_samples_reach_every_config_about_equally() -> None:
    rng = np.random.default_rng(0)
    counts = np.zeros(SMALL.grid_size, int)
    for _ in range(1400):
        counts[SMALL.index(SMALL.sample(rng))] += 1
    drawn = counts[counts > 0]
    assert len(drawn) == SMALL.size
    assert drawn.min() > 50
    assert drawn.max() < 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 3}, "knob `rows` must be one of 1, 2, 4, 8: 3"),
        ({"rows": "2"}, "knob `rows` must be one of 1, 2, 4, 8: 2"),
        ({"rows": True}, "knob `rows` must be one of 1, 2, 4, 8: True"),
        ({"copy": 1}, "knob `copy` must be one of False, True: 1"),
        ({"colour": "red"}, "unknown knob `colour`, known: copy, order, rows"),
        ({"rows": 8, "copy": True}, "constraint broken: copies have at most 4 rows"),
    ],
)
def test_a_fault_says_what_is_wrong(change: Config, message: str) -> None:
    config = {**SMALL.default, **change}
    assert SMALL.fault(config) == message
    for refused in (SMALL.check, SMALL.index, SMALL.neighbours):
        with pytest.raises(ConfigError, match=r"^.+$") as caught:
            refused(config)
        assert str(caught.value) == message


def test_a_missing_knob_is_a_fault() -> None:
    assert SMALL.fault({"rows": 1, "copy": False}) == "knob `order` is missing"


# `SMALL` with a knob that came within a version, and one that came with version 2.
LATER = replace(
    SMALL,
    knobs=(*KNOBS, Knob("fetch", ("demand", "ahead"), before="demand"), Knob("parts", (1, 2), before=1, since=2)),
)
OLD = {"rows": 4, "order": "image", "copy": True}


def test_a_config_from_before_a_knob_means_what_the_knob_was_before() -> None:
    whole = {**OLD, "fetch": "demand", "parts": 1}
    assert LATER.fault(OLD) is None
    assert LATER.check(OLD) == LATER.completed(OLD) == whole
    assert LATER.completed({**OLD, "fetch": "ahead"}) == {**OLD, "fetch": "ahead", "parts": 1}
    assert LATER.index(OLD) == LATER.index(whole)
    assert LATER.at(LATER.index(OLD)) == whole
    assert LATER.neighbours(OLD) == LATER.neighbours(whole)
    assert LATER.default == {**SMALL.default, "fetch": "demand", "parts": 1}
    assert LATER.fault({"rows": 4, "copy": True}) == "knob `order` is missing"


def test_a_knob_is_not_written_where_records_from_before_it_lack_it() -> None:
    assert LATER.written({**OLD, "fetch": "demand", "parts": 1}) == {**OLD, "parts": 1}
    assert LATER.written({**OLD, "fetch": "ahead", "parts": 2}) == {**OLD, "fetch": "ahead", "parts": 2}
    for config in LATER:
        assert LATER.completed(LATER.written(config)) == config


@pytest.mark.parametrize("before", [3, True, "1"])
def test_what_a_knob_was_before_is_one_of_its_choices(before: Value) -> None:
    with pytest.raises(ConfigError, match="knob `rows` must have had one of its choices before, 1, 2: "):
        Knob("rows", (1, 2), before=before)


@pytest.mark.parametrize("index", [-1, 16])
def test_an_index_outside_the_grid_is_refused(index: int) -> None:
    with pytest.raises(ConfigError, match=f"index out of range 0 to 15: {index}"):
        SMALL.at(index)


@pytest.mark.parametrize("choices", [(), (1, 2, 1)])
def test_a_knob_needs_choices_each_once(choices: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="knob `rows` needs choices, each once"):
        Knob("rows", choices)


def test_a_default_outside_the_space_is_refused() -> None:
    with pytest.raises(ConfigError, match="the default is not in the space: knob `rows` must be"):
        ConfigSpace(KNOBS, {"rows": 5, "order": "image", "copy": False})


@lawful
@given(st.integers(1, 3000), st.integers(1, 64))
def test_tile_sizes_are_the_smallest_for_their_count(extent: int, largest: int) -> None:
    sizes = tile_sizes(extent, largest)
    counts = [math.ceil(extent / size) for size in sizes]
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] == 1
    assert sizes[-1] <= min(extent, largest)
    assert len(set(counts)) == len(counts)
    assert set(counts) == {math.ceil(extent / size) for size in range(1, largest + 1)}
    for size, count in zip(sizes[1:], counts[1:], strict=True):
        assert math.ceil(extent / (size - 1)) > count


def test_tile_sizes_of_usual_widths() -> None:
    assert tile_sizes(56, 28) == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 19, 28)
    assert tile_sizes(7, 28) == (1, 2, 3, 4, 7)
    assert tile_sizes(1, 28) == (1,)


@lawful
@given(st.lists(st.integers(1, 100), min_size=1, unique=True), st.integers(1, 100))
def test_nearest_tile_is_nearest(sizes: list[int], wanted: int) -> None:
    nearest = nearest_tile(sizes, wanted)
    assert nearest in sizes
    assert all(abs(nearest - wanted) <= abs(size - wanted) for size in sizes)
    assert wanted - abs(nearest - wanted) not in sizes or nearest <= wanted


@lawful
@given(st.integers(0, 6), st.integers(1, 200))
def test_filled_lanes_are_the_widest_that_the_channels_fill(exponent: int, channels: int) -> None:
    most = 2**exponent
    lanes = filled_lanes(most, channels)
    assert lanes <= channels
    assert math.log2(lanes).is_integer()
    assert lanes == most or 2 * lanes > channels


@pytest.mark.parametrize(
    "key",
    [
        "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8",
        "conv2d-s8s8-1x224x224x3-k7x7x64-s2-p3-float.c-s8",
        "dwconv2d-u8s8-1x112x112x64-k3x3x1-s2-p0.0.1.1-float.c-u8",
        "dense-u8s8-1x1024-o1000-float.c-u8",
        "dense-u8s8-128x768-o3072-s32",
    ],
)
@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
@pytest.mark.matrix
def test_spaces_of_templates_are_worth_a_search_and_have_finite_features(key: str, profile: str) -> None:
    workload, target = parse_workload(key), any_target(profile)
    for template in templates_for(workload, target):
        space = template.space(workload, target)
        assert 10 <= space.size <= 10_000
        names = set(space.features(space.default))
        for config in space:
            features = space.features(config)
            assert set(features) == names
            assert all(math.isfinite(value) and value >= 0 for value in features.values())

"""Rows whose last tile is narrower than the others: exact, and nothing is computed twice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from int8tune.schedules.registry import template_named
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.x86.conv_form import ConvForm
from tests.support.kernels.guarded_memory import check
from tests.support.kernels.kernels import build
from tests.support.run.probes import any_target, host_target
from tests.support.run.thinned import one_in

TEMPLATE = template_named("x86.conv")
# Borders that are skipped, copied and gathered; a residual; images of one row; 1, 2 and 4 columns of the last tile.
LAYERS = (
    ("conv2d-u8s8-2x5x17x32-k1x7x32-s1-p0.3.0.3-float.c-u8", {"tile_columns": 6}),
    ("conv2d-u8s8-1x9x7x16-k3x3x32-s1-p1-float.c-u8", {"tile_columns": 3, "border": "copy"}),
    ("conv2d-s8s8-1x9x13x8-k3x3x48-s1-p1-fixed.c-addu8-s8", {"tile_columns": 2}),
    ("conv2d-u8s8-1x7x19x3-k3x3x16-s2-p1-float.c-u8", {"tile_columns": 4, "border": "gather"}),
    ("conv2d-u8u8-1x6x7x24-k1x1x32-s1-p0-wz-float.t-u8", {"tile_columns": 4}),
    ("dense-u8s8-7x64-o48-s32", {"tile_columns": 4}),
)
FORMS: list[Mapping[str, Value]] = [
    {"store": "after", "outer": "weights"},
    {"store": "after", "outer": "image"},
    {"store": "beside", "outer": "weights"},
    {"store": "beside", "outer": "image"},
]


def space_of(key: str) -> ConfigSpace:
    return TEMPLATE.space(parse_workload(key), any_target("x86-avx512vnni"))


@pytest.mark.matrix
@pytest.mark.parametrize("profile", ["x86-avx512vnni", "x86-avx2"])
@pytest.mark.parametrize("form", one_in(2, FORMS), ids=str)
@pytest.mark.parametrize(("key", "knobs"), LAYERS)
def test_they_are_exact_and_stay_inside_their_arrays(
    key: str, knobs: Mapping[str, Value], form: Mapping[str, Value], profile: str
) -> None:
    workload, target = parse_workload(key), host_target(profile)
    space = TEMPLATE.space(workload, target)
    config = {**space.default, "tile_registers": 1, "fetch": "demand", **knobs, **form, "last_tile": "narrower"}
    if space.fault(config):
        config["store"] = "after"
    kernel = build(workload, target, config, TEMPLATE)
    assert kernel.wrong_cases() == []
    check(workload, kernel, str(config))


@pytest.mark.parametrize(("key", "knobs"), LAYERS)
def test_each_column_is_computed_once(key: str, knobs: Mapping[str, Value]) -> None:
    space = space_of(key)
    usual = {**space.default, "tile_registers": 1, "fetch": "demand", "store": "after"}
    config = {**usual, **knobs, "last_tile": "narrower"}
    layout = TEMPLATE.apply(parse_workload(key), any_target("x86-avx512vnni"), config).layout
    assert isinstance(layout, ConvForm)
    step = layout.tile_columns
    columns = [
        start + column
        for tiles in layout.column_tiles
        for start in range(tiles.first, tiles.first + tiles.count * step, step)
        for column in range(tiles.width)
    ]
    assert columns == list(range(layout.output[1]))


def test_tiles_that_divide_a_row_have_no_narrower_one() -> None:
    space = space_of("conv2d-u8s8-1x7x9x64-k3x3x64-s1-p1-float.c-u8")
    fault = space.fault({**space.default, "tile_columns": 3, "tile_registers": 1, "last_tile": "narrower"})
    assert fault == "constraint broken: the last tile of a row is narrower where tiles do not divide it"

"""Kernels that fetch weights before they need them fetch all of those that come next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import tvm
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.registry import template_named
from int8tune.schedules.space import Value
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.written import fetching
from int8tune.schedules.x86.conv_form import ConvForm
from int8tune.schedules.x86.grouped_form import GroupedForm
from tests.support.kernels.kernels import Built, build
from tests.support.run.probes import VECTOR_PROFILES, any_target, host_target

LINE = fetching.CACHE_LINE_BYTES
FETCHED = "int8tune.tests.fetched"
# Few lines a tile and many; borders that are skipped, tiles that wait, groups, images of one row, and odd numbers.
CONVS: list[tuple[str, Mapping[str, Value]]] = [
    ("conv2d-u8s8-1x7x7x64-k3x3x64-s1-p1-float.c-u8", {"tile_columns": 7, "tile_registers": 1}),
    ("conv2d-u8s8-1x2x3x256-k3x3x64-s1-p1-float.c-u8", {"tile_columns": 1, "tile_registers": 2, "unroll": 4}),
    ("conv2d-u8s8-1x5x5x64-k5x5x48-s2-p2-float.c-u8", {"tile_columns": 3, "tile_registers": 1, "store": "beside"}),
    ("conv2d-u8s8-2x9x9x12-k3x3x72-s1-p1-g2-float.c-u8", {"tile_columns": 5, "tile_registers": 1}),
    ("conv2d-s8s8-1x6x6x96-k1x1x160-s1-p0-fixed.c-s8", {"tile_columns": 6, "tile_registers": 1}),
    ("dense-u8s8-3x300-o100-float.c-u8", {"tile_columns": 3, "tile_registers": 1}),
]
GROUPED: list[tuple[str, Mapping[str, Value]]] = [
    ("conv2d-u8s8-1x7x7x256-k3x3x256-s1-p1-g8-float.c-u8", {"tile_columns": 2}),
    ("conv2d-u8s8-1x4x5x96-k3x3x192-s1-p1-g24-float.c-u8", {"tile_columns": 1}),
]
CASES = [("x86.conv", *each) for each in CONVS] + [("x86.grouped", *each) for each in GROUPED]


def built(template: str, key: str, knobs: Mapping[str, Value], profile: str) -> Built:
    workload, target = parse_workload(key), host_target(profile)
    default = template_named(template).space(workload, target).default
    usual = {"last_tile": "overlapping"} if "last_tile" in default else {}
    config = {**default, **usual, "outer": "weights", "fetch": "next", **knobs}
    return build(workload, target, config, template_named(template))


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("profile", [profile for profile in VECTOR_PROFILES if profile != "x86-avxvnni"])
@pytest.mark.parametrize(("template", "key", "knobs"), CASES)
def test_all_blocks_but_the_first_are_fetched(
    template: str, key: str, knobs: Mapping[str, Value], profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []
    tvm.register_global_func(FETCHED, lambda at: fetched.append(int(at)), override=True)

    def noted(_buffer: Any, at: Any) -> None:
        T.evaluate(T.call_packed(FETCHED, T.cast(at, "int64")))

    monkeypatch.setattr(fetching, "prefetch", noted)
    kernel = built(template, key, knobs, profile)
    form = kernel.kernel.layout
    assert isinstance(form, ConvForm | GroupedForm)
    assert kernel.wrong_cases() == []
    bytes_of_all = form.blocks * form.block_bytes
    wanted = set(range(-(-form.block_bytes // LINE), bytes_of_all // LINE))
    assert wanted <= {at // LINE for at in fetched}


@pytest.mark.parametrize("template", ["x86.conv", "x86.grouped"])
def test_an_image_outside_has_no_next_block(template: str) -> None:
    workload = parse_workload("conv2d-u8s8-1x7x7x256-k3x3x256-s1-p1-g8-float.c-u8")
    space = template_named(template).space(workload, any_target("x86-avx512vnni"))
    fault = space.fault({**space.default, "outer": "image", "fetch": "next"})
    assert fault == "constraint broken: there is a next block of weights, as these are outside and have several"
    assert space.fault({**space.default, "outer": "image", "fetch": "demand"}) is None

"""The x86 convolution on each instruction set, and dot products that must not pass for exact."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics.x86_vectors import VECTORS, Avx2, call
from int8tune.schedules.space import Value
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.x86.conv import ConvX86
from tests.support.kernels.kernels import build
from tests.support.kernels.layers import workloads
from tests.support.run.probes import VECTOR_PROFILES, any_target, host_target

TEMPLATE = ConvX86()
# Taps that fill dot products and taps that don't, in groups, too.
BORDERS = {
    "conv2d-u8u8-1x5x6x8-k3x3x12-s1-p1-wz-float.c-u8": {"skip", "copy"},
    "conv2d-s8s8-2x7x5x7-k3x3x17-s2-p1-fixed.c-s8": {"copy", "gather"},
    "conv2d-u8s8-1x6x5x9-k3x1x18-s1-p1.0.1.0-g3-float.c-u8": {"copy"},
}
# Layers to which kernels with narrow sums are given.
NARROW = (
    "conv2d-u8u8-1x6x11x12-k3x3x40-s1-p1-wz-float.c-clamp-u8",
    "conv2d-s8s8-1x6x5x12-k3x3x40-s1-p1-fixed.c-clamp-s8",
    "dense-u8s8-7x64-o48-float.c-u8",
    "dense-u8s8-7x64-o48-s32",
)
few = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.thorough
@pytest.mark.parametrize("profile", VECTOR_PROFILES)
@few
@given(workload=st.sampled_from(["conv2d", "conv2d", "dense"]).flatmap(workloads), seed=st.integers(0, 2**16))
def test_drawn_layers_and_configs_are_exact(profile: str, workload: Any, seed: int) -> None:
    target = host_target(profile)
    config = TEMPLATE.space(workload, target).sample(np.random.default_rng(seed))
    assert build(workload, target, config, TEMPLATE).wrong_cases() == []


@pytest.mark.matrix
@pytest.mark.parametrize("profile", VECTOR_PROFILES)
@pytest.mark.parametrize("key", BORDERS)
def test_every_way_to_treat_the_border_is_exact(profile: str, key: str) -> None:
    workload, target = parse_workload(key), host_target(profile)
    space = TEMPLATE.space(workload, target)
    configs = {config["border"]: config for config in space}
    assert set(configs) == BORDERS[key]
    for config in configs.values():
        assert build(workload, target, config, TEMPLATE).wrong_cases() == []


class Narrow(Avx2):
    """Sums two products in 16 bits first, as VPMADDUBSW does, and so is wrong for large ones."""

    def multiply_add(self, total: Any, data: Sequence[Any], weight: Sequence[Any]) -> Any:
        even, odd = (a * w for a, w in zip(data, weight, strict=True))  # u8 times s8 fits 16 bits
        ones = T.broadcast(T.int16(1), 16)
        return total + call("llvm.x86.avx2.pmadd.wd", "int32x8", self.sum_of_two(even, odd), ones)

    def sum_of_two(self, even: Any, odd: Any) -> Any:
        raise NotImplementedError


class Saturating(Narrow):
    def sum_of_two(self, even: Any, odd: Any) -> Any:
        return self.add_saturated_16(even, odd)


class Wrapping(Narrow):
    def sum_of_two(self, even: Any, odd: Any) -> Any:
        return even + odd


@pytest.mark.parametrize("key", NARROW)
def test_the_kernels_are_exact_with_the_right_dot_product(key: str) -> None:
    assert build(parse_workload(key), host_target("x86-avx2"), template=TEMPLATE).wrong_cases() == []


@pytest.mark.matrix
@pytest.mark.parametrize("vectors", [Saturating(), Wrapping()], ids=["saturating", "wrapping"])
@pytest.mark.parametrize("key", NARROW)
def test_sums_of_two_products_in_16_bits_are_caught(vectors: Avx2, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VECTORS, "x86-avx2", vectors)
    assert build(parse_workload(key), host_target("x86-avx2"), template=TEMPLATE).wrong_cases() != []


def test_sums_are_in_registers() -> None:
    """What TVM takes from its heap, LLVM stores to, tile after tile."""
    config = {"tile_columns": 9, "tile_registers": 3, "store": "after"}
    assert "AllocWorkspace" not in conv_assembly("conv2d-u8s8-1x9x9x64-k1x1x48-s1-p0-float.c-u8", config)


def test_a_tile_is_stored_between_the_dot_products_of_the_next() -> None:
    config = {"tile_columns": 3, "tile_registers": 4}
    after, beside = (
        conv_assembly("conv2d-u8s8-1x9x9x128-k1x1x64-s1-p0-float.c-u8", {**config, "store": store})
        for store in ("after", "beside")
    )
    pattern = r"vpdpbusd|vpackuswb"
    assert len(list(itertools.groupby(re.findall(pattern, after)))) == 2
    assert len(list(itertools.groupby(re.findall(pattern, beside)))) > 2


def conv_assembly(key: str, config: Mapping[str, Value]) -> str:
    workload, target = parse_workload(key), host_target("x86-avx512vnni")
    return build(workload, target, {**TEMPLATE.space(workload, target).default, **config}, TEMPLATE).assembly


@pytest.mark.parametrize(("kernel", "fetch"), [(2, "demand"), (4, "ahead")])
def test_weights_that_are_used_once_are_fetched_ahead_where_they_are_many(kernel: int, fetch: str) -> None:
    target = any_target("x86-avx512vnni")
    workload = parse_workload(f"conv2d-u8s8-1x{kernel}x{kernel}x512-k{kernel}x{kernel}x512-s1-p0-float.c-u8")
    assert ConvX86().space(workload, target).default["fetch"] == fetch

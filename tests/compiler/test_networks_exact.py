"""Every layer of the networks that come with the package is taken by a template, builds, and is exact."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from int8tune.compiler.network_file import load_network, network_names
from int8tune.schedules.operands import Operands
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.workload import parse_workload
from tests.support.kernels.kernels import Array, build
from tests.support.run.probes import host_target

PROFILES = ("x86-amx", "x86-avx512vnni", "generic")
# Small ones: a first convolution, a 3x3, a 1x1, depthwise of stride 1 and 2, and a classifier.
SAMPLE = (
    "conv2d-u8s8-1x224x224x3-k3x3x32-s2-p0.0.1.1-float.c-u8",
    "conv2d-u8s8-1x14x14x24-k3x3x64-s1-p1-float.c-u8",
    "conv2d-u8s8-1x7x7x832-k1x1x32-s1-p0-float.c-u8",
    "dwconv2d-u8s8-1x7x7x960-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x14x14x512-k3x3x1-s2-p0.0.1.1-float.c-u8",
    "dense-u8s8-1x512-o1000-float.c-u8",
)


def all_layers() -> tuple[str, ...]:
    return tuple({layer.workload.key: None for name in network_names() for layer in load_network(name).layers})


@functools.lru_cache(maxsize=1)  # the next test has another profile and the same layer
def suite(key: str) -> list[tuple[str, Operands, Array]]:
    workload = parse_workload(key)
    cases = adversarial_operands(workload, 0)
    return [(name, operands, reference(workload, operands)) for name, operands in cases]


def wrong_cases(key: str, profile: str) -> list[str]:
    built = build(parse_workload(key), host_target(profile))
    return [
        name
        for name, operands, expected in suite(key)
        if not np.array_equal(built.run(operands, np.invert(expected)), expected)
    ]


@pytest.mark.matrix
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("key", SAMPLE)
def test_small_layers_of_each_kind_are_exact(key: str, profile: str) -> None:
    assert wrong_cases(key, profile) == []


def test_the_sample_is_of_the_networks() -> None:
    assert set(SAMPLE) <= set(all_layers())


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("key", all_layers())
def test_all_layers_are_exact(key: str, profile: str) -> None:
    assert wrong_cases(key, profile) == []

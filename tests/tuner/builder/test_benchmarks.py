"""What a build costs: `pytest -k "benchmark or speed or overhead" --benchmark-enable`, and what keeps it cheap."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.schedules.lowering import SIMPLIFIED
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.builder.compile import link
from tests.support.kernels.kernels import build
from tests.support.kernels.layers import PLAIN
from tests.support.run.probes import any_target
from tests.support.run.thinned import one_in

CONV = "conv2d-u8s8-1x28x28x144-k1x1x32-s1-p0-float.c-u8"
DEPTHWISE = "dwconv2d-u8s8-1x28x28x192-k3x3x1-s1-p1-float.c-u8"


@pytest.mark.benchmark(group="build")
@pytest.mark.parametrize("key", [CONV, DEPTHWISE], ids=["conv", "depthwise"])
def test_benchmark_build(key: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """From a config to a library, for a profile that any machine builds for."""
    workload, target = parse_workload(key), any_target("x86-avx512vnni")
    template = template_for(workload, target)
    config = template.space(workload, target).default

    def from_config() -> None:
        link(template.apply(workload, target, config).function, target, tmp_path / "kernel.so")

    benchmark.pedantic(from_config, rounds=5, warmup_rounds=1)  # type: ignore[no-untyped-call]
    assert [file.name for file in tmp_path.iterdir()] == ["kernel.so"]


@pytest.mark.parametrize("key", one_in(3, PLAIN.values()))
def test_kernels_have_no_code_that_checks_their_arguments(key: str, generic: Target) -> None:
    assert "TVMFFIErrorSetRaised" not in build(parse_workload(key), generic).assembly


def test_depthwise_kernels_bind_what_they_use_more_than_once() -> None:
    """The address of a load is a variable and a constant: TVM's passes for expressions are skipped."""
    workload, target = parse_workload(DEPTHWISE), any_target("x86-avx512vnni")
    template = template_for(workload, target)
    function = template.apply(workload, target, template.space(workload, target).default).function
    assert SIMPLIFIED in function.attrs
    loads = [line for line in function.script().splitlines() if "= data[" in line or "= weight[" in line]
    assert len(loads) > 100
    assert all(line.count("*") == 0 for line in loads)

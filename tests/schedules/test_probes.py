"""The kernels that measure the device: exact, and with nothing in their loops but what they measure."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm

import int8tune.schedules.probes
from int8tune.schedules.arm.peak_kernel import PEAK_CHAINS
from int8tune.schedules.probes import (
    DOT_RESERVE,
    PEAK_STEPS,
    TILE_CHAINS,
    TILE_STEPS,
    Probe,
    bandwidth_probe,
    peak_probe,
)
from int8tune.schedules.target import PROFILES, Target
from int8tune.schedules.x86.registers import REGISTERS
from tests.support.kernels.emulated_arm import CPUS, is_native, run_kernel
from tests.support.kernels.kernels import compile_function
from tests.support.run.probes import ARM_PROFILES, VECTOR_PROFILES, any_target, host_target

DOTS = r"\s(?:\{vex\}\s)?(vpdpbusd|vpmaddwd)\s"


def is_exact(probe: Probe, target: Target) -> bool:
    compiled, junk = compile_function(probe.function, target), np.full_like(probe.expected, -1)
    if target.profile in ARM_PROFILES and not is_native():
        return np.array_equal(run_kernel(compiled, CPUS[target.profile], [(*probe.inputs, junk)])[0], probe.expected)
    out = tvm.runtime.tensor(junk)
    compiled.jit()["main"](*map(tvm.runtime.tensor, probe.inputs), out)
    return np.array_equal(out.numpy(), probe.expected)


@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
def test_peak_probes_are_exact(profile: str) -> None:
    target = host_target(profile)
    assert is_exact(peak_probe(target), target)


@pytest.mark.parametrize("size_bytes", [1, 10_000])
@pytest.mark.parametrize("profile", [profile.name for profile in PROFILES])
def test_bandwidth_probes_are_exact(profile: str, size_bytes: int) -> None:
    target = host_target(profile)
    assert is_exact(bandwidth_probe(target, size_bytes), target)


@pytest.mark.parametrize("profile", ["x86-avx512vnni", "x86-avx2", "generic"])
def test_what_is_mostly_zeros_is_exact_too(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8tune.schedules.probes, "MOST_DENSE_BYTES", 10_000)
    monkeypatch.setattr(int8tune.schedules.probes, "BYTES_PER_ROW", 5_000)
    target = host_target(profile)
    probe = bandwidth_probe(target, 40_000)
    rows = probe.inputs[0].reshape(-1, probe.expected.size)
    (marked,) = np.nonzero(rows.any(axis=1))
    assert {0, len(rows) - 1} <= set(marked)
    assert len(marked) < len(rows) / 2
    assert probe.expected.all()
    assert is_exact(probe, target)


@pytest.mark.parametrize("profile", VECTOR_PROFILES)
def test_the_loop_of_an_x86_peak_has_all_operands_in_registers(profile: str) -> None:
    target, registers = any_target(profile), REGISTERS[profile]
    probe = peak_probe(target)
    lines = compile_function(probe.function, target).mod.inspect_source("asm").splitlines()
    dots = [number for number, line in enumerate(lines) if re.search(DOTS, line)]
    chains = registers.count - DOT_RESERVE
    assert len(dots) % (chains * registers.parts) == 0
    assert [line for line in lines[dots[0] : dots[-1] + 1] if "(" in line] == []
    assert probe.work == 2 * PEAK_STEPS * chains * 4 * registers.lanes


def test_the_loop_of_the_amx_peak_only_multiplies() -> None:
    target = any_target("x86-amx")
    probe = peak_probe(target)
    lines = compile_function(probe.function, target).mod.inspect_source("asm").splitlines()
    products = [number for number, line in enumerate(lines) if "tdpbusd" in line]
    assert len(products) % TILE_CHAINS == 0
    assert [line for line in lines[products[0] : products[-1] + 1] if "(" in line] == []
    assert probe.work == 2 * TILE_STEPS * TILE_CHAINS * 16 * 16 * 64


@pytest.mark.parametrize(("profile", "products"), [("arm-neon", r"\ssmlal2\s"), ("arm-dotprod", r"\ssdot\s")])
def test_the_loop_of_an_arm_peak_has_all_operands_in_registers(profile: str, products: str) -> None:
    target = any_target(profile)
    probe = peak_probe(target)
    lines = compile_function(probe.function, target).mod.inspect_source("asm").splitlines()
    found = [number for number, line in enumerate(lines) if re.search(products, line)]
    assert len(found) % PEAK_CHAINS == 0
    assert [line for line in lines[found[0] : found[-1] + 1] if "[" in line] == []
    assert probe.work == 2 * PEAK_STEPS * PEAK_CHAINS * 16

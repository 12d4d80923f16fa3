"""The loops that measure a GPU: exact on an emulated one, with nothing but products in their machine code's loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.toolchain import nvrtc
from int8tune.compiler.toolchain.gpu_library import cuda_source
from int8tune.schedules import probes
from int8tune.schedules.gpus import GPUS, Gpu
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.probes import Probe, bandwidth_probe, gpu_group_probe, gpu_peak_probe, peak_probe
from int8tune.schedules.target import Target, gpu_target
from tests.support.gpu import binaries as gpu_binaries
from tests.support.gpu import emulated as emulated_gpus
from tests.support.run.thinned import one_in

TARGETS = [gpu_target(gpu.profile) for gpu in GPUS]
needs_emulated = pytest.mark.usefixtures("emulated_gpu")
needs_binaries = pytest.mark.skipif(gpu_binaries.missing() is not None, reason=str(gpu_binaries.missing()))


def small(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> Gpu:
    monkeypatch.setattr(probes, "GPU_STEPS", 8)
    return replace(gpu, multiprocessors=1)


def is_exact(probe: Probe, target: Target) -> bool:
    entry = emulated_gpus.load_kernel(compile_function(probe.function, target))
    junk = np.full_like(probe.expected, -1)
    return np.array_equal(emulated_gpus.run_kernel(entry, (*probe.inputs, junk)), probe.expected)


@needs_emulated
@pytest.mark.matrix
@pytest.mark.parametrize("by_matrices", [True, False])
@pytest.mark.parametrize("profile", ["cuda-sm75", "cuda-sm90"])
def test_peaks_are_exact(profile: str, by_matrices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = gpu_target(profile)
    assert target.gpu is not None
    assert is_exact(gpu_peak_probe(small(monkeypatch, target.gpu), by_matrices=by_matrices), target)


@pytest.mark.thorough
@needs_emulated
@pytest.mark.parametrize("size_bytes", [1, 20_000, 9_000_000])
def test_reading_is_exact(size_bytes: int) -> None:
    target = gpu_target("cuda-sm80")
    assert is_exact(bandwidth_probe(target, size_bytes), target)


@needs_emulated
def test_reading_what_is_mostly_zeros_is_exact_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("int8tune.schedules.probes.MOST_DENSE_BYTES", 1 << 20)
    monkeypatch.setattr("int8tune.schedules.probes.BYTES_PER_ROW", 1 << 22)
    target = gpu_target("cuda-sm80")
    probe = bandwidth_probe(target, 9_000_000)
    assert probe.inputs[0].ndim == 1  # the emulator takes any number of axes
    assert not probe.inputs[0].all()
    assert is_exact(probe, target)


@needs_binaries
@pytest.mark.parametrize("target", one_in(3, TARGETS), ids=lambda target: target.name)
@pytest.mark.parametrize(("by_matrices", "instruction", "count"), one_in(3, [(True, "IMMA", 8), (False, "IDP", 32)]))
@pytest.mark.matrix(at_most=1)
def test_loops_of_peaks_only_multiply(
    target: Target, by_matrices: bool, instruction: str, count: int, tmp_path: Path
) -> None:
    """At most one instruction in ten counts the loop, and none is in memory."""
    gpu = target.gpu
    assert gpu is not None
    source = cuda_source(compile_function(gpu_peak_probe(gpu, by_matrices=by_matrices).function, target).mod)
    cubin = tmp_path / "peak.cubin"
    cubin.write_bytes(nvrtc.compile_cubin(source, gpu.arch))
    (code,) = gpu_binaries.codes_of(cubin).values()
    loop = code.loop_with_most(instruction)
    is_split = by_matrices and not gpu.has_async_copy
    assert loop[instruction] % (count * (4 if is_split else 1)) == 0
    # sm_120's code has a NOP behind each product of matrices.
    nothing = loop["NOP"] if gpu.arch == "sm_120" else 0
    assert loop[instruction] >= 0.9 * (loop.total() - nothing), loop
    assert code.memory_bytes == 0


@pytest.mark.thorough
@needs_emulated
@pytest.mark.parametrize("mode", emulated_gpus.MODES, ids=["late", "at-once", "random"])
def test_the_peak_of_four_warps_is_exact(mode: emulated_gpus.Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    target = gpu_target("cuda-sm90")
    assert target.gpu is not None
    emulated_gpus.set_mode(mode)
    try:
        assert is_exact(gpu_group_probe(small(monkeypatch, target.gpu)), target)
    finally:
        emulated_gpus.set_mode(emulated_gpus.MODES[0])


@needs_binaries
@pytest.mark.thorough
def test_the_loop_of_the_peak_of_four_warps_only_multiplies(tmp_path: Path) -> None:
    """Four products of 64 x 256 x 32 in a step, no value in memory, none moved, and no wait between the products."""
    target = gpu_target("cuda-sm90")
    assert target.gpu is not None
    source = cuda_source(compile_function(gpu_group_probe(target.gpu).function, target).mod)
    cubin = tmp_path / "peak.cubin"
    cubin.write_bytes(nvrtc.compile_cubin(source, target.gpu.arch))
    (code,) = gpu_binaries.codes_of(cubin).values()
    order = code.order_in_loop_with_most("IGMMA")
    products = [at for at, name in enumerate(order) if name == "IGMMA"]
    assert products, code.names
    assert len(products) % 4 == 0
    assert "64x256x32" in next(what for _, name, what in code.instructions if name.startswith("IGMMA")) or any(
        "64x256x32" in name for name in code.names
    )
    assert code.memory_bytes == 0
    assert not {"LDS", "LDG", "STS", "BAR", "LDL", "STL"} & set(order)
    # A product takes 128 cycles, in which four schedulers issue one instruction each.
    assert len(order) <= 16 * len(products), order


@pytest.mark.parametrize("profile", ["cuda-sm80", "cuda-sm90"])
def test_a_gpu_s_peak_is_that_of_its_fastest_tensor_cores(profile: str) -> None:
    gpu = gpu_target(profile).gpu
    assert gpu is not None
    by_warps, by_groups = 8 * 8 * 1000 * 4096, 1000 * 64 * 256 * 128
    products = by_groups if profile == "cuda-sm90" else by_warps
    assert peak_probe(gpu_target(profile)).work == 2 * gpu.multiprocessors * 2 * products

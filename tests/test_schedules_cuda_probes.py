"""The loops that measure a GPU: exact on an emulated one, with nothing but products in their machine code's loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import emulated_gpus
import gpu_binaries
import numpy as np
import pytest

from compiler import nvrtc
from compiler.gpu_library import cuda_source
from schedules import probes
from schedules.gpus import GPUS, Gpu
from schedules.lowering import compile_function
from schedules.probes import Probe, bandwidth_probe, gpu_peak_probe, peak_probe
from schedules.target import Target, gpu_target

TARGETS = [gpu_target(gpu.profile) for gpu in GPUS]
needs_emulated = pytest.mark.skipif(emulated_gpus.missing() is not None, reason=str(emulated_gpus.missing()))
needs_binaries = pytest.mark.skipif(gpu_binaries.missing() is not None, reason=str(gpu_binaries.missing()))


def small(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> Gpu:
    monkeypatch.setattr(probes, "GPU_STEPS", 7)
    return replace(gpu, multiprocessors=1)


def is_exact(probe: Probe, target: Target) -> bool:
    entry = emulated_gpus.load_kernel(compile_function(probe.function, target))
    junk = np.full_like(probe.expected, -1)
    return np.array_equal(emulated_gpus.run_kernel(entry, (*probe.inputs, junk)), probe.expected)


@needs_emulated
@pytest.mark.parametrize("by_matrices", [True, False])
@pytest.mark.parametrize("profile", ["cuda-sm75", "cuda-sm90"])
def test_peaks_are_exact(profile: str, by_matrices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = gpu_target(profile)
    assert target.gpu is not None
    assert is_exact(gpu_peak_probe(small(monkeypatch, target.gpu), by_matrices=by_matrices), target)


@needs_emulated
@pytest.mark.parametrize("size_bytes", [1, 20_000, 9_000_000])
def test_reading_is_exact(size_bytes: int) -> None:
    target = gpu_target("cuda-sm80")
    assert is_exact(bandwidth_probe(target, size_bytes), target)


@needs_binaries
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(("by_matrices", "instruction", "count"), [(True, "IMMA", 8), (False, "IDP", 32)])
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
    assert loop[instruction] >= 0.9 * loop.total(), loop
    assert code.memory_bytes == 0


def test_a_gpu_s_peak_is_that_of_its_tensor_cores() -> None:
    target = gpu_target("cuda-sm90")
    assert target.gpu is not None
    assert (
        peak_probe(target).work
        == gpu_peak_probe(target.gpu, by_matrices=True).work
        == 2 * 132 * 2 * 8 * 8 * 1000 * 4096
    )

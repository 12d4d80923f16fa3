"""First layers on GPUs: windows that begin anywhere in a word, what lies beyond the image, and the machine code."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.schedules.cuda.first_form import MATRIX_BYTES, SHARING, FirstForm, first_form
from int8tune.schedules.cuda.first_space import expected_cycles
from int8tune.schedules.gpus import GPUS, WORD_BYTES
from int8tune.schedules.image import image_of
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import gpu_target
from int8tune.schedules.workload import Conv2d, parse_workload
from tests.support.gpu import binaries as gpu_binaries
from tests.support.gpu import emulated as emulated_gpus
from tests.support.kernels.kernels import Built, build, is_caught
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

HOPPER = "cuda-sm90"
RESNET = "conv2d-u8s8-1x224x224x3-k7x7x64-s2-p3-float.c-u8"
# Windows at each byte of a word; images whose rows, and whose last word, end within a word; rows that are dilated.
COPIED_BY_8 = "conv2d-u8s8-1x20x40x3-k7x7x32-s2-p3-float.c-u8"
LAYERS = (
    "conv2d-u8s8-2x18x38x3-k7x7x64-s2-p3-float.c-u8",
    "conv2d-s8s8-1x11x35x3-k3x3x40-s1-p1-fixed.c-s8",
    COPIED_BY_8,
    "conv2d-u8s8-2x9x21x1-k5x5x24-s3-p2-d2x1-s32",
    "conv2d-u8s8-2x12x24x4-k3x3x32-s2-p0.0.1.1-float.c-addu8-u8",
)
WIDE = ("conv2d-s8s8-1x11x35x3-k3x3x64-s1-p1-fixed.c-s8", "conv2d-u8s8-2x18x38x3-k7x7x64-s2-p3-float.c-u8")
TILE: Mapping[str, Value] = {"tile_rows": 4, "tile_columns": 16, "bands": 1, "block_channels": 32, "threads": 128}
# Faults of a kernel's source, and what they replace.
FAULTS = {
    "no barrier": (r"__syncthreads\(\);", ""),
    "weights that are not waited for": (r"int8tune_wait_0\(\);", ""),
    "products that are not waited for": (r"int8tune_wait_group_0\(\);", ""),
    "pixels beside the image are not zeros": (r" \? 8 : 0\)\);", " ? 8 : 8));"),
    "windows that all begin with a word": (r"\(\([^;]* \* 4369\) \+ 12816\)\);", "12816);"),
}
needs_binaries = pytest.mark.skipif(gpu_binaries.missing() is not None, reason=str(gpu_binaries.missing()))


def form_of(key: str, config: Mapping[str, Value]) -> FirstForm:
    workload = parse_workload(key)
    assert isinstance(workload, Conv2d)
    return first_form(image_of(workload), config)


def built(key: str, knobs: Mapping[str, Value], profile: str = HOPPER) -> Built:
    return build(parse_workload(key), host_target(profile), {**TILE, **knobs}, template_named("cuda.first"))


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize(
    ("key", "products", "profile"),
    one_in(
        6,
        [*itertools.product(LAYERS, ("wgmma", "mma"), (HOPPER,)), *itertools.product(LAYERS, ("mma",), ("cuda-sm75",))],
    ),
)
def test_windows_are_exact_wherever_they_begin(key: str, products: str, profile: str) -> None:
    assert built(key, {"products": products}, profile).wrong_cases() == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "products", "knobs"),
    list(
        itertools.product(
            WIDE,
            ("wgmma", "mma"),
            (
                {"tile_rows": 8, "tile_columns": 32, "bands": 2, "block_channels": 64},
                {"tile_rows": 2, "tile_columns": 32, "threads": 128},
                {"tile_rows": 8, "tile_columns": 32, "threads": 256, "bands": 2},
            ),
        )
    ),
)
def test_tiles_that_no_image_fills_are_exact(key: str, products: str, knobs: Mapping[str, Value]) -> None:
    """Several turns of a warp, both numbers of bands, and tiles beyond the image on each side."""
    assert built(key, {**knobs, "products": products}).wrong_cases() == []


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("fault", one_in(3, FAULTS))
def test_a_wrong_kernel_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host_target(HOPPER)
    emulated_gpus.compile_with_fault(monkeypatch, *FAULTS[fault])
    assert is_caught(built(COPIED_BY_8, {"products": "wgmma"}))


@pytest.mark.parametrize("key", LAYERS)
def test_weights_lie_where_lanes_have_their_words(key: str) -> None:
    """Without the order of channels and chunks: each byte of a window has one place of the depth, others are zeros."""
    form = form_of(key, {**TILE, "products": "mma"})
    (height, width), channels = form.image.window.kernel, form.image.channels
    rows = np.arange(1, 1 + height * width * channels, dtype=np.int16) % 127 + 1
    weight = np.broadcast_to(rows.reshape(height, width, channels), (form.image.out_channels, height, width, channels))
    packed = form.pack(weight.astype(np.int8), 0)
    assert len(packed) == form.weight_length
    assert np.count_nonzero(packed) == len(form.channels) * rows.size
    assert form.depth == form.matrices * MATRIX_BYTES
    assert form.depth >= SHARING * form.lane_rows * form.row_words * WORD_BYTES


def test_rows_of_four_lanes_begin_in_banks_of_their_own() -> None:
    for key, columns in itertools.product((RESNET, *LAYERS), (16, 64)):
        form = form_of(key, {**TILE, "tile_columns": columns, "products": "mma"})
        dilation = form.image.window.dilation[0]
        banks = {lane * dilation * form.pitch_words % 32 for lane in range(SHARING)}
        assert len(banks) == (SHARING if dilation == 1 else 2) or dilation == 2
        assert form.pitch_words >= form.patch_words


def test_layers_are_taken_that_have_few_channels() -> None:
    """A rejection is for the template that is asked next."""
    keys = {
        RESNET: "cuda.first",
        "conv2d-u8s8-1x224x224x8-k3x3x32-s2-p1-float.c-u8": "cuda.wgmma",
        "conv2d-u8s8-1x224x224x3-k1x7x64-s2-p0-float.c-u8": "cuda.wgmma",
        "conv2d-u8s8-1x224x224x3-k3x3x8-s2-p1-float.c-u8": "cuda.mma",
        "conv2d-u8u8-1x224x224x3-k3x3x64-s2-p1-wz-float.c-u8": "cuda.mma",
        "conv2d-u8s8-1x224x224x6-k11x11x64-s2-p1-float.c-u8": "cuda.wgmma",
        "conv2d-u8s8-1x224x224x6-k3x3x64-s2-p1-g2-float.c-u8": "cuda.wgmma",
    }
    assert {key: template_for(parse_workload(key), gpu_target(HOPPER)).name for key in keys} == keys


def test_spaces_keep_to_the_limits_of_each_gpu() -> None:
    rng, template = np.random.default_rng(0), template_named("cuda.first")
    for gpu, key in itertools.product(GPUS, (RESNET, *LAYERS)):
        workload, target = parse_workload(key), gpu_target(gpu.profile)
        if template.rejects(workload, target):
            continue
        space = template.space(workload, target)
        assert space.features is not None
        for config in (space.default, *(space.sample(rng) for _ in range(10))):
            form = form_of(key, config)
            assert form.shared_bytes <= gpu.block_shared_bytes
            assert gpu.resident_blocks(form.threads, form.shared_bytes, form.registers) >= 1
            assert form.turns * form.warps * form.bands * 16 == form.tile_rows * form.tile_columns
            assert all(np.isfinite(value) for value in space.features(config).values())
            assert np.isfinite(expected_cycles(form, gpu))


@needs_binaries
class TestMachineCode:
    """By NVIDIA's compiler and disassembler."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("products", ["wgmma", "mma"])
    def test_windows_come_from_shared_memory_into_registers(self, products: str, tmp_path: Path) -> None:
        """Two rows of a window for a lane: seven words, of which six are shifted, of two outputs; six products."""
        knobs: dict[str, Any] = {**TILE, "tile_rows": 4, "tile_columns": 64, "block_channels": 64, "products": products}
        code = gpu_binaries.code_of(RESNET, HOPPER, tmp_path, knobs, template_named("cuda.first"))
        assert code.memory_bytes == 0
        product = "IGMMA" if products == "wgmma" else "IMMA"
        loop = code.loop_with_most(product)
        assert loop[product] == (6 if products == "wgmma" else 6 * 8)
        assert loop["LDS"] == 2 * 2 * 7 + 2 * 4
        assert loop["LDSM"] == (0 if products == "wgmma" else 6 * 4)
        names = Counter(name.split(".")[0] for _, name, _ in code.instructions)
        assert loop["PRMT"] >= 2 * 2 * 6
        assert names["STG"] == 2

    @pytest.mark.slow
    @pytest.mark.timeout(900)
    def test_values_of_sampled_configs_stay_in_registers(self, tmp_path: Path) -> None:
        space = template_named("cuda.first").space(parse_workload(RESNET), gpu_target(HOPPER))
        rng = np.random.default_rng(3)
        for config in (space.default, *(space.sample(rng) for _ in range(20))):
            code = gpu_binaries.code_of(RESNET, HOPPER, tmp_path, config, template_named("cuda.first"))
            assert code.memory_bytes == 0, config

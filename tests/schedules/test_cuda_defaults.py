"""What templates for GPUs choose where nobody has tuned: splits and stages that pay, and code that keeps its speed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.batches import with_batch
from int8tune.compiler.network_file import load_network, network_names
from int8tune.compiler.toolchain import nvrtc
from int8tune.compiler.toolchain.gpu_library import cuda_source
from int8tune.schedules.cuda import depthwise_space, first_space, gemm_space
from int8tune.schedules.cuda.forms import form_of
from int8tune.schedules.cuda.gemm_form import GemmForm, gemm_form
from int8tune.schedules.cuda.gemm_space import CLUSTERS_SHARE, PRODUCTS, STAGES
from int8tune.schedules.gpus import GPU_PROFILES, Gpu
from int8tune.schedules.image import image_of
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Config
from int8tune.schedules.target import gpu_target
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, parse_workload
from tests.gpu_kit.layers import timed_kernels

HOPPER = "cuda-sm90"
BATCHES = (1, 16, 64)
# How long partial sums may be on their way, at the memory's bandwidth, for each cycle that the same tile multiplies
# where nobody shares its depth: what a split spares is a part of that, and waits between its steps.
MOST_MOVING = 1.25
SPLIT_FOR_NOTHING = (
    "dense-u8s8-2048x768-o3072-float.c-u8",
    "dense-u8s8-2048x3072-o768-float.c-u8",
    *(f"conv2d-u8s8-64x{2 * size}x{2 * size}x{of}-k3x3x{of}-s2-p1-float.c-u8" for size, of in ((14, 256), (7, 512))),
    *(f"conv2d-u8s8-64x{size}x{size}x{of}-k3x3x{of}-s1-p1-float.c-u8" for size, of in ((14, 256), (7, 512))),
)
# ptxas let each product of these kernels wait for the one before (C7515), or put a wait behind each group (C7517).
SERIALIZED = (
    "conv2d-u8s8-1x14x14x256-k3x3x256-s1-p1-float.c-u8",
    "conv2d-u8s8-1x28x28x256-k3x3x256-s2-p1-float.c-u8",
    "conv2d-u8s8-16x56x56x64-k1x1x64-s1-p0-float.c-u8",
)
SERIAL: Config = {
    "block_rows": 64,
    "block_channels": 64,
    "block_depth": 64,
    "thread_rows": 2,
    "thread_channels": 8,
    "stages": 4,
    "splits": 8,
    "outer": "weights",
}
COSTS = {
    "cuda.wgmma": gemm_space.expected_cycles,
    "cuda.first": first_space.expected_cycles,
    "cuda.depthwise": depthwise_space.expected_cycles,
}
quick_and_all = pytest.mark.parametrize(
    ("networks", "batches", "profiles"),
    [
        (("bert_base",), BATCHES, (HOPPER,)),
        pytest.param(
            network_names(), BATCHES, tuple(GPU_PROFILES), marks=[pytest.mark.slow, pytest.mark.timeout(3600)]
        ),
    ],
    ids=["bert", "all"],
)
needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))


@functools.cache
def layers(networks: tuple[str, ...], batches: tuple[int, ...]) -> tuple[Conv2d | Dense, ...]:
    """Every distinct layer that is a product of matrices."""
    found = {}
    for layer in (layer for name in networks for layer in load_network(name).layers):
        for batch in batches:
            workload = with_batch(layer.workload, batch)
            if isinstance(workload, Conv2d | Dense):
                found[workload.key] = workload
    return tuple(found.values())


def defaults(
    networks: tuple[str, ...], batches: tuple[int, ...], profiles: tuple[str, ...]
) -> Iterator[tuple[str, GemmForm, Gpu]]:
    """Those of templates that have splits and stages: first layers' one has neither."""
    for profile in profiles:
        for workload in layers(networks, batches):
            if template_for(workload, gpu_target(profile)).name != "cuda.first":
                yield f"{workload.key} on {profile}", default(workload, profile), GPU_PROFILES[profile]


def default(workload: Conv2d | Dense, profile: str) -> GemmForm:
    target = gpu_target(profile)
    template = template_for(workload, target)
    return gemm_form(image_of(workload), template.name.partition(".")[2], template.space(workload, target).default)


def moving_share(form: GemmForm, gpu: Gpu) -> float:
    """Cycles that partial sums take, written and read, for each one that a tile of its own depth multiplies.

    Those of clusters go through no memory.
    """
    if form.splits == 1 or form.is_joined:
        return 0.0
    positions = form.image.groups * form.channel_tiles * form.block_channels
    moved = 2 * 4 * form.splits * form.rows * positions / (gpu.memory_bytes * gpu.multiprocessors)
    tile = form.block_rows * form.block_channels * form.block_depth / PRODUCTS[form.products]
    return moved / (math.ceil(form.blocks / form.splits / gpu.multiprocessors) * form.steps * tile)


@quick_and_all
def test_no_default_moves_sums_for_longer_than_it_multiplies(
    networks: tuple[str, ...], batches: tuple[int, ...], profiles: tuple[str, ...]
) -> None:
    shares = {name: moving_share(form, gpu) for name, form, gpu in defaults(networks, batches, profiles)}
    assert {name: share for name, share in shares.items() if share > MOST_MOVING} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("key", SPLIT_FOR_NOTHING)
def test_large_layers_are_not_split(key: str) -> None:
    workload = parse_workload(key)
    assert isinstance(workload, Conv2d | Dense)
    assert default(workload, HOPPER).splits == 1


def test_small_deep_layers_are_still_split() -> None:
    for key in ("conv2d-u8s8-1x7x7x512-k3x3x512-s1-p1-float.c-u8", "dense-u8s8-128x3072-o768-float.c-u8"):
        workload = parse_workload(key)
        assert isinstance(workload, Conv2d | Dense)
        assert default(workload, HOPPER).splits > 1


def test_what_a_split_moves_is_known_to_cost_models() -> None:
    workload, target = parse_workload(SPLIT_FOR_NOTHING[0]), gpu_target(HOPPER)
    space = template_named("cuda.wgmma").space(workload, target)
    whole, split = ({**space.default, "splits": splits} for splits in (1, 2))
    assert space.features(whole)["partial_bytes"] == 0
    # Each of 2,048 x 3,072 sums of four bytes, twice, is written and read.
    assert space.features(split)["partial_bytes"] == 2 * 2 * 4 * 2048 * 3072
    cycles = [space.features(config)["expected_cycles"] for config in (whole, split)]
    assert cycles[1] > 3 * cycles[0]


@quick_and_all
def test_stages_are_as_many_as_steps_can_use_where_a_multiprocessor_has_one_block(
    networks: tuple[str, ...], batches: tuple[int, ...], profiles: tuple[str, ...]
) -> None:
    seen = set[bool | str]()
    for name, form, gpu in defaults(networks, batches, profiles):
        usual = STAGES[form.products][1]
        if form.has_roles:
            # They are filled for the next tile, too: as many as there is room for.
            every = (s for s in STAGES[form.products] if replace(form, stages=s).shared_bytes <= gpu.block_shared_bytes)
            assert form.stages == max(every), name
            seen.add("roles")
            continue
        # Beside stages there are biases and rescale values.
        room = (gpu.block_shared_bytes - (form.shared_bytes - form.barriers_at)) // form.stage_bytes
        behind = form.stages - form.ahead
        deepest = max((s for s in STAGES[form.products] if s <= min(room, form.split_steps + behind)), default=usual)
        alone = form.blocks <= gpu.multiprocessors
        if form.is_joined and form.blocks > CLUSTERS_SHARE * gpu.multiprocessors:
            # Clusters leave some multiprocessors free: there is one turn only where two blocks fit into one.
            assert usual <= form.stages <= max(deepest, usual), name
            continue
        assert form.stages == (max(deepest, usual) if alone else usual), name
        seen.add(alone)
    # A block alone on its multiprocessor, and others, beside each other or with tiles in turn.
    assert True in seen
    assert seen & {False, "roles"}


@pytest.mark.parametrize(
    ("name", "layers", "most"), [("cuda.wgmma", 73, 1.03), ("cuda.first", 3, 1.03), ("cuda.depthwise", 30, 1.08)]
)
def test_costs_choose_what_an_h200_found_fast(name: str, layers: int, most: float) -> None:
    """The kernels, ten of each layer or some thirty, were timed there by `tests/gpu_kit/there/run_layers.py`."""
    expected_cycles: Any = COSTS[name]
    lost = []
    for key, kernels in timed_kernels(name).items():
        workload = parse_workload(key)
        assert isinstance(workload, Conv2d | Dense | DepthwiseConv2d)
        forms = ((form_of(name, workload, config), us) for config, us in kernels)
        timed = [(expected_cycles(form, GPU_PROFILES[HOPPER]), us) for form, us in forms]
        lost.append(math.log(min(timed)[1] / min(us for _, us in timed)))
    assert len(lost) == layers
    assert math.exp(sum(lost) / len(lost)) < most


def advice(workload: Conv2d | Dense, profile: str, config: Config | None = None) -> list[str]:
    """What NVIDIA's compiler says of a layer's kernel that makes it slow."""
    target, told = gpu_target(profile), list[str]()
    assert target.gpu is not None
    template = template_for(workload, target)
    chosen = template.space(workload, target).default if config is None else config
    source = cuda_source(compile_function(template.apply(workload, target, chosen).function, target).mod)
    nvrtc.compile_cubin(source, target.gpu.arch, told.append)
    return told


@needs_nvrtc
class TestAdvice:
    @pytest.mark.thorough
    @pytest.mark.parametrize("key", SERIALIZED)
    def test_products_of_a_default_do_not_wait_for_each_other(self, key: str) -> None:
        workload = parse_workload(key)
        assert isinstance(workload, Conv2d | Dense)
        assert advice(workload, HOPPER) == []

    def test_nor_do_those_of_a_split(self) -> None:
        """Whose last steps may be fewer: the compiler does not know that there is one at least."""
        workload = parse_workload(SERIALIZED[0])
        assert isinstance(workload, Conv2d | Dense)
        assert advice(workload, HOPPER, SERIAL) == []

    @pytest.mark.slow
    @pytest.mark.timeout(3600)
    @pytest.mark.parametrize("batch", [1, 16])
    @pytest.mark.parametrize("network", network_names())
    def test_no_default_of_a_network_is_made_slow(self, network: str, batch: int) -> None:
        told = {workload.key: advice(workload, HOPPER) for workload in layers((network,), (batch,))}
        assert {key: lines for key, lines in told.items() if lines} == {}

    @pytest.mark.parametrize("samples", [2, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
    def test_no_sampled_config_is_made_slow(self, samples: int) -> None:
        workload, rng = parse_workload(SERIALIZED[0]), np.random.default_rng(5)
        assert isinstance(workload, Conv2d | Dense)
        space = template_named("cuda.wgmma").space(workload, gpu_target(HOPPER))
        for config in (space.sample(rng) for _ in range(samples)):
            assert advice(workload, HOPPER, config) == [], config

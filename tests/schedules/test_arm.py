"""ARM templates on emulated CPUs: exact where two products don't fit 16 bits, made of the instructions meant."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import codegen

from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.arm.conv_form import conv_form
from int8tune.schedules.arm.conv_space import estimated_cycles
from int8tune.schedules.image import image_of
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import target_for
from int8tune.schedules.workload import Workload, parse_workload
from tests.support.kernels.emulated_arm import CPUS, KernelDiedError, run_kernel
from tests.support.kernels.kernels import Emulated, build, compile_function
from tests.support.kernels.layers import ODD, PLAIN, workloads
from tests.support.run.probes import ARM_PROFILES, any_target, host_target
from tests.support.run.thinned import one_in

few = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
CONV = "conv2d-s8s8-1x5x6x24-k3x3x24-s1-p1-float.c-s8"
DEPTHWISE = "dwconv2d-s8s8-1x6x7x24-k3x3x1-s1-p1-float.c-s8"
# Layers, the way to multiply in which two products share 16 bits, and steps of a turn.
SHARED = [
    (CONV, "c2", {"unroll": 2}),
    (CONV, "c8", {"unroll": 12}),
    (CONV, "c8", {"unroll": 1}),
    (DEPTHWISE, "pairs", {}),
]
# What a loop of each way consists of, beside loads; the data of `c2` is repeated for channels.
INSTRUCTIONS = {
    "c2": {"smull", "smlal2", "sadalp", "zip1", "zip2"},
    "c8": {"smull", "smlal2", "sadalp"},
    "wide": {"smlal", "smlal2", "sshll", "ushll"},
    "dot": {"sdot"},
}
# What blocks of channels make of a layer: phases of columns, last columns, turns of one row, a block that is half or
# nearly empty, groups, rows and columns that nothing reads.
BLOCKED: list[tuple[str, dict[str, Value]]] = [
    ("conv2d-u8s8-1x9x11x40-k3x3x24-s2-p1-float.c-u8", {"tile_columns": 3, "tile_channels": 12, "unroll": 4}),
    ("conv2d-s8s8-2x7x10x33-k1x1x20-s2-p0-fixed.c-s8", {"tile_columns": 2, "tile_channels": 16, "unroll": 2}),
    ("conv2d-u8s8-1x6x8x80-k1x1x10-s3-p1-float.c-u8", {"tile_columns": 2, "tile_channels": 8, "unroll": 1}),
    ("conv2d-u8s8-1x8x9x24-k3x5x24-s3-p2-d2-g2-float.c-u8", {"tile_columns": 2, "tile_channels": 12, "unroll": 6}),
    ("conv2d-s8s8-1x12x7x16-k5x3x12-s1-p4.0.4.0-d2-fused.cx-s8", {"tile_columns": 3, "tile_channels": 4, "unroll": 12}),
    ("dense-u8s8-3x100-o37-float.c-clamp-u8", {"tile_columns": 1, "tile_channels": 24, "unroll": 12}),
]
LONG = "conv2d-s8s8-1x28x28x64-k3x3x64-s1-p1-float.c-s8"


def config_with(workload: Workload, profile: str, **knobs: Value) -> Mapping[str, Value]:
    """The default config with other values."""
    target = any_target(profile)
    return {**template_for(workload, target).space(workload, target).default, **knobs}


@pytest.mark.thorough
@pytest.mark.parametrize("profile", ARM_PROFILES)
@few
@given(workload=st.sampled_from(["conv2d", "dense", "dwconv2d", "grouped"]).flatmap(workloads), seed=st.integers(0, 99))
def test_drawn_layers_and_configs_are_exact(profile: str, workload: Any, seed: int) -> None:
    target = host_target(profile)
    template = template_for(workload, target)
    config = template.space(workload, target).sample(np.random.default_rng(seed))
    assert build(workload, target, config, template).wrong_cases() == []


@pytest.mark.parametrize("key", one_in(40, (*PLAIN.values(), *ODD)))
def test_every_way_to_multiply_is_exact(key: str) -> None:
    workload, target = parse_workload(key), host_target("arm-dotprod")
    template = template_for(workload, target)
    found = {config["products"]: config for config in template.space(workload, target) if "products" in config}
    for config in found.values():
        assert build(workload, target, config, template).wrong_cases() == []


@pytest.mark.parametrize(("key", "products", "knobs"), one_in(2, SHARED))
def test_products_of_lowest_values_are_exact(key: str, products: str, knobs: dict[str, Value]) -> None:
    workload = parse_workload(key)
    built = build(workload, host_target("arm-neon"), tile_of(workload, products, knobs))
    assert built.is_exact(lowest(workload))


@pytest.mark.parametrize(("key", "products", "knobs"), one_in(2, SHARED))
def test_two_of_them_that_share_16_bits_are_caught(
    key: str, products: str, knobs: dict[str, Value], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of -128 that are not split: their products with -128 wrap, and random ones hardly ever do."""
    monkeypatch.setattr("int8tune.schedules.arm.tiling.LEAST_PAIRED", -128)
    workload = parse_workload(key)
    built = build(workload, host_target("arm-neon"), tile_of(workload, products, knobs))
    assert not built.is_exact(lowest(workload))
    assert "min-min" in built.wrong_cases()


def tile_of(workload: Workload, products: str, knobs: dict[str, Value]) -> Mapping[str, Value]:
    return config_with(workload, "arm-neon", products=products, tile_columns=2, tile_channels=8, **knobs)


def lowest(workload: Workload) -> Any:
    """The operands whose data and weights are all -128."""
    operands = dict(adversarial_operands(workload, 0))["min-min"]
    assert (operands.data == -128).all()
    assert (operands.weight == -128).all()
    return operands


def test_weights_of_minus_128_take_a_part_of_their_own_only_where_they_are() -> None:
    """The first byte of a tile's header says so; the kernel of symmetric weights runs through one part."""
    workload, target = parse_workload(CONV), any_target("arm-neon")
    config = config_with(workload, "arm-neon", products="c8", tile_channels=8)
    layout = template_for(workload, target).apply(workload, target, config).layout
    weight = np.full(workload.weight_shape, -127, np.int8)
    weight[17, 1, 2, 3] = -128
    headers = layout.pack(weight, 0).reshape(3, -1)[:, :16]
    assert headers[:, 0].tolist() == [0, 0, 1]
    assert not headers[:, 1:].any()


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "knobs"), BLOCKED)
def test_images_in_blocks_are_exact(key: str, knobs: dict[str, Value]) -> None:
    workload = parse_workload(key)
    config = config_with(workload, "arm-neon", products="c8", **knobs)
    assert build(workload, host_target("arm-neon"), config).wrong_cases() == []


@pytest.mark.parametrize("products", INSTRUCTIONS)
def test_loops_have_the_instructions_that_they_are_for(products: str) -> None:
    """The innermost loop: no other arithmetic, and no register of sums in memory."""
    profile = "arm-dotprod" if products == "dot" else "arm-neon"
    workload, target = parse_workload(LONG), any_target(profile)
    template = template_for(workload, target)
    tile = {"tile_columns": 4, "tile_channels": 16, "unroll": 1}
    if products == "c8":
        tile = {"tile_columns": 3, "tile_channels": 16, "unroll": 9}
    config = config_with(workload, profile, products=products, **tile)
    code = compile_function(template.apply(workload, target, config).function, target).mod.inspect_source("asm")
    loop = max(innermost_loops(code), key=lambda lines: sum("v" in line for line in lines))
    arithmetic = {line.split()[0] for line in loop if re.search(r"\sv\d", line)}
    assert arithmetic - {"ld1", "ld1r"} <= INSTRUCTIONS[products]
    assert arithmetic & {"sadalp", "smlal", "sdot"}
    assert not [line for line in loop if "[sp" in line]
    if products == "c8":  # several registers at a time, and no address of theirs is changed on the way
        loads = [line for line in loop if re.match(r"ld.*\s[{qv]", line)]
        assert loads
        assert all(re.fullmatch(r"ld1\t\{.*v.*,.*v.*\}, \[x\d+\]", line) for line in loads)


def innermost_loops(code: str) -> list[list[str]]:
    """The instructions of each block that branches to its own beginning."""
    blocks = re.split(r"^(\.LBB\w+):", code, flags=re.MULTILINE)
    loops = []
    for label, text in zip(blocks[1::2], blocks[2::2], strict=True):
        lines = [line.strip() for line in text.splitlines() if re.match(r"^\t[a-z]", line)]
        ends = [index for index, line in enumerate(lines) if re.search(rf"^b\.\w+\t{re.escape(label)}$", line)]
        loops += [lines[: ends[0]]] if ends else []
    return loops


def test_a_dot_product_ends_a_core_without_it() -> None:
    workload = parse_workload(CONV)
    built = build(workload, host_target("arm-dotprod"), config_with(workload, "arm-dotprod", products="dot"))
    assert isinstance(built, Emulated)
    assert built.wrong_cases() == []
    operands = adversarial_operands(workload, 0)[0][1]
    case = (*kernel_inputs(workload, built.kernel, operands), np.zeros(built.kernel.output_shape, np.int8))
    with pytest.raises(KernelDiedError) as caught:
        run_kernel(built.executable, CPUS["arm-neon"], [case])
    assert caught.value.code == -signal.SIGILL


@pytest.mark.parametrize("offset", [-1, 64])
def test_a_kernel_that_leaves_its_arrays_dies(offset: int) -> None:
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        data = T.arg("data", T.buffer((64,), "int8"))
        out = T.arg("out", T.buffer((64,), "int8"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.serial(0, 64) as index:
            T.buffer_store(out, data[T.min(index, data[0] * 0) + offset], [index])
    compiled = compile_function(builder.get(), host_target("arm-neon"))
    with pytest.raises(KernelDiedError) as caught:
        run_kernel(compiled, CPUS["arm-neon"], [[np.zeros(64, np.int8)] * 2] * 2)
    assert caught.value.code == -signal.SIGSEGV


def test_layers_find_their_templates() -> None:
    names = {
        profile: [template_for(parse_workload(key), any_target(profile)).name for key in PLAIN.values()]
        for profile in ARM_PROFILES
    }
    assert names == {key: ["arm.conv", "arm.depthwise", "arm.conv", "arm.conv", "arm.conv"] for key in ARM_PROFILES}
    multiplied = parse_workload("dwconv2d-u8s8-1x8x8x16-k3x3x2-s1-p1-float.c-u8")
    rejection = template_named("arm.depthwise").rejects(multiplied, any_target("arm-neon"))
    assert rejection is not None
    assert rejection.reason == "takes one output channel for each channel, not 2"


def test_a_device_that_is_another_machine_has_a_target() -> None:
    """By its features alone: a Cortex-A53, and a core with dot products."""
    a53 = target_for({"fp", "asimd", "evtstrm", "crc32", "cpuid"}, "cortex-a53", "aarch64-linux-gnu")
    a55 = target_for({"fp", "asimd", "asimdrdm", "asimddp"}, "cortex-a55", "aarch64-linux-gnu")
    assert (a53.name, a55.name) == ("arm-neon", "arm-dotprod")
    assert a53.tvm["mtriple"] == "aarch64-linux-gnu"
    assert (a53.vector_lanes, a53.vector_registers) == (4, 32)


@pytest.mark.parametrize(("profile", "instructions"), [("arm-neon", set()), ("arm-dotprod", {"dotprod"})])
def test_a_profile_needs_exactly_what_its_code_may_use(profile: str, instructions: set[str]) -> None:
    """Beyond Advanced SIMD and floating point; the other names tune, or are about tracing."""
    found = {str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(dict(any_target(profile).tvm)))}
    tuning = {name for name in found if name.startswith(("fuse-", "use-", "enable-"))}
    assert found - tuning - {"ete", "trbe"} == {"neon", "fp-armv8"} | instructions


@pytest.mark.parametrize("products", ["c2", "c8"])
def test_a_batch_of_four_is_estimated_to_take_four_times_as_long(products: str) -> None:
    """On an image that is no square: rows are not columns."""
    key = "conv2d-u8s8-{}x9x21x24-k3x3x40-s1-p1-float.c-u8"
    target = any_target("arm-neon")
    cycles, tiles = [], []
    for batch in (1, 4):
        workload = parse_workload(key.format(batch))
        space = template_for(workload, target).space(workload, target)
        config = next(config for config in space if config["products"] == products)
        form = conv_form(image_of(workload), config, 1)
        cycles.append(estimated_cycles(form))
        tiles.append(form.largest_share)
    assert cycles[1] == pytest.approx(4 * cycles[0])
    assert tiles == [rows * form.tiles_of_a_row * form.channel_tiles for rows in (9, 36)]

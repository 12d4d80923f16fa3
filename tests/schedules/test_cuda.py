"""GPU templates without a GPU: exact whatever the order of threads, and machine code of the instructions meant."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.network_file import load_network
from int8tune.schedules.cuda.channel_order import CHUNK_BYTES, swizzled
from int8tune.schedules.cuda.gemm_form import GemmForm, gemm_form
from int8tune.schedules.cuda.gemm_space import STAGES, resident_blocks
from int8tune.schedules.errors import UnknownTargetError
from int8tune.schedules.gpus import GPU_PROFILES, GPUS, WARP
from int8tune.schedules.image import image_of
from int8tune.schedules.intrinsics import cuda as instructions
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import gpu_target, named_target, target_for, targets_named
from int8tune.schedules.workload import parse_workload
from tests.support.gpu import binaries as gpu_binaries
from tests.support.gpu import emulated as emulated_gpus
from tests.support.kernels.kernels import Built, build, compile_kernel, is_caught
from tests.support.kernels.layers import PLAIN
from tests.support.run.probes import any_target, host_target
from tests.support.run.thinned import one_in

GPU, HOPPER = "cuda-sm80", "cuda-sm90"
CONV = "conv2d-u8s8-1x9x8x64-k3x3x32-s1-p1-float.c-u8"
BIG = "conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8"
# A tile of each template that an expert would try first.
TILES: Mapping[str, dict[str, Value]] = {
    "cuda.mma": {
        "block_rows": 128,
        "block_channels": 128,
        "block_depth": 64,
        "thread_rows": 8,
        "thread_channels": 16,
        "stages": 2,
    },
    "cuda.dp4a": {
        "block_rows": 64,
        "block_channels": 64,
        "block_depth": 64,
        "thread_rows": 8,
        "thread_channels": 8,
        "stages": 2,
    },
}
SMALL: Mapping[str, dict[str, Value]] = {
    "cuda.mma": {
        "block_rows": 32,
        "block_channels": 32,
        "block_depth": 64,
        "thread_rows": 2,
        "thread_channels": 4,
        "stages": 3,
    },
    "cuda.wgmma": {
        "roles": "uniform",
        "block_rows": 128,
        "block_channels": 32,
        "block_depth": 64,
        "thread_rows": 2,
        "thread_channels": 8,
        "stages": 4,
    },
    "cuda.dp4a": {
        "block_rows": 32,
        "block_channels": 32,
        "block_depth": 64,
        "thread_rows": 4,
        "thread_channels": 4,
        "stages": 3,
    },
}
# Faults of a kernel's source, and what they replace: each is a race, or data that is read before it is there. Kernels
# have two steps' copies on their way.
FAULTS = {
    "no barrier": (r"__syncthreads\(\);", ""),
    "a wait that is one group short": (r"int8tune_wait_1\(\)", "int8tune_wait_2()"),
    "no wait": (r"int8tune_wait_1\(\);", ""),
    "a stage that is still read is filled": (r"\+ 2\) ([%&]) 3\)", r"+ 3) \1 3)"),
    "copies that are in no group": (r"(?s)(?<=int8tune_commit\(\);)(.*)int8tune_commit\(\);", r"\1"),
}
GROUP_FAULTS = {
    "no wait for products": (r"int8tune_wait_group_1\(\);", ""),
    "a wait for products that is one group short": (r"int8tune_wait_group_1\(\)", "int8tune_wait_group_2()"),
    "no wait for the last products": (r"int8tune_wait_group_0\(\);", ""),
    "first products that are added to what was in the registers": (r"\(\(0 < v_\d+\) \? 1 : 0\)", "1"),
}
# Tiles of blocks that have several in turn, with roles for their warps.
ROLES: Mapping[str, dict[str, Value]] = {
    "cooperative": {"block_rows": 64, "block_channels": 32, "thread_rows": 2, "thread_channels": 8},
    "cooperative, 192 rows": {"block_rows": 192, "block_channels": 32, "thread_rows": 2, "thread_channels": 8},
    "pingpong": {"block_rows": 64, "block_channels": 32, "thread_rows": 2, "thread_channels": 8},
}
# Faults of these: what is waited for, who tells whom, and whose turn it is.
ROLE_FAULTS = {
    "stages are filled before they are empty": (r"\n +int8tune_wait_for_phase\(.*", ""),
    "stages are read before they are filled": (
        r"(?s)(\n +int8tune_wait_for_phase\(.*?)\n +int8tune_wait_for_phase\([^\n]*",
        r"\1",
    ),
    "weights that are not waited for": (r"(\n +int8tune_expect\(.*), \d+\);", r"\1, 0);"),
    "stages are emptied before they are read": (r"\n +int8tune_wait_group_1\(\);", ""),
    "no wait for the last products": (r"\n +int8tune_wait_group_0\(\);", ""),
}
CLUSTER_FAULTS = {
    "sums that are sent to where others multiply": (r"\n +int8tune_await_cluster_of_2\(\);", ""),
    "sums that are added before they are there": (
        r"(?s)(int8tune_send_bytes\(\(&.*?)\n +int8tune_wait_for_phase\(.*?;",
        r"\1",
    ),
    "a block that ends while its sums are sent": (
        r"(?s)(\n +int8tune_await_cluster_of_2\(\);.*?)\n +int8tune_await_cluster_of_2\(\);",
        r"\1",
    ),
    "stages that are still multiplied": (r"\n  __syncthreads\(\);", ""),
}
TURN_FAULTS = {"no turns": (r"\n +int8tune_await_turn\(.*", "")}
EVERY_FAULT = [*itertools.product(SMALL, FAULTS), *itertools.product(["cuda.wgmma"], GROUP_FAULTS)]
# Depthwise layers, and tiles of rows, columns and steps that go down their images.
WALKS = [
    ("dwconv2d-u8s8-2x13x11x32-k3x3x1-s1-p1-float.c-u8", (2, 4, 2)),
    ("dwconv2d-u8s8-1x9x11x32-k3x3x1-s1-p1-float.c-u8", (2, 3, 4)),
    ("dwconv2d-u8s8-2x14x20x48-k3x3x1-s2-p0.0.1.1-float.c-u8", (1, 5, 7)),
    ("dwconv2d-u8s8-2x13x20x48-k3x3x1-s2-p1-fused.c-u8", (1, 4, 4)),
    ("dwconv2d-s8s8-1x7x7x24-k3x3x1-s1-p1-fixed.c-s8", (2, 7, 4)),
    ("dwconv2d-s8s8-1x7x7x24-k3x3x1-s1-p1-fine.c-s8", (2, 7, 4)),
    ("dwconv2d-u8s8-3x5x5x20-k3x3x1-s1-p0-float.c-s8", (2, 2, 2)),
]
WALK_FAULTS = {
    "a border of zeros": (r"& 255\) \* 16843009", "& 0) * 16843009"),
    # Two rows of 11 columns and 32 channels.
    "rows too far": (r"\+ 176\)", "+ 352)"),
}
needs_binaries = pytest.mark.skipif(gpu_binaries.missing() is not None, reason=str(gpu_binaries.missing()))


def built(key: str, name: str, knobs: Mapping[str, Value]) -> Built:
    workload, target = parse_workload(key), host_target(HOPPER if name == "cuda.wgmma" else GPU)
    template = template_named(name)
    return build(workload, target, {**template.space(workload, target).default, **knobs}, template)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("index", [0, 1, *(pytest.param(at, marks=pytest.mark.slow) for at in (2, 3))])
def test_stages_are_filled_and_read_in_time(name: str, index: int) -> None:
    stages = STAGES[name.removeprefix("cuda.")][index]
    assert built(CONV, name, {**SMALL[name], "stages": stages}).wrong_cases() == []


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize(("name", "fault"), one_in(8, EVERY_FAULT))
def test_a_kernel_with_a_race_is_caught(name: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some order of threads, or with copies that come late: what tests of right kernels run through."""
    host_target(GPU)
    emulated_gpus.compile_with_fault(monkeypatch, *(FAULTS | GROUP_FAULTS)[fault])
    assert is_caught(built(CONV, name, SMALL[name]))


def built_in_turn(key: str, knobs: Mapping[str, Value], multiprocessors: int = 2) -> Built:
    """A kernel of few blocks, each of which has several tiles."""
    workload, target = parse_workload(key), replace(host_target(HOPPER), multiprocessors=multiprocessors)
    template = template_named("cuda.wgmma")
    default = template.space(workload, target).default
    return build(workload, target, {**default, "block_depth": 64, "stages": 3, "splits": 1, **knobs}, template)


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("roles", ROLES)
@pytest.mark.parametrize(
    "key",
    one_in(
        2,
        [
            "dense-u8s8-300x640-o80-float.c-u8",
            "conv2d-u8s8-2x17x15x64-k3x3x96-s1-p1-float.c-u8",
            "conv2d-s8s8-1x14x14x32-k3x3x64-s1-p1-g2-fixed.c-s8",
            "conv2d-u8s8-2x21x23x48-k1x1x40-s2-p0-fused.c-addu8-u8",
            "conv2d-s8s8-2x21x23x48-k1x1x40-s2-p0-fine.c-adds8-s8",
        ],
    ),
)
@pytest.mark.parametrize(("outer", "stages", "depth"), [("weights", 3, 64), ("image", 4, 128)])
def test_blocks_have_tiles_in_turn(roles: str, key: str, outer: str, stages: int, depth: int) -> None:
    """An odd and an even number of tiles, stages that no tile fills whole, and both orders of tiles."""
    knobs = {"outer": outer, "stages": stages, "block_depth": depth, "roles": roles.partition(",")[0]}
    assert built_in_turn(key, {**ROLES[roles], **knobs}).wrong_cases() == []


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize(
    ("roles", "fault"),
    one_in(4, [*itertools.product(("cooperative", "pingpong"), ROLE_FAULTS), ("pingpong", "no turns")]),
)
def test_roles_that_do_not_wait_for_each_other_are_caught(
    roles: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_target(HOPPER)
    emulated_gpus.compile_with_fault(monkeypatch, *(ROLE_FAULTS | TURN_FAULTS)[fault], count=1)
    assert is_caught(built_in_turn("dense-u8s8-300x640-o80-float.c-u8", {**ROLES[roles], "roles": roles}))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, "int8tune.schedules.cuda.copies.swizzled") for name in SMALL),
        ("cuda.mma", "int8tune.schedules.cuda.products.swizzled"),
    ],
)
def test_chunks_that_are_written_elsewhere_than_read_are_caught(
    name: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, lambda row, chunk, chunks: swizzled(row + 2, chunk, chunks))
    assert is_caught(built(CONV, name, SMALL[name]))


def test_a_kernel_whose_threads_part_at_a_barrier_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_right = emulated_gpus.compile_emulated
    host_target(GPU)
    monkeypatch.setattr(
        emulated_gpus,
        "compile_emulated",
        lambda source: compile_right(source.replace("__syncthreads();", "if (threadIdx.x) __syncthreads();", 1)),
    )
    with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
        built(CONV, "cuda.mma", SMALL["cuda.mma"]).wrong_cases()


def test_a_kernel_that_leaves_its_arrays_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_right = emulated_gpus.compile_emulated
    host_target(GPU)
    monkeypatch.setattr(
        emulated_gpus,
        "compile_emulated",
        lambda source: compile_right(re.sub(r"&\(out_ptr\[", "&(out_ptr[16 + ", source)),
    )
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        built(CONV, "cuda.mma", SMALL["cuda.mma"]).wrong_cases()


@pytest.mark.matrix(at_most=2)
@pytest.mark.parametrize("profile", ["cuda-sm75", "cuda-sm80", "cuda-sm90"])
@pytest.mark.parametrize("key", [*PLAIN.values(), "dense-u8u8-1x1024-o64-wz-fixed.c-u8"])
def test_defaults_are_exact_on_every_gpu(profile: str, key: str) -> None:
    workload, target = parse_workload(key), host_target(profile)
    kernel = template_for(workload, target).apply(workload, target, _default(key, profile))
    assert compile_kernel(workload, target, kernel).wrong_cases() == []


@pytest.mark.matrix
@pytest.mark.parametrize(("key", "tile"), one_in(6, WALKS))
def test_depthwise_tiles_go_down_the_image(key: str, tile: tuple[int, int, int]) -> None:
    """Steps in turns of two and what is left of them; borders on every side, and rows that are not there."""
    assert walk(key, tile).wrong_cases() == []


@pytest.mark.thorough
@pytest.mark.parametrize("fault", WALK_FAULTS)
def test_a_step_that_reads_other_rows_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host_target(HOPPER)
    emulated_gpus.compile_with_fault(monkeypatch, *WALK_FAULTS[fault])
    assert is_caught(walk(*WALKS[0]))


def walk(key: str, tile: tuple[int, int, int]) -> Built:
    rows, columns, steps = tile
    knobs = {"tile_rows": rows, "tile_columns": columns, "steps": steps, "threads": 64}
    return build(parse_workload(key), host_target(HOPPER), knobs, template_named("cuda.depthwise"))


@pytest.mark.thorough
@pytest.mark.matrix
@pytest.mark.parametrize("key", [CONV, "dense-u8u8-1x1024-o64-wz-fixed.c-clamp-addu8-u8", "dense-s8s8-3x512-o40-s32"])
@pytest.mark.parametrize("name", TILES)
def test_splits_add_up(name: str, key: str) -> None:
    tile = {**SMALL[name], "block_rows": 16, "thread_rows": 2, "thread_channels": 4, "splits": 2}
    made = built(key, name, tile)
    assert "main_kernel_1" in made.executable.mod.imports[0].inspect_source()
    assert made.wrong_cases() == []


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize(
    ("name", "key"),
    one_in(
        3,
        itertools.product(
            ("cuda.wgmma", "cuda.mma", "cuda.dp4a"),
            (
                "conv2d-u8s8-1x9x8x96-k3x3x32-s1-p1-float.c-u8",
                "conv2d-s8s8-1x9x8x96-k3x3x80-s1-p1-g2-fixed.c-adds8-s8",
                "dense-s8s8-70x512-o40-s32",
            ),
        ),
    ),
)
@pytest.mark.parametrize("splits", [2, 4])
def test_blocks_of_a_cluster_add_their_sums(name: str, key: str, splits: int) -> None:
    """Parts of tiles that no image fills, of two and of four blocks; there is no second kernel."""
    made = joined(key, name, splits)
    assert "main_kernel_1" not in made.executable.mod.imports[0].inspect_source()
    assert made.wrong_cases() == []


@pytest.mark.matrix
@pytest.mark.parametrize("fault", one_in(2, CLUSTER_FAULTS))
def test_blocks_that_do_not_wait_for_their_cluster_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host_target(GPU)
    emulated_gpus.compile_with_fault(monkeypatch, *CLUSTER_FAULTS[fault], count=1)
    # Twice four warps, of which one half may be done with its products before the other one.
    assert is_caught(joined(CONV, "cuda.wgmma", 2, block_rows=128))


def joined(key: str, name: str, splits: int, **knobs: Value) -> Built:
    workload, target = parse_workload(key), host_target(HOPPER)
    template = template_named(name)
    rows = {"block_rows": 64} if name == "cuda.wgmma" else {}
    tile = {**SMALL[name], **rows, "splits": splits, "added": "cluster", **knobs}
    return build(workload, target, {**template.space(workload, target).default, **tile}, template)


def _default(key: str, profile: str) -> Mapping[str, Value]:
    workload, target = parse_workload(key), any_target(profile)
    return template_for(workload, target).space(workload, target).default


class TestBanks:
    """Shared memory answers a quarter of a warp at once where its 16 bytes each lie in different banks."""

    @staticmethod
    def bank(form: GemmForm, row: int, chunk: int) -> int:
        """Which of the eight banks, each 16 bytes wide, a row's chunk lies in."""
        at = row * form.block_depth + swizzled(row, chunk, form.chunks) * CHUNK_BYTES
        return at // CHUNK_BYTES % 8

    @staticmethod
    def forms(name: str) -> list[GemmForm]:
        workload, target = parse_workload(BIG), any_target(GPU)
        template = template_named(name)
        image, rng = image_of(workload), np.random.default_rng(0)  # type: ignore[arg-type]
        space = template.space(workload, target)
        return [gemm_form(image, name.split(".")[1], space.sample(rng)) for _ in range(40)]

    @pytest.mark.parametrize("depth", [32, 64, 128])
    def test_eight_rows_of_a_matrix(self, depth: int) -> None:
        """Any eight rows that begin at a multiple of eight; the emulated GPU checks each load of a kernel, too."""
        for first, chunk in itertools.product(range(0, 64, 8), range(depth // CHUNK_BYTES)):
            form = gemm_form(
                image_of(parse_workload(BIG)),
                "mma",
                {**TILES["cuda.mma"], "block_depth": depth, "splits": 1, "outer": "image"},
            )  # type: ignore[arg-type]
            assert {self.bank(form, first + row, chunk) for row in range(8)} == set(range(8))

    def test_a_quarter_of_a_warp_that_reads_words(self) -> None:
        for form in self.forms("cuda.dp4a"):
            across = form.block_channels // form.thread_channels
            for first in range(0, WARP, 8):
                threads = [divmod(first + lane, across) for lane in range(8)]
                for rows in ({y for y, _ in threads}, {x for _, x in threads}):
                    banks = [self.bank(form, row, 1) for row in rows]
                    assert len(set(banks)) == len(banks)

    @pytest.mark.parametrize("name", TILES)
    def test_a_quarter_of_a_warp_that_copies(self, name: str) -> None:
        for form in self.forms(name):
            for first in range(0, WARP, 8):
                places = [divmod(first + lane, form.units) for lane in range(8)]
                assert {self.bank(form, row, chunk) for row, chunk in places} == set(range(8))


@pytest.mark.parametrize("types", list(itertools.product(("u8", "s8"), repeat=2)))
def test_narrow_products_are_the_wide_one(types: tuple[str, str]) -> None:
    """What sm_75 has in place of a product of 16 rows and 32 bytes: four of 8 and 16, by the tables of the PTX ISA."""
    rng = np.random.default_rng(0)
    data, weight = rng.integers(-128, 128, (16, 32)), rng.integers(-128, 128, (32, 8))
    sums = np.zeros((WARP, 4), np.int64)
    calls = re.findall(
        r'"\+r"\(sums\[(\d)\]\), "\+r"\(sums\[(\d)\]\) : "r"\(data\[(\d)\]\), "r"\(weight\[(\d)\]\)',
        instructions._narrow_products(types),
    )
    assert len(calls) == 4
    lanes = [(lane // 4, 4 * (lane % 4)) for lane in range(WARP)]

    def data_register(lane: int, index: int) -> Any:
        group, at = lanes[lane]
        return data[group + 8 * (index % 2), at + 16 * (index // 2) :][:4]

    def weight_register(lane: int, index: int) -> Any:
        group, at = lanes[lane]
        return weight[at + 16 * index :, group][:4]

    for *places, left, right in (map(int, call) for call in calls):
        rows, columns = np.zeros((8, 16), np.int64), np.zeros((16, 8), np.int64)
        for lane, (group, at) in enumerate(lanes):
            rows[group, at : at + 4] = data_register(lane, left)
            columns[at : at + 4, group] = weight_register(lane, right)
        for lane, (group, at) in enumerate(lanes):
            sums[lane, places] += (rows @ columns)[group, at // 2 : at // 2 + 2]
    expected = data @ weight
    for lane, (group, at) in enumerate(lanes):
        own = [expected[group + 8 * (i // 2), at // 2 + i % 2] for i in range(4)]
        assert sums[lane].tolist() == own


@needs_binaries
class TestMachineCode:
    """By NVIDIA's compiler and disassembler."""

    @pytest.mark.matrix(at_most=1)
    @pytest.mark.parametrize("profile", one_in(3, GPU_PROFILES))
    @pytest.mark.parametrize("name", TILES)
    def test_the_loop_has_the_instructions_that_it_is_for(self, name: str, profile: str, tmp_path: Path) -> None:
        code = gpu_binaries.code_of(BIG, profile, tmp_path, TILES[name], template_named(name))
        assert code.memory_bytes == 0
        assert code.registers <= 255
        product = {"cuda.mma": "IMMA", "cuda.dp4a": "IDP"}[name]
        loop = code.loop_with_most(product)
        # Of a step: 4 x 8 matrices and two parts of the depth, or 8 x 8 sums and four words of a chunk.
        assert loop[product] == {"cuda.mma": 64 if profile != "cuda-sm75" else 256, "cuda.dp4a": 256}[name]
        nothing = loop["NOP"] if profile == "cuda-sm120" else 0
        assert loop[product] / (loop.total() - nothing) > {"cuda.mma": 0.3, "cuda.dp4a": 0.75}[name]
        exact = {"IMMA": {"IMMA.16832.U8.S8", "IMMA.8816.U8.S8"}, "IDP": {"IDP.4A.U8.S8"}}[product]
        assert {found for found in code.names if found.startswith(product)} <= exact
        assert profile == "cuda-sm75" or any(found.startswith("LDGSTS") for found in code.names)
        assert loop["LDSM" if name == "cuda.mma" else "LDS"] == 16

    @pytest.mark.thorough
    def test_products_of_four_warps_follow_each_other(self, tmp_path: Path) -> None:
        """A step of 128 bytes is four of them; the next step's copies, and its barrier, come while they are added."""
        knobs: dict[str, Value] = {"block_rows": 128, "block_channels": 128, "block_depth": 128, "thread_rows": 2}
        knobs |= {"thread_channels": 32, "stages": 4, "splits": 1, "roles": "uniform", "added": "kernel"}
        code = gpu_binaries.code_of(BIG, HOPPER, tmp_path, knobs, template_named("cuda.wgmma"))
        assert code.memory_bytes == 0
        products = [(name, operands) for _, name, operands in code.instructions if "GMMA" in name]
        assert {name for name, _ in products} == {"IGMMA.64x128x32.U8.S8"}
        assert [operands.endswith("gsb0 ") for _, operands in products] == [False, False, False, True]
        waits = [operands.strip() for _, name, operands in code.instructions if name == "WARPGROUP.DEPBAR.LE"]
        assert waits == ["gsb0, 0x1", "gsb0, 0x0"]
        order = code.order_in_loop_with_most("IGMMA")
        copies = [at for at, name in enumerate(order) if name == "LDGSTS"]
        assert order.index("BAR") < order.index("IGMMA") < copies[0]
        assert "WARPGROUP" not in order[order.index("IGMMA") : copies[-1]]

    def test_a_depthwise_tile_multiplies_words_of_rows(self, tmp_path: Path) -> None:
        """3 x 3 taps on tiles of 2 x 4: a word of four rows serves both rows and three columns of outputs."""
        knobs: dict[str, Value] = {"tile_rows": 2, "tile_columns": 4, "steps": 1}
        code = gpu_binaries.code_of("dwconv2d-u8s8-1x56x56x128-k3x3x1-s1-p1-float.c-u8", GPU, tmp_path, knobs)
        counts = Counter(name.split(".")[0] for _, name, _ in code.instructions)
        assert code.memory_bytes == 0
        assert counts["IDP"] == 2 * 4 * 3 * 4
        # Six columns, eight for each; the others put bytes together that are stored.
        assert 6 * 8 <= counts["PRMT"] <= 6 * 8 + 2 * 4 * 4

    @pytest.mark.thorough
    def test_a_depthwise_tile_that_goes_down_loads_only_new_rows(self, tmp_path: Path) -> None:
        """Two steps in turn load two rows of six columns each; half of their words is done already."""
        knobs: dict[str, Value] = {"tile_rows": 2, "tile_columns": 4, "threads": 64, "steps": 14}
        code = gpu_binaries.code_of("dwconv2d-u8s8-1x56x56x128-k3x3x1-s1-p0-float.c-u8", HOPPER, tmp_path, knobs)
        assert code.memory_bytes == 0
        loop = code.loop_with_most("IDP")
        assert loop["IDP"] == 2 * (2 * 4 * 3 * 4)
        assert loop["LDG"] == 2 * 2 * 6
        # Of each column two words of two rows, then four of four; no more than a few for stored bytes.
        assert 2 * 6 * 6 <= loop["PRMT"] <= 2 * 6 * 6 + 2 * 8
        # Of the 64 sums of a turn, with all that it takes to requantize, load and store them.
        assert loop.total() < 10 * 64

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    @pytest.mark.parametrize("profile", GPU_PROFILES)
    def test_every_layer_of_networks_has_a_kernel(self, profile: str, tmp_path: Path) -> None:
        layers = [layer for name in ("resnet18", "mobilenet_v2", "bert_base") for layer in load_network(name).layers]
        for key in dict.fromkeys(layer.workload.key for layer in layers):
            code = gpu_binaries.code_of(key, profile, tmp_path)
            assert code.memory_bytes == 0, key

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("roles", "tile", "copies"),
        [
            ("cooperative", {"block_rows": 128, "block_channels": 128, "thread_rows": 2, "thread_channels": 32}, 8),
            ("cooperative", {"block_rows": 192, "block_channels": 64, "thread_rows": 2, "thread_channels": 16}, 12),
            ("pingpong", {"block_rows": 128, "block_channels": 128, "thread_rows": 4, "thread_channels": 32}, 8),
        ],
    )
    def test_roles_have_instructions_of_their_own(
        self, roles: str, tile: Mapping[str, Value], copies: int, tmp_path: Path
    ) -> None:
        """Who copies has no products, one copy of all weights of a step, and as few registers as it is left with."""
        knobs: dict[str, Value] = {**tile, "block_depth": 128, "stages": 4, "splits": 1, "roles": roles}
        code = gpu_binaries.code_of(BIG, HOPPER, tmp_path, knobs, template_named("cuda.wgmma"))
        assert code.memory_bytes == 0
        names = Counter(name.split(".")[0] for _, name, _ in code.instructions)
        assert names["USETMAXREG"] == 2
        loop = code.loop_with_most("LDGSTS")
        assert (loop["LDGSTS"], loop["UBLKCP"], loop["IGMMA"]) == (copies, 1, 0)
        products = code.loop_with_most("IGMMA")
        assert products["IGMMA"] % 4 == 0
        assert products["LDGSTS"] == 0

    @pytest.mark.thorough
    @pytest.mark.parametrize("samples", [1, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
    @pytest.mark.parametrize("name", SMALL)
    def test_values_of_sampled_configs_stay_in_registers(self, name: str, samples: int, tmp_path: Path) -> None:
        profile = HOPPER if name == "cuda.wgmma" else GPU
        workload, target = parse_workload(BIG), any_target(profile)
        space = template_named(name).space(workload, target)
        rng = np.random.default_rng(3)
        for config in (space.sample(rng) for _ in range(samples)):
            code = gpu_binaries.code_of(BIG, profile, tmp_path, config, template_named(name))
            assert code.memory_bytes == 0, config


def test_spaces_keep_to_the_limits_of_each_gpu() -> None:
    workload, rng = parse_workload(BIG), np.random.default_rng(0)
    for gpu, name in itertools.product(GPUS, SMALL):
        if name == "cuda.wgmma" and gpu.profile != HOPPER:
            continue
        space = template_named(name).space(workload, gpu_target(gpu.profile))
        for config in (space.default, *(space.sample(rng) for _ in range(20))):
            form = gemm_form(image_of(workload), name.split(".")[1], config)  # type: ignore[arg-type]
            assert form.shared_bytes <= gpu.block_shared_bytes
            assert WARP <= form.threads <= 1024
            assert form.threads % WARP == 0
            assert resident_blocks(form, gpu) >= 1
            assert all(np.isfinite(value) for value in space.features(config).values())


def test_resident_blocks_are_those_of_nvidias_occupancy_tables() -> None:
    a100 = GPU_PROFILES[GPU]
    assert a100.resident_blocks(threads=128, shared_bytes=0, registers=32) == 16
    assert a100.resident_blocks(threads=128, shared_bytes=0, registers=255) == 2
    assert a100.resident_blocks(threads=128, shared_bytes=64 * 1024, registers=128) == 2
    assert a100.resident_blocks(threads=1024, shared_bytes=0, registers=64) == 1
    assert a100.resident_blocks(threads=1024, shared_bytes=0, registers=72) == 0


def test_a_gpu_is_its_newest_architecture_or_the_one_that_is_named() -> None:
    named = named_target(GPU)
    assert named == gpu_target(GPU)
    assert named.tvm == {"kind": "cuda", "arch": "sm_80"}
    assert target_for({"avx2", "cuda_sm_80"}, "znver5", "x86_64-linux-gnu", GPU) == named
    assert target_for({"avx2", "cuda_sm_75", "cuda_sm_80"}, "znver5", "x86_64-linux-gnu") == named
    with pytest.raises(UnknownTargetError, match=r"a GPU runs kernels of cuda-sm75, .*, not of `generic`"):
        target_for({"avx2", "cuda_sm_80"}, "znver5", "x86_64-linux-gnu", "generic")
    with pytest.raises(UnknownTargetError, match="no target is for this GPU, known: cuda-sm75, "):
        target_for({"avx2", "cuda_sm_200"}, "znver5", "x86_64-linux-gnu")
    with pytest.raises(UnknownTargetError, match="this device can't run `cuda-sm80`, it lacks: cuda_sm_80"):
        target_for({"avx2"}, "znver5", "x86_64-linux-gnu", GPU)
    with pytest.raises(UnknownTargetError, match=r"unknown GPU `cuda-sm1`, known: cuda-sm75, cuda-sm80, "):
        gpu_target("cuda-sm1")


def test_spaces_know_how_many_multiprocessors_the_device_has() -> None:
    """The outputs of this layer are too few for a large board, and enough for a small one."""
    workload = parse_workload("dense-u8s8-512x4096-o1024-float.c-u8")
    usual, most = targets_named(GPU)
    small, large = (target_for({"cuda_sm_80", f"cuda_multiprocessors_{count}"}, "", "", GPU) for count in (14, 1000))
    assert [target.gpu and target.gpu.multiprocessors for target in (small, usual, large)] == [14, 108, 1000]
    template = template_named("cuda.mma")
    split = {**template.space(workload, large).default, **TILES["cuda.mma"], "splits": 8}
    fault = "fewer blocks would leave multiprocessors idle"
    assert fault in (template.space(workload, small).fault(split) or "")
    assert template.space(workload, large).fault(split) is None
    assert template.space(workload, most).fault(split) is None
    features = [template.space(workload, target).features(split)["waves"] for target in (small, large)]
    assert features[0] == pytest.approx(features[1] * 1000 / 14)


def test_layers_find_their_templates() -> None:
    names = {op: template_for(parse_workload(key), any_target(GPU)).name for op, key in PLAIN.items()}
    assert template_for(parse_workload(CONV), any_target(HOPPER)).name == "cuda.wgmma"
    assert names == {
        "conv2d": "cuda.mma",
        "dwconv2d": "cuda.depthwise",
        "dense": "cuda.mma",
        "grouped": "cuda.dp4a",
        "first": "cuda.first",
    }

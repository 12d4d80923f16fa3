"""The config space of conv2d and dense on a GPU, and what its configs are expected to cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from int8tune.schedules.cuda.channel_order import WARP_CHANNELS
from int8tune.schedules.cuda.gemm_form import GROUP_ROWS, WARP_ROWS, GemmForm, gemm_form
from int8tune.schedules.gpus import (
    GROUP,
    MOST_BLOCKS_BESIDE,
    MOST_REGISTERS,
    MOST_THREADS,
    REGISTERS_OF_A_MULTIPROCESSOR,
    WARP,
    Gpu,
)
from int8tune.schedules.image import Image
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value, cheapest, sizes_up_to

_SIZES = (16, 32, 64, 128, 256)
BLOCK_ROWS = {"dp4a": _SIZES, "mma": _SIZES, "wgmma": (64, 128, 192, 256)}
BLOCK_CHANNELS = {"dp4a": _SIZES, "mma": _SIZES, "wgmma": (32, 64, 96, 128, 160, 192, 256)}
BLOCK_DEPTH = (32, 64, 128)
# Of a thread. Words have their operands in registers of each thread, of which more sums would leave too few.
MOST_SUMS = {"dp4a": 64, "mma": 128, "wgmma": 128}
STAGES = {"dp4a": (2, 3, 4, 5), "mma": (2, 3, 4, 5), "wgmma": (3, 4, 5, 6, 8)}
SPLITS = (1, 2, 4, 8, 16)
THREAD_ROWS = {"dp4a": (1, 2, 4, 8), "mma": (2, 4, 8), "wgmma": (2, 4)}
ROLES = ("uniform", "cooperative", "pingpong")
# Who adds the sums of splits, and the versions of the templates that brought the choice; blocks of a cluster.
ADDED, ADDED_SINCE, MOST_OF_A_CLUSTER = ("kernel", "cluster"), {"dp4a": 3, "mma": 3, "wgmma": 5}, 8
SMALLEST_CLUSTER = 2
THREAD_CHANNELS = {"dp4a": (4, 8, 16), "mma": (4, 8, 16), "wgmma": (8, 16, 24, 32, 40, 48, 64)}
# What a multiprocessor does in a cycle: products (NVIDIA's papers on its architectures; with DP4A four of each of 64
# lanes), bytes from and to shared memory, and bytes of its share of the second-level cache.
PRODUCTS = {"dp4a": 256, "mma": 2048, "wgmma": 4096}
SHARED_BYTES, CACHE_BYTES, SUM_BYTES = 128, 32, 4
# Cycles from a copy's beginning to its first bytes, of a step's waits and barrier, and of a launch: guesses, of the
# order of what is published.
COPY_CYCLES, STEP_CYCLES, LAUNCH_CYCLES = 600, 60, 3000
# Of `wgmma`, fitted to 973 kernels of 73 layers on an H200 (docs/performance-gpu.md): bytes that a multiprocessor
# copies in a cycle; cycles of a step's waits and barrier, and of the shortest step with roles; of 16 bytes of a window,
# whose taps are bits or not; of an output; from a copy's beginning to its first bytes, of the start of roles, and of a
# second kernel; outputs that the whole board writes in a cycle.
GROUP_COPIED_BYTES, GROUP_STEP_CYCLES, ROLE_STEP_CYCLES = 150, 79, 271
TAP_BITS_COPY_CYCLES, WINDOW_COPY_CYCLES, GROUP_OUTPUT_CYCLES = 0.454, 0.389, 0.043
GROUP_COPY_CYCLES, ROLE_START_CYCLES, GROUP_LAUNCH_CYCLES, WRITTEN_BYTES = 896, 1022, 1736, 4284
# Of partial sums: bytes that the whole board moves in a cycle between blocks of clusters, and to memory and back; until
# a cluster's blocks have added theirs, and for each of them; and the share of a board's blocks that clusters of more
# than two can be, as they don't fill each group of its multiprocessors.
SENT_BYTES, MOVED_BYTES = 5426, 2300
CLUSTER_CYCLES, CLUSTER_BLOCK_CYCLES, CLUSTERS_SHARE = 648, 215, 7 / 8
MOST_PARTIAL_SUMS = 1 << 28
# Of four warps that multiply one tile, beside the four that copy.
MOST_GROUPS = 4
# How long a default's partial sums may be on their way, for each cycle that whole tiles multiply: what a split spares
# is a part of that.
MOST_MOVING = 1.25
Rule = tuple[str, Callable[[GemmForm], bool]]


@lru_cache(maxsize=64)
def gemm_space(image: Image, products: str, gpu: Gpu) -> ConfigSpace:
    """The decisions of a convolution."""
    rows = image.batch * math.prod(image.output)
    knobs = (
        Knob("block_rows", sizes_up_to(BLOCK_ROWS[products], rows)),
        Knob("block_channels", sizes_up_to(BLOCK_CHANNELS[products], image.group_outputs)),
        Knob("block_depth", BLOCK_DEPTH),
        Knob("thread_rows", THREAD_ROWS[products]),
        Knob("thread_channels", THREAD_CHANNELS[products]),
        Knob("stages", STAGES[products]),
        Knob("splits", SPLITS),
        Knob("outer", ("weights", "image")),
        *([Knob("roles", ROLES, before="uniform", since=4)] if products == "wgmma" else []),
        Knob("added", ADDED if gpu.has_clusters else ADDED[:1], before=ADDED[0], since=ADDED_SINCE[products]),
    )

    @lru_cache(maxsize=4096)
    def form_of(*values: tuple[str, Value]) -> GemmForm:
        return gemm_form(image, products, dict(values))

    def form(config: Mapping[str, Value]) -> GemmForm:
        return form_of(*config.items())

    def constraint(text: str, holds: Callable[[GemmForm], bool]) -> Constraint:
        return Constraint(text, lambda config: holds(form(config)))

    constraints = tuple(constraint(*rule) for rule in _rules(products, gpu))
    choices = {knob.name: knob.choices for knob in knobs} | {"outer": ("weights",)}
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=_default(choices, constraints, form, gpu),
        features=lambda config: _features(form(config), gpu),
    )


def _default(
    choices: Mapping[str, tuple[Value, ...]],
    constraints: tuple[Constraint, ...],
    form: Callable[[Mapping[str, Value]], GemmForm],
    gpu: Gpu,
) -> Config:
    """The config that is expected to be fastest: a tile, with the usual stages; then its splits and stages.

    Where a multiprocessor has one block at most, no other one works while that waits for its copies, and none needs the
    shared memory: there it has as many stages as its steps can use, even where copies are not expected to be late. With
    roles it has as many as there is room for: they are filled for the next tile, too.
    """
    usual = choices["stages"][1]

    def cost(config: Mapping[str, Value]) -> float:
        return expected_cycles(form(config), gpu)

    def is_deep_alone(config: Mapping[str, Value]) -> bool:
        own = form(config)
        return (
            own.stages == usual or own.has_roles or (own.blocks <= gpu.multiprocessors and own.ahead <= own.split_steps)
        )

    def is_worth_splitting(config: Mapping[str, Value]) -> bool:
        own = form(config)
        return own.splits == 1 or partial_cycles(own, gpu) <= MOST_MOVING * _whole_tiles_cycles(own, gpu)

    tile = cheapest({**choices, "stages": (usual,), "added": ADDED[:1]}, constraints, cost)
    own = {name: (value,) for name, value in tile.items()}
    deeper = {"stages": choices["stages"][:0:-1], "splits": choices["splits"], "added": choices["added"]}
    alone = Constraint("more stages than usual are for a multiprocessor's only block, and all are used", is_deep_alone)
    worth = Constraint("partial sums are on their way for little longer than whole tiles multiply", is_worth_splitting)
    return cheapest({**own, **deeper}, (*constraints, alone, worth), cost)


def _rules(products: str, gpu: Gpu) -> tuple[Rule, ...]:
    """What a form must be, and its name."""
    return (
        ("warps divide a block's tile", _warps_fit),
        (f"a block has {WARP} to {MOST_THREADS} threads", lambda form: WARP <= form.threads <= MOST_THREADS),
        (
            f"a thread has at most {MOST_SUMS[products]} sums",
            lambda form: form.thread_rows * form.thread_channels <= MOST_SUMS[products],
        ),
        ("each thread copies a unit of a row at least", _copies_evenly),
        (
            f"stages take at most {gpu.block_shared_bytes} bytes of shared memory",
            lambda form: form.shared_bytes <= gpu.block_shared_bytes,
        ),
        (
            f"a thread has at most {MOST_REGISTERS} registers, a block {REGISTERS_OF_A_MULTIPROCESSOR}",
            lambda form: form.registers <= form.most_registers and resident_blocks(form, gpu) > 0,
        ),
        (
            "with roles, units of 4 bytes or more are copied, tiles are not split, and at most "
            f"{MOST_GROUPS} times four warps multiply one, or four in turn with four others",
            _roles_fit,
        ),
        (
            f"blocks of a cluster share a tile's depth, at most {MOST_OF_A_CLUSTER} of them with the same part each",
            _clusters_fit,
        ),
        ("each split has steps of its own, and fewer blocks would leave multiprocessors idle", _splits_help(gpu)),
        (
            f"at most {MOST_BLOCKS_BESIDE} blocks lie beside each other",
            lambda form: form.outer == "weights" or form.row_tiles <= MOST_BLOCKS_BESIDE,
        ),
    )


def _warps_fit(form: GemmForm) -> bool:
    if form.products == "dp4a":
        return form.block_rows % form.thread_rows == 0 and form.block_channels >= 4 * form.thread_channels
    rows = (GROUP_ROWS if form.products == "wgmma" else WARP_ROWS) * form.thread_rows
    channels = WARP_CHANNELS * form.thread_channels
    return form.block_rows % rows == 0 and form.block_channels % channels == 0


def _copies_evenly(form: GemmForm) -> bool:
    copying = form.copying_threads
    return copying % form.units == 0 and form.block_rows * form.units % copying == 0


def _roles_fit(form: GemmForm) -> bool:
    if not form.has_roles:
        return True
    if form.unit == 1 or form.splits > 1:
        return False
    return form.tile_threads == GROUP if form.roles == "pingpong" else form.tile_threads <= MOST_GROUPS * GROUP


def _clusters_fit(form: GemmForm) -> bool:
    if not form.is_joined:
        return True
    return 1 < form.splits <= MOST_OF_A_CLUSTER and form.block_rows % form.splits == 0


def _splits_help(gpu: Gpu) -> Callable[[GemmForm], bool]:
    def holds(form: GemmForm) -> bool:
        if form.splits == 1:
            return True
        idle = form.blocks // form.splits < 2 * gpu.multiprocessors
        is_used = (form.splits - 1) * form.split_steps < form.steps
        return idle and is_used and form.partial_sums <= MOST_PARTIAL_SUMS

    return holds


def resident_blocks(form: GemmForm, gpu: Gpu) -> int:
    """Blocks that a multiprocessor has at once."""
    registers = form.launch_registers if form.has_roles else form.registers
    return gpu.resident_blocks(form.threads, form.shared_bytes, registers)


def expected_cycles(form: GemmForm, gpu: Gpu) -> float:
    """Cycles of a kernel, without what each one's launch takes: of `wgmma` as measured, else a rough count."""
    resident = resident_blocks(form, gpu)
    if resident == 0:
        return math.inf
    return _group_cycles(form, gpu, resident) if form.is_grouped else _counted_cycles(form, gpu, resident)


def _group_cycles(form: GemmForm, gpu: Gpu, resident: int) -> float:
    """What a block's tiles take one after the other, or blocks in waves."""
    products = form.block_rows * form.block_channels * form.block_depth / PRODUCTS[form.products]
    copied = form.stage_bytes / GROUP_COPIED_BYTES
    # Four warps read their own rows and channels; copies are written there, too.
    read = form.tile_threads // WARP * form.block_depth * _bytes_of_a_warp(form)
    products = max(products, (read + form.stage_bytes) / SHARED_BYTES)
    outputs = form.block_rows * form.block_channels
    stored = outputs * GROUP_OUTPUT_CYCLES
    if form.is_window:
        each = TAP_BITS_COPY_CYCLES if form.has_tap_bits else WINDOW_COPY_CYCLES
        copied = max(copied, form.block_rows * form.chunks * each * GROUP / form.copying_threads)
    if form.has_roles:
        multiplied = form.steps * max(products, copied, ROLE_STEP_CYCLES)
        tiles = math.ceil(form.tiles / gpu.multiprocessors)
        taken = tiles * (multiplied + stored)
        if form.roles == "pingpong":
            # One team stores while the other one multiplies; each has every second tile.
            taken = max(tiles * multiplied + stored, math.ceil(tiles / 2) * (multiplied + stored))
        taken += GROUP_COPY_CYCLES + ROLE_START_CYCLES
    else:
        share = CLUSTERS_SHARE if form.is_joined and form.splits > SMALLEST_CLUSTER else 1
        waves = math.ceil(form.blocks / (share * resident * gpu.multiprocessors))
        together = min(resident, math.ceil(form.blocks / gpu.multiprocessors))
        waiting = (GROUP_COPY_CYCLES + copied) / min(form.ahead, form.split_steps)
        step = max(together * products, together * copied, waiting) + GROUP_STEP_CYCLES
        taken = waves * (form.split_steps * step + GROUP_COPY_CYCLES + together * stored)
    if form.splits > 1:
        added = CLUSTER_CYCLES + CLUSTER_BLOCK_CYCLES * form.splits if form.is_joined else GROUP_LAUNCH_CYCLES
        taken += added + 2 * SUM_BYTES * form.split_sums / (SENT_BYTES if form.is_joined else MOVED_BYTES)
    return taken + form.tiles * outputs / WRITTEN_BYTES


def _counted_cycles(form: GemmForm, gpu: Gpu, resident: int) -> float:
    """A count, of no measurement: products, shared memory and copies of a step beside each other, in waves."""
    products = form.block_rows * form.block_channels * form.block_depth / PRODUCTS[form.products]
    read = form.warps * form.block_depth * _bytes_of_a_warp(form) / SHARED_BYTES
    copied = form.stage_bytes / CACHE_BYTES
    step = max(products, read + form.stage_bytes / SHARED_BYTES, copied)
    # So many copies are on their way at once; stages beyond the steps stay empty.
    waiting = (COPY_CYCLES + copied) / min(form.ahead, form.split_steps)
    waves = math.ceil(form.blocks / (resident * gpu.multiprocessors))
    together = min(resident, math.ceil(form.blocks / gpu.multiprocessors))
    outputs = form.block_rows * form.block_channels / SHARED_BYTES
    block = form.split_steps * (max(together * step, waiting) + STEP_CYCLES) + COPY_CYCLES + together * outputs
    if form.splits == 1:
        return waves * block
    if form.is_joined:
        return waves * block + CLUSTER_CYCLES + CLUSTER_BLOCK_CYCLES * form.splits
    return waves * block + LAUNCH_CYCLES + partial_cycles(form, gpu)


def _whole_tiles_cycles(form: GemmForm, gpu: Gpu) -> float:
    """How long the products of a tile take where nobody shares its depth, of as many as a multiprocessor has."""
    step = form.block_rows * form.block_channels * form.block_depth / PRODUCTS[form.products]
    return math.ceil(form.blocks / form.splits / gpu.multiprocessors) * form.steps * step


def partial_cycles(form: GemmForm, gpu: Gpu) -> float:
    """How long partial sums are written to memory and read again, which the whole board does together."""
    return 2 * SUM_BYTES * form.partial_sums / (gpu.memory_bytes * gpu.multiprocessors)


def _bytes_of_a_warp(form: GemmForm) -> int:
    """Rows and channels that a warp reads from shared memory, counted for each thread where that reads its own."""
    if form.products == "mma":
        return WARP_ROWS * form.thread_rows + WARP_CHANNELS * form.thread_channels
    if form.products == "wgmma":
        return WARP_ROWS * form.thread_rows + form.thread_channels
    return WARP * (form.thread_rows + form.thread_channels)


def _features(form: GemmForm, gpu: Gpu) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    resident = resident_blocks(form, gpu)
    real = form.rows * form.image.out_channels * form.taps * form.image.group_channels
    made = form.blocks * form.block_rows * form.block_channels * form.split_steps * form.block_depth
    return {
        "expected_cycles": expected_cycles(form, gpu),
        "blocks": form.blocks,
        "waves": form.blocks / (resident * gpu.multiprocessors),
        "resident_warps": resident * form.warps,
        "registers": form.registers,
        "shared_bytes": form.shared_bytes,
        "steps": form.split_steps,
        "waste": made / real,
        "products_per_shared_byte": form.thread_rows * form.thread_channels / (form.thread_rows + form.thread_channels),
        "products_per_copied_byte": form.block_rows * form.block_channels / (form.block_rows + form.block_channels),
        "unit": form.unit,
        "splits": form.splits,
        "is_joined": float(form.is_joined),
        "partial_bytes": 2 * SUM_BYTES * form.partial_sums,
        "ahead": min(form.ahead, form.split_steps),
    }

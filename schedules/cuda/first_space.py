"""The config space of first layers on a GPU, and what its configs are expected to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from int8tune.schedules.cuda.channel_order import CHUNK_BYTES
from int8tune.schedules.cuda.first_form import LANE_OUTPUTS, FirstForm, first_form
from int8tune.schedules.gpus import MOST_REGISTERS, REGISTERS_OF_A_MULTIPROCESSOR, WARP, Gpu
from int8tune.schedules.image import Image
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest, sizes_up_to

# Four warps have a band of 16 outputs each, whatever the size of the image.
FEWEST_TILE_ROWS, MORE_TILE_ROWS, TILE_COLUMNS = (1, 2, 4), 8, (16, 32, 64, 128)
BLOCK_CHANNELS = (32, 64, 96, 128)
THREADS = (128, 256)
MOST_SUMS = 128
# Instructions of a warp that a multiprocessor begins in a cycle; a guess of what an output, a word of the image and a
# product take of them, and of the cycles that a block, and a turn of it, wait.
SCHEDULERS = 4
OUTPUT_INSTRUCTIONS, COPY_INSTRUCTIONS, MATRIX_CYCLES = 9, 24, {"mma": 8, "wgmma": 4}
BLOCK_CYCLES, TURN_CYCLES = 1500, 500
WRITTEN_BYTES = 950


@lru_cache(maxsize=64)
def first_space(image: Image, gpu: Gpu) -> ConfigSpace:
    """The decisions of a first layer."""
    height, width = image.output
    knobs = (
        Knob("products", ("wgmma", "mma") if gpu.has_group_products else ("mma",)),
        Knob("tile_rows", (*FEWEST_TILE_ROWS, MORE_TILE_ROWS) if height > FEWEST_TILE_ROWS[-1] else FEWEST_TILE_ROWS),
        Knob("tile_columns", sizes_up_to(TILE_COLUMNS, width)),
        Knob("bands", (1, 2)),
        Knob("block_channels", sizes_up_to(BLOCK_CHANNELS, image.out_channels)),
        Knob("threads", THREADS),
    )

    def form(config: Mapping[str, Value]) -> FirstForm:
        return first_form(image, config)

    def divides(config: Mapping[str, Value]) -> bool:
        own = form(config)
        return own.turns * own.bands * own.warps * 16 == own.tile_rows * own.tile_columns

    def fits(config: Mapping[str, Value]) -> bool:
        own = form(config)
        is_few = LANE_OUTPUTS * own.bands * own.thread_channels <= MOST_SUMS and own.registers <= MOST_REGISTERS
        return is_few and own.registers * own.threads <= REGISTERS_OF_A_MULTIPROCESSOR

    constraints = (
        Constraint("warps have the same number of bands of 16 outputs", divides),
        Constraint(f"a thread has at most {MOST_SUMS} sums and {MOST_REGISTERS} registers", fits),
        Constraint(
            f"weights and image take at most {gpu.block_shared_bytes} bytes of shared memory",
            lambda config: form(config).shared_bytes <= gpu.block_shared_bytes,
        ),
    )
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=cheapest(
            {knob.name: knob.choices for knob in knobs}, constraints, lambda config: expected_cycles(form(config), gpu)
        ),
        features=lambda config: _features(form(config), gpu),
    )


def expected_cycles(form: FirstForm, gpu: Gpu) -> float:
    """A rough count, of no measurement: what blocks issue, or wait for, in waves; and what is written."""
    resident = max(1, gpu.resident_blocks(form.threads, form.shared_bytes, form.registers))
    waves = math.ceil(form.blocks / (resident * gpu.multiprocessors))
    together = min(resident, math.ceil(form.blocks / gpu.multiprocessors))
    lines = math.ceil(form.patch_words / WARP) * form.patch_rows
    copied = lines * COPY_INSTRUCTIONS + 3 * form.weight_bytes / CHUNK_BYTES / WARP
    bands = form.turns * form.bands * form.warps
    issued = copied + bands * LANE_OUTPUTS * (2 * form.lane_words + OUTPUT_INSTRUCTIONS * form.thread_channels)
    products = bands * form.matrices * form.block_channels / 8 * MATRIX_CYCLES[form.products]
    busy = together * max(issued, products) / SCHEDULERS
    taken = waves * max(busy, BLOCK_CYCLES + form.turns * TURN_CYCLES)
    return taken + math.prod(form.image.output) * form.image.batch * form.image.out_channels / WRITTEN_BYTES


def _features(form: FirstForm, gpu: Gpu) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    resident = gpu.resident_blocks(form.threads, form.shared_bytes, min(form.registers, MOST_REGISTERS))
    outputs = form.image.batch * math.prod(form.image.output)
    return {
        "expected_cycles": expected_cycles(form, gpu),
        "blocks": form.blocks,
        "waves": form.blocks / max(resident * gpu.multiprocessors, 1),
        "resident_warps": resident * form.warps,
        "registers": form.registers,
        "shared_bytes": form.shared_bytes,
        "turns": form.turns,
        "waste": form.tiles * form.tile_rows * form.tile_columns / outputs,
        "words_per_output": form.patch_rows * form.patch_words / (form.tile_rows * form.tile_columns),
        "by_four_warps": float(form.products == "wgmma"),
    }

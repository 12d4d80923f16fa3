"""The config space of depthwise convolutions on a GPU, and what its configs are expected to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from int8tune.schedules.cuda.depthwise_form import CHANNELS, DepthwiseForm, can_walk, depthwise_form
from int8tune.schedules.gpus import MOST_REGISTERS, REGISTERS_OF_A_MULTIPROCESSOR, WARP, Gpu
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import tile_sizes
from int8tune.schedules.workload import DepthwiseConv2d

TILE_ROWS, MOST_COLUMNS, STEPS = (1, 2, 4), 8, (1, 2, 4, 7, 14)
THREADS = (64, 128, 256)
# Of a multiprocessor: instructions in a cycle, each of a warp.
SCHEDULERS = 4
# Fitted to 1,000 kernels of 30 layers on an H200 (docs/performance-gpu.md), those that go down the image apart:
# registers for each one that the form counts, and cycles of a lone warp's instruction; then how instructions grow
# where there are not so many registers, cycles of an instruction beside others', cycles until a warp's first values are
# there, and bytes of the image and of outputs that a multiprocessor gets and gives in a cycle.
REGISTERS_SHARE, INSTRUCTION_CYCLES = {False: 0.83, True: 1.28}, {False: 2.0, True: 2.8}
SPILL_POWER, ISSUE_CYCLES, LOAD_CYCLES, MOVED_BYTES = 3.0, 1.45, 3140, 4.7


@lru_cache(maxsize=64)
def depthwise_space(workload: DepthwiseConv2d, gpu: Gpu) -> ConfigSpace:
    """The decisions of a depthwise convolution."""
    height, width = workload.window.output_size(workload.height, workload.width)
    knobs = (
        Knob("tile_rows", tuple(rows for rows in TILE_ROWS if rows <= height)),
        Knob("tile_columns", tile_sizes(width, MOST_COLUMNS)),
        Knob("threads", THREADS),
        Knob("steps", _steps(workload, height), before=1, since=4),
    )

    def form(config: Mapping[str, Value]) -> DepthwiseForm:
        return depthwise_form(workload, config)

    def may_walk(config: Mapping[str, Value]) -> bool:
        return _may_walk(workload, int(config["tile_rows"]), int(config["steps"]), height)

    def fits(config: Mapping[str, Value]) -> bool:
        is_smallest = (config["tile_rows"], config["tile_columns"]) == (1, knobs[1].choices[0])
        registers = form(config).registers
        of_block = registers * int(config["threads"])
        return is_smallest or (registers <= MOST_REGISTERS and of_block <= REGISTERS_OF_A_MULTIPROCESSOR)

    text = f"a thread of more than one column has at most {MOST_REGISTERS} registers"
    walks = f"only tiles whose words are half new go down the image, no further than its {height} rows"
    constraints = (Constraint(walks, may_walk), Constraint(text, fits))
    choices = {knob.name: knob.choices for knob in knobs}
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=cheapest(choices, constraints, lambda config: expected_cycles(form(config), gpu)),
        features=lambda config: _features(form(config), gpu),
    )


def _steps(workload: DepthwiseConv2d, height: int) -> tuple[int, ...]:
    """Those that tiles of some size may take."""
    rows = [size for size in TILE_ROWS if size <= height]
    return tuple(steps for steps in STEPS if any(_may_walk(workload, size, steps, height) for size in rows))


def _may_walk(workload: DepthwiseConv2d, tile_rows: int, steps: int, height: int) -> bool:
    return steps == 1 or (can_walk(workload, tile_rows) and (steps - 1) * tile_rows < height)


def expected_cycles(form: DepthwiseForm, gpu: Gpu) -> float:
    """Waves of blocks: what their warps issue together, or what one of them takes that waits for itself."""
    registers = math.ceil(form.registers * REGISTERS_SHARE[form.walks])
    instructions = form.instructions * math.pow(max(1.0, registers / MOST_REGISTERS), SPILL_POWER)
    resident = max(1, gpu.resident_blocks(form.threads, 0, min(MOST_REGISTERS, registers)))
    blocks = math.ceil(form.tiles / form.threads)
    together = min(resident, math.ceil(blocks / gpu.multiprocessors))
    issued = instructions * ISSUE_CYCLES * together * form.threads / WARP / SCHEDULERS
    waves = blocks / (resident * gpu.multiprocessors)
    # Blocks that go down the image end one after the other: half of a last wave is free.
    turns = (math.ceil(waves) + max(1.0, waves)) / 2 if form.walks else math.ceil(waves)
    moved = math.prod(form.workload.data_shape) + math.prod(form.workload.output_shape)
    computed = turns * max(issued, instructions * INSTRUCTION_CYCLES[form.walks] + LOAD_CYCLES)
    return computed + moved / (MOVED_BYTES * gpu.multiprocessors)


def _features(form: DepthwiseForm, gpu: Gpu) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    outputs = form.walked_rows * form.tile_columns
    registers = min(form.registers, MOST_REGISTERS)
    resident = gpu.resident_blocks(form.threads, 0, registers)
    return {
        "expected_cycles": expected_cycles(form, gpu),
        "instructions_per_output": form.instructions / (outputs * CHANNELS),
        "words_per_output": form.rows_read * len(form.columns) / outputs,
        "registers": form.registers,
        "resident_warps": resident * form.threads / WARP,
        "waves": form.tiles / form.threads / max(resident * gpu.multiprocessors, 1),
        "waste": form.tiles * outputs * CHANNELS / math.prod(form.workload.output_shape),
        "gathers": float(form.gathers),
    }

"""The config space of depthwise convolutions on a GPU, and what its configs are expected to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from int8tune.schedules.cuda.depthwise_form import CHANNELS, DepthwiseForm, depthwise_form
from int8tune.schedules.gpus import MOST_REGISTERS, REGISTERS_OF_A_MULTIPROCESSOR, WARP, Gpu
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import tile_sizes
from int8tune.schedules.workload import DepthwiseConv2d

TILE_ROWS, MOST_COLUMNS = (1, 2, 4), 8
THREADS = (64, 128, 256)
# Of a multiprocessor: instructions in a cycle, each of a warp.
SCHEDULERS = 4
# Fitted to 30 layers on an H200 (docs/performance-gpu.md): registers for each one that the form counts; how
# instructions grow where there are not so many; cycles of an instruction beside others', and of a lone warp's, and
# until its first values are there.
REGISTERS_SHARE, SPILL_POWER = 1.97, 1.32
ISSUE_CYCLES, INSTRUCTION_CYCLES, LOAD_CYCLES = 1.26, 2.39, 450


@lru_cache(maxsize=64)
def depthwise_space(workload: DepthwiseConv2d, gpu: Gpu) -> ConfigSpace:
    """The decisions of a depthwise convolution."""
    height, width = workload.window.output_size(workload.height, workload.width)
    knobs = (
        Knob("tile_rows", tuple(rows for rows in TILE_ROWS if rows <= height)),
        Knob("tile_columns", tile_sizes(width, MOST_COLUMNS)),
        Knob("threads", THREADS),
    )

    def form(config: Mapping[str, Value]) -> DepthwiseForm:
        return depthwise_form(workload, config)

    def fits(config: Mapping[str, Value]) -> bool:
        is_smallest = (config["tile_rows"], config["tile_columns"]) == (1, knobs[1].choices[0])
        registers = form(config).registers
        of_block = registers * int(config["threads"])
        return is_smallest or (registers <= MOST_REGISTERS and of_block <= REGISTERS_OF_A_MULTIPROCESSOR)

    text = f"a thread of more than one column has at most {MOST_REGISTERS} registers"
    constraints = (Constraint(text, fits),)
    choices = {knob.name: knob.choices for knob in knobs}
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=cheapest(choices, constraints, lambda config: expected_cycles(form(config), gpu)),
        features=lambda config: _features(form(config), gpu),
    )


def expected_cycles(form: DepthwiseForm, gpu: Gpu) -> float:
    """Waves of blocks: what their warps issue together, or what one of them takes that waits for itself."""
    registers = math.ceil(form.registers * REGISTERS_SHARE)
    instructions = form.instructions * math.pow(max(1.0, registers / MOST_REGISTERS), SPILL_POWER)
    resident = max(1, gpu.resident_blocks(form.threads, 0, min(MOST_REGISTERS, registers)))
    blocks = math.ceil(form.tiles / form.threads)
    together = min(resident, math.ceil(blocks / gpu.multiprocessors))
    issued = instructions * ISSUE_CYCLES * together * form.threads / WARP / SCHEDULERS
    waves = math.ceil(blocks / (resident * gpu.multiprocessors))
    return waves * max(issued, instructions * INSTRUCTION_CYCLES + LOAD_CYCLES)


def _features(form: DepthwiseForm, gpu: Gpu) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    outputs = form.tile_rows * form.tile_columns
    registers = min(form.registers, MOST_REGISTERS)
    resident = gpu.resident_blocks(form.threads, 0, registers)
    return {
        "expected_cycles": expected_cycles(form, gpu),
        "instructions_per_output": form.instructions / (outputs * CHANNELS),
        "words_per_output": len(form.rows) * len(form.columns) / outputs,
        "registers": form.registers,
        "resident_warps": resident * form.threads / WARP,
        "waves": form.tiles / form.threads / max(resident * gpu.multiprocessors, 1),
        "waste": form.tiles * outputs * CHANNELS / math.prod(form.workload.output_shape),
        "gathers": float(form.gathers),
    }

"""The config space of an ARM depthwise convolution, and what its configs are estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.arm.depthwise_form import DepthwiseForm, depthwise_form
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import tile_sizes
from int8tune.schedules.workload import DepthwiseConv2d

MAX_TILE_COLUMNS = 8
TILE_CHANNELS = (8, 16)
# Registers of sums that leave enough of the 32 for operands and products; and how many leave plenty.
MOST_SUMS, FEW_SUMS = 20, 16
# What llvm-mca's model of a Cortex-A53 takes, roughly: for each register of data, each output, each tile; for each
# register beyond those that sums and a row of data may take; and for so many sums.
LOAD_CYCLES, OUTPUT_CYCLES, TILE_CYCLES = 3, 1.35, 50
PLENTY, SPILL_CYCLES, CROWDED = 20, 18, 1.3
COPY_CYCLES_PER_BYTE = 0.3


def depthwise_space(workload: DepthwiseConv2d, threads: int) -> ConfigSpace:
    """The decisions of a depthwise convolution."""
    numerics, width = workload.numerics, workload.window.output_size(workload.height, workload.width)[1]
    symmetric = numerics.weight == "s8" and not numerics.weight_zero_point
    knobs = (
        Knob("products", ("pairs", "wide") if symmetric else ("wide",)),
        Knob("tile_columns", tile_sizes(width, MAX_TILE_COLUMNS)),
        Knob("tile_channels", TILE_CHANNELS if workload.channels > TILE_CHANNELS[0] else TILE_CHANNELS[:1]),
        Knob("outer", ("channels", "image")),
    )

    def form(config: Mapping[str, Value]) -> DepthwiseForm:
        return depthwise_form(workload, config, threads)

    constraints = (
        Constraint(f"a tile has at most {MOST_SUMS} registers of sums", lambda config: form(config).sums <= MOST_SUMS),
    )
    choices = {knob.name: knob.choices for knob in knobs} | {"outer": ("channels",)}
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=cheapest(choices, constraints, lambda config: estimated_cycles(form(config))),
        features=lambda config: _features(form(config)),
    )


def estimated_cycles(form: DepthwiseForm) -> float:
    """A rough count for an in-order core, of the thread with the largest share."""
    work, columns, eights = form.workload, form.tile_columns, form.tile_channels // 8
    kernel_rows, loaded = work.window.kernel[0], form.columns_read
    loads = kernel_rows * loaded * LOAD_CYCLES + form.taps
    if form.is_paired:
        products = columns * eights * (form.taps + 2 * math.ceil(form.taps / 2))
    else:
        products = columns * eights * 2 * form.taps
        loads += kernel_rows * loaded * eights + form.taps * (eights - 1)
    spilled = max(0, form.sums + loaded - PLENTY) * SPILL_CYCLES * kernel_rows / 3
    tile = products + loads + spilled + OUTPUT_CYCLES * columns * form.tile_channels + TILE_CYCLES
    if form.sums > FEW_SUMS:
        tile *= CROWDED
    copied = work.batch * work.height * work.width * work.channels * COPY_CYCLES_PER_BYTE if form.copies else 0
    return tile * form.largest_share + copied / form.threads


def _features(form: DepthwiseForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    work = form.workload
    tiles = form.tiles_of_a_row * form.channel_tiles * work.batch * form.output[0]
    return {
        "estimated_cycles": estimated_cycles(form),
        "sums": form.sums,
        "loads_per_output": form.columns_read * work.window.kernel[0] / form.tile_columns,
        "waste": tiles * form.tile_columns * form.tile_channels / math.prod(work.output_shape),
        "row_bytes": work.width * work.channels,
        "image_bytes": work.batch * work.height * work.width * work.channels,
        "tiles": tiles,
        "channels_outer": float(form.outer == "channels"),
        "copies": float(form.copies),
        "widened": float(form.products == "wide"),
    }

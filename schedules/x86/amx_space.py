"""The config space of conv2d and dense on AMX, and what its configs are estimated to cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

from schedules.image import Image
from schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from schedules.x86.amx_form import LANES, REGISTER_ROWS, ROW_BYTES, TILE_REGISTERS, AmxForm
from schedules.x86.conv_form import largest_share

MAX_TILE_ROWS, MAX_DATA_TILES, MAX_CHANNEL_TILES = 8, 6, 6
# Of `estimated_cycles`, fitted to 1,400 measurements of 104 layers on a Xeon of 2025: of a product of two registers; of
# loading one, and what that takes longer where data or weights come from the second-level cache, and weights from
# beyond; of a register of sums that becomes bytes; of a part that is stored alone, and beside products.
PRODUCT_CYCLES, LOAD_CYCLES = 25, 14
FAR_DATA_CYCLES, FAR_WEIGHT_CYCLES, FARTHER_WEIGHT_CYCLES = 13, 17, 29
SUMS_CYCLES, PART_CYCLES, BESIDE_CYCLES = 80, 9, 2
# What a core reads of another's second-level cache in a cycle.
FOREIGN_BYTES = 4
# What stays in the first-level cache, and in the second.
NEAR_BYTES, FAR_BYTES = 24 << 10, 3 << 19


def amx_form(image: Image, config: Mapping[str, Value], threads: int) -> AmxForm:
    """The form of one config."""
    return AmxForm(
        image,
        tile_columns=int(config["tile_columns"]),
        tile_rows=int(config["tile_rows"]),
        tile_registers=int(config["tile_registers"]),
        outer=str(config["outer"]),
        store=str(config["store"]),
        threads=threads,
    )


def amx_space(image: Image, threads: int) -> ConfigSpace:
    """The decisions of a convolution."""
    height, width = image.output
    knobs = (
        Knob(
            "tile_columns",
            tuple(sorted({_evenly(width, REGISTER_ROWS * count) for count in range(1, MAX_DATA_TILES + 1)})),
        ),
        Knob("tile_rows", tuple(range(1, min(height, MAX_TILE_ROWS) + 1))),
        Knob("tile_registers", tuple(range(1, min(math.ceil(image.out_channels / LANES), MAX_CHANNEL_TILES) + 1))),
        Knob("outer", ("weights", "image")),
        Knob("store", ("after", "beside")),
    )

    def form(config: Mapping[str, Value]) -> AmxForm:
        return amx_form(image, config, threads)

    constraints = (
        Constraint(
            f"sums and operands fit {TILE_REGISTERS} registers", lambda c: form(c).used_registers <= TILE_REGISTERS
        ),
    )
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=_default(knobs, constraints, form),
        features=lambda config: _features(form(config)),
    )


def _evenly(extent: int, largest: int) -> int:
    """The smallest size that covers an axis with as many blocks as the largest size does."""
    return math.ceil(extent / math.ceil(extent / largest))


def _default(knobs: tuple[Knob, ...], constraints: tuple[Constraint, ...], form: Callable[[Config], AmxForm]) -> Config:
    """The config with the fewest estimated cycles; of equal ones the first."""
    choices = itertools.product(*(knob.choices for knob in knobs))
    configs = [dict(zip((knob.name for knob in knobs), values, strict=True)) for values in choices]
    valid = [config for config in configs if all(constraint.holds(config) for constraint in constraints)]
    return min(valid, key=lambda config: estimated_cycles(form(config)))


def estimated_cycles(form: AmxForm) -> float:
    """A rough count, of the thread with the largest share."""
    sums = len(form.data_tiles) * form.tile_registers
    stored = sums * SUMS_CYCLES + form.parts * (BESIDE_CYCLES if form.pipelined else PART_CYCLES)
    block = form.steps * max(sums * PRODUCT_CYCLES, _load_cycles(form)) + stored
    rows = form.image.batch * math.ceil(form.image.output[0] / form.tile_rows)
    blocks = largest_share(form.outer, form.threads, form.channel_tiles, rows, form.tiles_of_a_row)
    return blocks * block + _foreign_bytes(form) / FOREIGN_BYTES


def _foreign_bytes(form: AmxForm) -> float:
    """Of the copied image, what a thread reads that another one has copied: all rows where threads share channels."""
    image = form.image
    if not form.copies or form.threads == 1 or form.outer == "image":
        return 0.0
    return image.batch * image.height * form.row_bytes * (1 - 1 / form.threads)


def _load_cycles(form: AmxForm) -> float:
    """Of the operands of one step."""
    block_weights = form.steps * form.tile_registers * form.weight_bytes
    reused = block_weights * (form.channel_tiles if form.outer == "image" else 1)
    weight = LOAD_CYCLES
    weight += FAR_WEIGHT_CYCLES * (reused > NEAR_BYTES) + FARTHER_WEIGHT_CYCLES * (reused > FAR_BYTES)
    data = LOAD_CYCLES + FAR_DATA_CYCLES * (_data_bytes(form) > NEAR_BYTES)
    filled = form.step_bytes / ROW_BYTES
    rows = (1 + form.register_rows / REGISTER_ROWS) / 2
    return form.tile_registers * weight * filled + len(form.data_tiles) * data * rows


def _data_bytes(form: AmxForm) -> int:
    """Data that is read before the first of it is read again."""
    image = form.image
    if form.outer == "weights":
        return image.batch * image.height * form.row_bytes
    if image.output[0] == 1:
        return form.tile_columns * image.channels
    return (form.tile_rows * image.window.stride[0] + image.window.kernel[0]) * form.row_bytes


def _features(form: AmxForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image, data, weights = form.image, len(form.data_tiles), form.tile_registers
    height, width = image.output
    rows = math.ceil(height / form.tile_rows)
    blocks = image.batch * rows * form.tiles_of_a_row * form.channel_tiles
    sums = blocks * data * weights * REGISTER_ROWS * LANES
    block_weights = form.steps * weights * form.weight_bytes
    return {
        "estimated_cycles": estimated_cycles(form),
        "blocks": blocks,
        "products": form.steps * data * weights,
        "loads_per_product": 1 / data + 1 / weights,
        "waste": sums / (image.batch * height * width * image.out_channels),
        "register_rows": form.register_rows,
        "rows_of_register": form.rows_of_register,
        "steps": form.steps,
        "step_bytes": form.step_bytes,
        "parts_per_step": form.parts / form.steps,
        "block_weight_bytes": block_weights,
        "weight_bytes": block_weights * form.channel_tiles,
        "image_bytes": image.batch * image.height * form.row_bytes,
        "row_stride_bytes": image.window.stride[1] * image.channels,
        "weights_outer": float(form.outer == "weights"),
        "copies": float(form.copies),
        "pipelined": float(form.pipelined),
    }

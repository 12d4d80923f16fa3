"""The config space of conv2d and dense on ARM, and what its configs are estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

from schedules.arm.conv_form import PAIRED, ConvForm, conv_form
from schedules.arm.tiling import LANES, REGISTER_BYTES
from schedules.image import Image
from schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest
from schedules.tiles import tile_sizes

MAX_TILE_COLUMNS = 8
TILE_CHANNELS = (4, 8, 12, 16, 20, 24, 32)
REGISTERS = 32
# Registers of products of 16 bits that are under way together, at least.
MOVING_REGISTERS = 4
# Instructions of a step that one turn of a loop may have: more don't fit a small core's instruction cache well.
MAX_TURN_PRODUCTS = 256


def conv_space(image: Image, has_dot: bool, threads: int) -> ConfigSpace:
    """The decisions of a convolution."""
    knobs = (
        Knob("products", _products(image, has_dot)),
        Knob("tile_columns", tile_sizes(image.output[1], MAX_TILE_COLUMNS)),
        Knob("tile_channels", _tile_channels(image)),
        Knob("outer", ("weights", "image")),
        Knob("unroll", (1, 2, 4, 8)),
    )

    def form(config: Mapping[str, Value]) -> ConvForm:
        return conv_form(image, config, threads)

    constraints = (
        Constraint(f"the tile fits {REGISTERS} vector registers", lambda config: _registers(form(config)) <= REGISTERS),
        Constraint(
            f"a turn of the loop has at most {MAX_TURN_PRODUCTS} multiplications",
            lambda config: int(config["unroll"]) == 1 or turn_products(form(config)) <= MAX_TURN_PRODUCTS,
        ),
    )
    choices = {knob.name: knob.choices for knob in knobs} | {"outer": ("weights",)}
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=cheapest(choices, constraints, lambda config: estimated_cycles(form(config))),
        features=lambda config: _features(form(config)),
    )


def _products(image: Image, has_dot: bool) -> tuple[str, ...]:
    """Bytes are multiplied as they are where weights are s8 without zero point."""
    if image.numerics.weight != "s8" or image.numerics.weight_zero_point:
        return ("wide",)
    return (*PAIRED, "wide", *(("dot",) if has_dot else ()))


def _tile_channels(image: Image) -> tuple[int, ...]:
    """Whole registers of sums, none of them without any channel."""
    needed = math.ceil(image.group_outputs / LANES) * LANES
    return tuple(channels for channels in TILE_CHANNELS if channels <= needed)


def _registers(form: ConvForm) -> int:
    """Vector registers that a step of the reduction takes."""
    sums = form.tile_columns * form.accumulators
    if form.is_paired:
        return sums + 4 + min(MOVING_REGISTERS, 2 * form.tile_columns)
    return sums + form.tile_columns + 2


def turn_products(form: ConvForm) -> int:
    """Multiplications in one turn of the loop over steps."""
    per_step = form.words_of_step * form.tile_channels * form.taps * form.tile_columns
    values = {"wide": LANES, "dot": REGISTER_BYTES}.get(form.products, REGISTER_BYTES // 2)
    return per_step // values * form.unroll


def estimated_cycles(form: ConvForm) -> float:
    """A rough count for an in-order core that issues two instructions a cycle, one of them of vectors."""
    return 1.0 * form.tile_columns


def _features(form: ConvForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    return {"estimated_cycles": estimated_cycles(form)}

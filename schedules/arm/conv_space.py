"""The config space of conv2d and dense on ARM, and what its configs are estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from int8tune.schedules.arm.blocked_form import MOST_COLUMNS, BlockedForm
from int8tune.schedules.arm.conv_form import ConvForm, conv_form
from int8tune.schedules.arm.tiling import LANES, REGISTER_BYTES
from int8tune.schedules.image import Image
from int8tune.schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import tile_sizes

MAX_TILE_COLUMNS = 8
TILE_CHANNELS = (4, 8, 12, 16, 20, 24, 32)
# Registers of sums that leave enough of the 32 for operands and products; and how many leave plenty.
MOST_SUMS, FEW_SUMS = 20, 16
# Multiplications that one turn of the loop may have: more code does not fit a small core's instruction cache well.
MAX_TURN_PRODUCTS = 384


@dataclass(frozen=True, slots=True)
class Cycles:
    """What a tile takes, fitted to llvm-mca's cycles of 450 kernels on its model of a Cortex-A53.

    Attributes:
        products: of a word, for each output.
        weights, data: of loading a word, for each channel and each column.
        turn, output, tile: of each turn of the loop, each output and each tile.
    """

    products: float
    weights: float
    data: float
    turn: float
    output: float
    tile: float


CYCLES = {
    "c2": Cycles(0.83, 0.28, 1.5, 20, 1.7, 29),
    "wide": Cycles(2.05, 1.1, 3.0, 8, 1.7, 30),
    "dot": Cycles(0.25, 0.28, 0.5, 9, 1.7, 30),
}
# What registers in memory cost: with so many sums; with much code between them.
CROWDED, UNROLLED_FAR = 1.25, 1.2
COPY_CYCLES_PER_BYTE = 0.3
# Of blocked kernels: each address, what else a turn, the sums of a tile's channels, an output and a tile take.
ADDRESS_CYCLES, TURN_CYCLES, SUM_CYCLES, OUTPUT_CYCLES, TILE_CYCLES = 0.63, 6, 8, 2.1, 40
BLOCKED_COPY_CYCLES_PER_BYTE = 0.2


def conv_space(image: Image, has_dot: bool, threads: int) -> ConfigSpace:
    """The decisions of a convolution."""
    knobs = (
        Knob("products", _products(image, has_dot)),
        Knob("tile_columns", tile_sizes(image.output[1], MAX_TILE_COLUMNS)),
        Knob("tile_channels", _tile_channels(image)),
        Knob("outer", ("weights", "image")),
        Knob("unroll", (1, 2, 4, 6, 8, 9, 12)),
    )

    def form(config: Mapping[str, Value]) -> ConvForm | BlockedForm:
        return conv_form(image, config, threads)

    constraints = (
        Constraint(f"a tile has at most {MOST_SUMS} registers of sums", lambda config: form(config).sums <= MOST_SUMS),
        Constraint(
            f"blocks have tiles of at most {MOST_COLUMNS} columns",
            lambda config: config["products"] != "c8" or config["tile_columns"] <= MOST_COLUMNS,  # type: ignore[operator]
        ),
        Constraint(
            f"a turn of the loop has at most {MAX_TURN_PRODUCTS} multiplications",
            lambda config: config["unroll"] == 1 or turn_products(form(config)) <= MAX_TURN_PRODUCTS,
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
    return ("c2", "c8", "wide", *(("dot",) if has_dot else ()))


def _tile_channels(image: Image) -> tuple[int, ...]:
    """Whole registers of sums, none of them without any channel."""
    needed = math.ceil(image.group_outputs / LANES) * LANES
    return tuple(channels for channels in TILE_CHANNELS if channels <= needed)


def turn_products(form: ConvForm | BlockedForm) -> int:
    """Multiplications in one turn of the loop over steps."""
    if isinstance(form, BlockedForm):
        return 2 * form.sums * form.steps_of_turn
    per_step = form.words_of_step * form.tile_channels * form.taps * form.tile_columns
    values = {"wide": LANES, "dot": REGISTER_BYTES}.get(form.products, REGISTER_BYTES // 2)
    return per_step // values * form.unroll


def estimated_cycles(form: ConvForm | BlockedForm) -> float:
    """A rough count for an in-order core, of the thread with the largest share."""
    if isinstance(form, BlockedForm):
        return _blocked_cycles(form)
    image, cycles = form.image, CYCLES[form.products]
    columns, channels = form.tile_columns, form.tile_channels
    word = cycles.products * columns * channels + cycles.weights * channels + cycles.data * columns
    runs = image.window.kernel[0] * image.runs
    tile = runs * (form.words * word + form.turns * cycles.turn) + cycles.output * columns * channels + cycles.tile
    if form.sums > FEW_SUMS:
        tile *= CROWDED
    if form.products == "c2" and form.sums >= FEW_SUMS and form.steps_of_turn > 2:
        tile *= UNROLLED_FAR
    copied = image.batch * image.height * image.width * image.channels * COPY_CYCLES_PER_BYTE if form.copies else 0
    return tile * form.largest_share + copied / form.threads


def _blocked_cycles(form: BlockedForm) -> float:
    """What its instructions take, with the waits that llvm-mca's model of a Cortex-A53 shows between them."""
    image = form.image
    whole, rest = divmod(image.output[1], form.tile_columns)
    tiles = whole * _blocked_tile_cycles(form, form.tile_columns) + (_blocked_tile_cycles(form, rest) if rest else 0)
    share = form.largest_share / form.tiles_of_a_row
    return tiles * share + image.batch * image.groups * form.group_bytes * BLOCKED_COPY_CYCLES_PER_BYTE / form.threads


def _blocked_tile_cycles(form: BlockedForm, columns: int) -> float:
    """Cycles of a tile of so many columns: three instructions for each sum of a step, addresses, a sum's end."""
    sums, loads = columns * form.step_channels, form.loads_of_step * form.steps_of_turn
    halves = sum(form.is_half(block) for block in range(form.blocks_of_turn)) / form.blocks_of_turn
    turn = sums * form.steps_of_turn * (3 - halves) + loads * ADDRESS_CYCLES + TURN_CYCLES
    end = sums + SUM_CYCLES
    return form.steps_of_tile * (form.turns * turn + end) + columns * form.tile_channels * OUTPUT_CYCLES + TILE_CYCLES


def _features(form: ConvForm | BlockedForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image = form.image
    reduction = image.window.kernel[0] * image.runs * image.run_length
    tiles = form.tiles_of_a_row * form.channel_tiles * image.batch * image.output[0] * image.groups
    outputs = form.tile_columns * form.tile_channels
    return {
        "estimated_cycles": estimated_cycles(form),
        "sums": form.sums,
        "loads_per_output": 1 / form.tile_columns + 1 / form.tile_channels,
        "waste": tiles * outputs / (image.batch * math.prod(image.output) * image.out_channels),
        "reduction": reduction,
        "turn_products": turn_products(form),
        "weight_tile_bytes": form.tile_bytes,
        "weight_bytes": form.weight_length,
        "image_bytes": image.batch * image.height * image.width * image.channels,
        "tiles": tiles,
        "weights_outer": float(form.outer == "weights"),
        "copies": float(form.copies),
        "horizontal_sums": float(form.products == "c8"),
        "widened": float(form.products == "wide"),
    }

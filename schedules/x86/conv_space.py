"""The config space of conv2d and dense on x86, and what its configs are estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from int8tune.schedules.image import Image
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import tile_sizes
from int8tune.schedules.x86.conv_form import ConvForm, conv_form
from int8tune.schedules.x86.late_weights import fetching, late_cycles, next_block
from int8tune.schedules.x86.registers import TAPS, Registers

MAX_TILE_COLUMNS = 28
MAX_TILE_REGISTERS = 6
# Accumulators of a tile with one output: nothing is reused but the broadcast, so many registers hide the latency.
MAX_ROW_REGISTERS = 16
# Of `estimated_cycles`, fitted to 1,100 measurements of 42 layers on Zen 5: of a tile; of a word of gathered bytes; of
# the loops at an edge of the image; of four registers that become bytes and, with it, of each accumulator; the same
# beside another tile, where only the accumulators beyond a number count.
TILE_CYCLES, GATHER_CYCLES, EDGE_CYCLES = 2.4, 1.2, 30
PACK_CYCLES, PACK_CYCLES_PER_SUM = 3.2, 0.12
BESIDE_CYCLES, BESIDE_CYCLES_PER_SUM, BESIDE_SUMS = 2.8, 0.3, 12
# Bytes of weights that stay in the first-level cache; what is read beyond in a cycle; bytes that are copied in a cycle.
CACHED_BYTES, STREAMED_BYTES, COPIED_BYTES = 24 << 10, 30, 4
# Bytes that come from another core's cache in a cycle: of 0.5, 1, 2 and 6, six networks were fastest with 2, on two
# cores of a Zen 4.
CROSSING_BYTES = 2
# Weights that are used once, beyond what a second-level cache holds: from there on, the core's prefetchers lose.
FETCHED_AHEAD_BYTES = 3 << 19
# By how much code for narrower tiles must lower the estimate to be worth its bytes.
WORTH_MORE_CODE = 1.01
# Registers that the addition of a residual takes beside the sums.
ADDITION_REGISTERS = 8
# Different columns of tiles near the border, each with code of its own: beyond, the border is copied.
MAX_EDGE_TILES = 6


def conv_space(image: Image, registers: Registers, offsets: tuple[int, int], threads: int) -> ConfigSpace:
    """The decisions of a convolution."""
    needed = math.ceil(image.group_outputs / registers.lanes)
    columns = tile_sizes(image.output[1], MAX_TILE_COLUMNS)
    most = min(needed, MAX_ROW_REGISTERS if columns[-1] == 1 else MAX_TILE_REGISTERS)
    has_rests = any(image.output[1] % size for size in columns)
    last_tiles = ("overlapping", "narrower") if has_rests else ("overlapping",)
    knobs = (
        Knob("tile_columns", columns),
        Knob("tile_registers", tuple(range(1, most + 1))),
        Knob("outer", ("weights", "image")),
        Knob("border", _borders(image, offsets)),
        Knob("unroll", (1, 2, 4)),
        Knob("store", ("after", "beside"), before="after", since=2),
        Knob("fetch", ("demand", "ahead" if uses_weights_once(image) else "next"), before="demand", since=2),
        Knob("last_tile", last_tiles, before="overlapping", since=3),
    )

    def form(config: Mapping[str, Value]) -> ConvForm:
        return conv_form(image, registers, config, offsets, threads)

    def fits(config: Mapping[str, Value]) -> bool:
        columns, rows = int(config["tile_columns"]), int(config["tile_registers"])
        operands = registers.parts * (1 + min(columns, rows))
        addition = ADDITION_REGISTERS if image.numerics.residual else 0
        return columns * rows + operands + addition + registers.scratch <= registers.count or columns == rows == 1

    def few_edges(config: Mapping[str, Value]) -> bool:
        return config["border"] != "skip" or len(form(config).column_tiles) <= MAX_EDGE_TILES + 1

    def long_enough(config: Mapping[str, Value]) -> bool:
        return config["store"] == "after" or form(config).steps_of_store_turn > 0

    def has_rest(config: Mapping[str, Value]) -> bool:
        return config["last_tile"] != "narrower" or form(config).narrow_columns > 0

    constraints = (
        next_block(form),
        Constraint("the last tile of a row is narrower where tiles do not divide it", has_rest),
        Constraint("a reduction has a step for each part of a tile that is stored beside it", long_enough),
        Constraint(f"the tile fits {registers.count} vector registers", fits),
        Constraint(f"at most {MAX_EDGE_TILES} tiles of a row lie at the border", few_edges),
    )
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=_default(image, knobs, constraints, form, registers.unroll),
        features=lambda config: _features(form(config)),
    )


def _borders(image: Image, offsets: tuple[int, int]) -> tuple[str, ...]:
    """What can be done with the border; an image without one is read in place, which is called `skip`."""
    if image.run_length % TAPS and image.runs == image.groups == 1 and image.window.kernel[0] > 1:
        return ("copy", "gather")
    if image.run_length % TAPS or image.group_channels % TAPS or offsets[0]:
        return ("copy",)
    return ("skip", "copy") if any(image.window.padding) else ("skip",)


def uses_weights_once(image: Image) -> bool:
    """Whether there is one output for each channel: what limits the kernel is how fast weights come."""
    return image.batch * math.prod(image.output) == 1


def _default(
    image: Image,
    knobs: tuple[Knob, ...],
    constraints: tuple[Constraint, ...],
    form: Callable[[Config], ConvForm],
    unroll: int,
) -> Config:
    """The config with the fewest estimated cycles, of equal ones the first; it fetches what it can."""
    choices = {knob.name: knob.choices for knob in knobs} | {"unroll": (unroll,)}

    def cost(config: Config) -> float:
        return estimated_cycles(form(config))

    if uses_weights_once(image):
        weights = image.out_channels * image.group_channels * math.prod(image.window.kernel)
        fetch = "ahead" if weights > FETCHED_AHEAD_BYTES else "demand"
        return cheapest({**choices, "fetch": (fetch,)}, constraints, cost)
    found = cheapest({**choices, "fetch": ("demand",), "last_tile": ("overlapping",)}, constraints, cost)
    if len(choices["last_tile"]) > 1:
        narrow = {**choices, "fetch": ("demand",), "last_tile": ("narrower",)}
        narrower = cheapest(narrow, constraints, cost, found)
        found = narrower if cost(narrower) * WORTH_MORE_CODE < cost(found) else found
    return fetching({**choices, "last_tile": (found["last_tile"],)}, found, constraints, cost, form)


def estimated_cycles(form: ConvForm) -> float:
    """A rough count, of the thread with the largest share."""
    image = form.image
    copied = image.batch * image.height * image.width * image.channels / COPIED_BYTES if form.copies else 0
    whole = form.tiles_of_a_row - bool(form.narrow_columns)
    row = whole * _tile_cycles(form, form.tile_columns)
    if form.narrow_columns:
        row += _tile_cycles(form, form.narrow_columns)
    late = 0 if uses_weights_once(image) else late_cycles(form)
    return form.largest_share / form.tiles_of_a_row * row + copied / form.threads + late + _crossing_cycles(form)


def _crossing_cycles(form: ConvForm) -> float:
    """Cycles in which a thread that computes some channels of all pixels reads what other threads have written."""
    image = form.image
    if form.outer != "weights" or uses_weights_once(image):
        return 0
    return image.batch * image.height * image.width * image.channels * (1 - 1 / form.threads) / CROSSING_BYTES


def _tile_cycles(form: ConvForm, columns: int) -> float:
    """Cycles of a tile of so many columns."""
    edges = EDGE_CYCLES * (len(form.column_tiles) - 1) / form.tiles_of_a_row
    gathered = GATHER_CYCLES * form.tail_steps * columns
    steps = form.reduction_steps * form.inside_share
    packs = form.packs(columns) * _pack_cycles(form)
    return steps * _step_cycles(form, columns) + packs + gathered + edges + TILE_CYCLES


def _step_cycles(form: ConvForm, columns: int) -> float:
    """Cycles of one step of a tile's reduction."""
    registers = form.registers
    dots = columns * form.tile_registers * registers.dot_cycles + columns * registers.data_cycles
    loads = columns + form.tile_registers * registers.parts
    weight_bytes = form.tile_registers * registers.weight_bytes
    reused = form.reduction_steps * weight_bytes * (form.channel_tiles if form.outer == "image" else 1)
    cached = reused <= CACHED_BYTES and not uses_weights_once(form.image)
    streamed = 0 if cached else weight_bytes / STREAMED_BYTES
    return max(dots, loads / registers.loads_per_cycle, registers.dot_latency, streamed)


def _pack_cycles(form: ConvForm) -> float:
    """Cycles in which four registers become bytes."""
    if form.pipelined:
        return BESIDE_CYCLES + BESIDE_CYCLES_PER_SUM * max(0, form.accumulators - BESIDE_SUMS)
    return PACK_CYCLES + PACK_CYCLES_PER_SUM * form.accumulators


def _features(form: ConvForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image = form.image
    rows, width = image.output
    reduction = form.reduction_steps
    weight_bytes = form.block_bytes * form.blocks
    image_bytes = image.batch * image.height * image.width * image.channels
    span = ((form.tile_columns - 1) * image.window.stride[1] + image.window.kernel[1]) * image.channels
    tiles_of_a_row = form.tiles_of_a_row
    image_outer = form.outer == "image"
    # The operand that the inner loop over tiles reads again for each step of the outer one.
    passes = rows * tiles_of_a_row if image_outer else form.channel_tiles
    streamed_bytes = passes * (weight_bytes if image_outer else image_bytes)
    waste_columns = sum(tiles.count * tiles.width for tiles in form.column_tiles) / width
    waste_channels = form.channel_tiles * form.tile_registers * form.lanes / image.group_outputs
    return {
        "estimated_cycles": estimated_cycles(form),
        "accumulators": form.accumulators,
        "loads_per_dot": form.registers.parts / form.tile_columns + 1 / form.tile_registers,
        "waste": waste_columns
        * waste_channels
        * reduction
        * TAPS
        / image.run_length
        / image.window.kernel[0]
        / image.runs,
        "reduction_steps": reduction,
        "unrolled_dots": form.accumulators * form.unroll,
        "weight_tile_bytes": form.block_bytes,
        "weight_bytes": weight_bytes,
        "data_tile_bytes": span * image.window.kernel[0],
        "image_bytes": image_bytes,
        "streamed_bytes": streamed_bytes,
        "column_stride_bytes": image.window.stride[1] * image.channels,
        "tiles": form.tiles_of_block * form.blocks,
        "edge_tiles": len(form.column_tiles) - 1,
        "weights_outer": float(not image_outer),
        "copies": float(form.copies),
        "pipelined": float(form.pipelined),
        "fetches_ahead": float(form.fetch != "demand"),
        "packs": form.packs(form.tile_columns),
        "gathered_steps": form.tail_steps,
    }

"""Grouped convolutions with narrow groups on x86: the decisions left open, and what is known of them beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from int8tune.schedules.image import Image
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import tile_sizes
from int8tune.schedules.x86.channels import register_groups
from int8tune.schedules.x86.conv_space import ADDITION_REGISTERS, MAX_EDGE_TILES, MAX_TILE_COLUMNS, MAX_TILE_REGISTERS
from int8tune.schedules.x86.grouped_form import GroupedForm, group_words, grouped_form
from int8tune.schedules.x86.late_weights import fetching, late_cycles, next_block
from int8tune.schedules.x86.registers import TAPS, Registers

# Dot products of a tile and kernel row, all of them written out.
MAX_DOTS = 1024

# Rough costs in cycles, fitted to measured tiles on Zen 5.
STORE_CYCLES = 2.6  # an accumulator's epilogue
NARROW_STORE_CYCLES = 1.1  # of a pixel whose channels fill fewer than four registers, beside that
VECTOR_CYCLES = 0.25  # a permuted vector
SPILL_CYCLES = 2.0  # a value that does not fit the registers; it hides behind products of several instructions
EDGE_CYCLES = 20.0  # a change of code within a row
BLOCK_CYCLES = 1.5  # 16 bytes of a packed image
WEIGHT_LINE_CYCLES, IMAGE_LINE_CYCLES = 0.3, 1.0  # a line from beyond the first cache; weights are read in order
CACHE_BYTES, LINE_BYTES, BLOCK_BYTES, COPIED_BYTES = 1 << 15, 64, 16, 8
# The share of the registers that weights of a round take, at most; the others are operands in memory.
WEIGHTS_SHARE = 3 / 8
# Registers that LLVM needs beside the sums to do without a store after each dot product.
RESERVE = 2


def grouped_space(image: Image, registers: Registers, offsets: tuple[int, int], threads: int) -> ConfigSpace:
    """The decisions of a grouped convolution."""
    least = math.ceil(image.group_outputs / registers.lanes)
    most = max(least, min(MAX_TILE_REGISTERS, math.ceil(image.out_channels / registers.lanes)))
    in_memory = group_words(image.group_channels, image.window.kernel[1]).as_in_memory
    bordered = any(image.window.padding) or offsets[0] != 0
    knobs = (
        Knob("tile_columns", tile_sizes(image.output[1], MAX_TILE_COLUMNS)),
        Knob("tile_registers", tuple(range(least, most + 1))),
        Knob("outer", ("weights", "image")),
        Knob("border", (("skip", "copy") if bordered else ("skip",)) if in_memory else ("copy",)),
        Knob("order", ("words", "registers")),
        Knob("fetch", ("demand", "next"), before="demand", since=3),
    )

    def form(config: Mapping[str, Value]) -> GroupedForm:
        return grouped_form(image, registers, config, offsets, threads)

    def few_edges(config: Mapping[str, Value]) -> bool:
        return config["border"] != "skip" or len(form(config).column_tiles) <= MAX_EDGE_TILES + 1

    def fits(config: Mapping[str, Value]) -> bool:
        addition = ADDITION_REGISTERS if image.numerics.residual else 0
        smallest = (config["tile_columns"], config["tile_registers"]) == (knobs[0].choices[0], least)
        return _sums(form(config)) + RESERVE + addition <= registers.count or smallest

    constraints = (
        next_block(form),
        Constraint(f"the sums of a tile fit {registers.count} vector registers", fits),
        Constraint(f"at most {MAX_DOTS} dot products are written out", lambda config: form(config).dots <= MAX_DOTS),
        Constraint(f"at most {MAX_EDGE_TILES} tiles of a row lie at the border", few_edges),
    )
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=_default(knobs, constraints, form, registers.parts),
        features=lambda config: _features(form(config)),
    )


def _sums(form: GroupedForm) -> int:
    """Registers of sums, and of window sums if there are any."""
    return form.tile_columns * (form.tile_registers + (len(form.vector_starts) if form.has_window_sum else 0))


def _default(
    knobs: tuple[Knob, ...], constraints: tuple[Constraint, ...], form: Callable[[Config], GroupedForm], parts: int
) -> Config:
    """The config with the fewest estimated cycles, of equal ones the first; it fetches what it can."""
    choices = {knob.name: knob.choices for knob in knobs}
    # Operands of two registers leave too few of them to keep the weights of all registers for a word.
    usual = Constraint("the usual order", lambda c: (c["order"] == "words") == (parts == 1 or c["tile_columns"] == 1))
    rules = (usual, *constraints)

    def cost(config: Config) -> float:
        return estimated_cycles(form(config))

    return fetching(choices, cheapest({**choices, "fetch": ("demand",)}, rules, cost), rules, cost, form)


def estimated_cycles(form: GroupedForm) -> float:
    """A rough count, of the thread with the largest share."""
    registers, words, columns = form.registers, form.words, form.tile_columns
    chain = words.count * words.steps * registers.dot_latency
    dots = form.dots
    if form.has_window_sum:
        dots += columns * len(form.vector_starts) * words.steps
    vectors = _vectors(form) * (VECTOR_CYCLES + registers.data_cycles)
    spilled = _spilled(form) * len(form.rounds) * SPILL_CYCLES if registers.parts == 1 else 0
    loads = registers.parts * words.count * words.steps * form.tile_registers + len(form.rounds) * form.pixels
    kernel_row = max(dots * registers.dot_cycles, chain, loads / registers.loads_per_cycle) + vectors + spilled
    narrow = sum(columns for size in register_groups(form.tile_registers) if size < 4)
    stores = STORE_CYCLES * columns * form.tile_registers + NARROW_STORE_CYCLES * narrow
    edges = EDGE_CYCLES * (len(form.column_tiles) - 1) / form.tiles_of_a_row
    tile = form.image.window.kernel[0] * kernel_row * form.inside_share + stores + edges
    shared = (_stream_cycles(form) + _copy_cycles(form)) / form.threads
    return form.largest_share * tile + shared + late_cycles(form)


def _vectors(form: GroupedForm) -> int:
    """Permuted vectors of one tile and kernel row."""
    registers = form.tile_registers
    if form.order == "words":
        registers = len({form.lane_words(register, 0) for register in range(registers)})
    return form.pixels * form.words.count * registers


def _spilled(form: GroupedForm) -> float:
    """Values of a round that do not fit the registers, if weights that can be operands in memory are.

    Of the pixels that several rounds read, LLVM keeps the words; a third of them, as measured.
    """
    registers = form.registers
    weights = registers.parts * form.words.steps * (form.tile_registers if form.order == "words" else 1)
    pixels = form.pixels / 3 if len(form.rounds) > 1 else int(form.tile_registers > 1)
    operands = registers.parts + registers.scratch + pixels
    return max(0, _sums(form) + operands + min(weights, registers.count * WEIGHTS_SHARE) - registers.count)


def _stream_cycles(form: GroupedForm) -> float:
    """Waiting for operands that the first cache does not hold: one of them is read again for each tile of the other."""
    image = form.image
    pixels, weight_bytes = image.batch * image.height * image.width, math.prod(form.weight_shape)
    lines, passes = 0.0, image.batch * image.output[0] * form.tiles_of_a_row
    if pixels * form.pixel_bytes > CACHE_BYTES:
        of_tile = math.ceil(form.span * TAPS / LINE_BYTES) * form.channel_tiles
        lines = pixels * (of_tile if form.outer == "weights" else form.pixel_bytes / LINE_BYTES)
    weight_lines = 0.0
    if form.outer == "image" and weight_bytes > CACHE_BYTES:
        weight_lines = passes * weight_bytes / LINE_BYTES
    return lines * IMAGE_LINE_CYCLES + weight_lines * WEIGHT_LINE_CYCLES


def _copy_cycles(form: GroupedForm) -> float:
    image = form.image
    pixels = image.batch * image.height * image.width
    copied = pixels * image.channels / COPIED_BYTES if form.copies else 0
    if form.words.as_in_memory:
        return copied
    return copied + pixels * form.pixel_bytes / BLOCK_BYTES * form.words.taps * BLOCK_CYCLES


def _features(form: GroupedForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image, words = form.image, form.words
    width = image.output[1]
    reduction = image.window.kernel[0] * words.steps * words.count
    filled = form.tile_outputs / (form.tile_registers * form.lanes)
    overlaps = form.channel_tiles * form.tile_groups / image.groups * form.tiles_of_a_row * form.tile_columns / width
    weight_bytes = math.prod(form.weight_shape)
    vectors = _vectors(form)
    return {
        "estimated_cycles": estimated_cycles(form),
        "accumulators": form.tile_columns * form.tile_registers,
        "sums": _sums(form),
        "spilled": _spilled(form),
        "dots_per_vector": form.dots / vectors,
        "unrolled_dots": form.dots,
        "reduction_steps": reduction,
        "waste": overlaps / filled * reduction * TAPS / (math.prod(image.window.kernel) * image.group_channels),
        "loads_per_pixel": len(form.loads[0]),
        "weight_tile_bytes": form.block_bytes,
        "weight_bytes": weight_bytes,
        "image_bytes": image.batch * image.height * image.width * form.pixel_bytes,
        "span_bytes": form.span * TAPS,
        "stream_cycles": _stream_cycles(form),
        "copy_cycles": _copy_cycles(form),
        "tiles": form.tiles_of_block * form.blocks,
        "edge_tiles": len(form.column_tiles) - 1,
        "weights_outer": float(form.outer == "weights"),
        "registers_first": float(form.order == "registers"),
        "copies": float(form.copies),
        "fetches_ahead": float(form.fetch != "demand"),
    }

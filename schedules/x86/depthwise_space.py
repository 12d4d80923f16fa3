"""The config space of an x86 depthwise convolution."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.workload import DepthwiseConv2d
from int8tune.schedules.x86.depthwise_form import DepthwiseForm, Weights, depthwise_form
from int8tune.schedules.x86.registers import TAPS, Registers

MAX_TILE_ROWS, MAX_TILE_COLUMNS = 4, 8
# Dot products of one tile for one register of channels, each an instruction of its own: more take long to compile and
# are no faster.
MAX_TILE_DOTS = 48
# Those of all tiles that have code of their own, because the border is elsewhere in each: beyond, the border is copied.
MAX_CODE_DOTS = 900
# As many as AVX-512 has.
MANY_REGISTERS = 32
# Of `estimated_cycles`: instructions that turn a register of sums into bytes, and ports that they have.
STORE_INSTRUCTIONS, PORTS = 5, 2


def depthwise_space(workload: DepthwiseConv2d, registers: Registers, threads: int) -> ConfigSpace:
    """The decisions of a depthwise convolution: the tile, the order of the tiles, and whether the border is copied."""
    must_copy = workload.multiplier > 1 or workload.out_channels < registers.lanes
    height, width = workload.window.output_size(workload.height, workload.width)
    borders = ("copy",) if must_copy else ("skip", "copy")

    def few_dots(config: Mapping[str, Value]) -> bool:
        form = depthwise_form(workload, registers, config, threads)
        codes = 2 if form.weights is Weights.CENTRED else 1
        pixels = form.tile_rows * form.tile_columns
        return pixels == 1 or pixels * workload.window.kernel[1] * form.words * codes <= MAX_TILE_DOTS

    def little_code(config: Mapping[str, Value]) -> bool:
        form = depthwise_form(workload, registers, config, threads)
        return form.copies or _code_dots(form) <= MAX_CODE_DOTS

    def default() -> Config:
        """The first of the usual tiles that fits; the border skipped where that can be."""
        configs: list[Config] = [
            {
                "tile_rows": min(rows, height),
                "tile_columns": min(columns, width),
                "outer": "image",
                "border": border,
            }
            for rows, columns in _usual_tiles(workload, registers)
            for border in borders
        ]
        return next(config for config in configs if few_dots(config) and little_code(config))

    return ConfigSpace(
        knobs=(
            Knob("tile_rows", tuple(range(1, min(MAX_TILE_ROWS, height) + 1))),
            Knob("tile_columns", tuple(range(1, min(MAX_TILE_COLUMNS, width) + 1))),
            Knob("outer", ("channels", "image")),
            Knob("border", borders),
        ),
        constraints=(
            Constraint(f"a register's sums of a tile take at most {MAX_TILE_DOTS} dot products", few_dots),
            Constraint(f"tiles at the border take at most {MAX_CODE_DOTS} dot products in all", little_code),
        ),
        default=default(),
        features=lambda config: _features(depthwise_form(workload, registers, config, threads)),
    )


def _usual_tiles(workload: DepthwiseConv2d, registers: Registers) -> tuple[tuple[int, int], ...]:
    """Rows and columns of tiles, the best first.

    With a stride, and with kernels whose columns need several words, high tiles of one column are faster than 2x2: they
    need the fewest registers for columns that are read again. Other kernels have none to share, or few: those of up to
    four rows, of one column, and dilated ones.
    """
    window = workload.window
    is_high = window.stride[0] > 1 or (window.kernel[0] > TAPS and window.kernel[1] > 1)
    if not is_high or max(window.dilation) > 1 or registers.count < MANY_REGISTERS:
        return ((2, 2), (1, 2), (1, 1))
    return ((4, 1), (3, 1), (2, 1), (1, 1))


def estimated_cycles(form: DepthwiseForm) -> float:
    """A rough count: dot products, and what turns a register of sums into bytes, on two ports."""
    workload, lanes = form.workload, form.registers.lanes
    registers = workload.batch * form.output[0] * form.output[1] * -(-workload.out_channels // lanes)
    return registers * (form.words * workload.window.kernel[1] + STORE_INSTRUCTIONS) / PORTS / form.threads


def _code_dots(form: DepthwiseForm) -> int:
    """Dot products of all tiles that differ in what they have of the border."""
    classes = len(form.row_tiles) * len(form.column_tiles) * len(form.blocks)
    return classes * form.tile_rows * form.tile_columns * form.workload.window.kernel[1] * form.words


def _features(form: DepthwiseForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    workload = form.workload
    rows, columns = form.output
    columns_read = len(form.columns_read(form.tile_columns))
    rows_read = len(form.rows_read(form.tile_rows))
    pixels = form.tile_rows * form.tile_columns
    return {
        "pixels": pixels,
        "words_per_output": columns_read * form.words / pixels,
        "loads_per_output": columns_read * rows_read / pixels,
        "rows_waste": -(-rows // form.tile_rows) * form.tile_rows / rows,
        "columns_waste": -(-columns // form.tile_columns) * form.tile_columns / columns,
        "code": _code_dots(form),
        "row_bytes": workload.width * workload.out_channels,
        "image_bytes": workload.batch * workload.height * workload.width * workload.out_channels,
        "channels_outer": float(form.outer == "channels"),
        "copies": float(form.copies),
    }

"""The config space of conv2d and dense on AMX, and what its configs are estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from int8tune.schedules.image import Image, in_one_row, turned
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value, cheapest
from int8tune.schedules.tiles import largest_share
from int8tune.schedules.x86.amx_form import LANES, REGISTER_ROWS, ROW_BYTES, TILE_REGISTERS, AmxForm
from int8tune.schedules.x86.channels import PACKED_REGISTERS

MAX_TILE_ROWS, MAX_DATA_TILES, MAX_CHANNEL_TILES = 8, 6, 6
# Of `estimated_cycles`, fitted to 1,200 measurements of 104 layers on a Xeon of 2025: of a product of two registers; of
# loading one, and what that takes longer where data or weights come from the second-level cache; of a register of sums
# that becomes bytes; of a part that is stored alone, and of one of joined rows; of a byte that is copied, and of one
# that is copied to its phase; of a byte of weights from beyond the second-level cache, and the share of it that is left
# when they are fetched ahead.
PRODUCT_CYCLES, LOAD_CYCLES, FAR_DATA_CYCLES, FAR_WEIGHT_CYCLES = 24, 15, 11, 14
SUMS_CYCLES, PART_CYCLES, JOINED_PART_CYCLES = 79, 8, 8
COPIED_BYTE_CYCLES, SPLIT_BYTE_CYCLES, FARTHER_BYTE_CYCLES, FETCHED_SHARE = 1 / 64, 0.22, 0.034, 0.7
# Of a piece of a widened pixel, fitted to which of 16 layers are faster with it.
PIECE_CYCLES = 3.5
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
        rows=str(config["rows"]),
        fetch=str(config["fetch"]),
        outer=str(config["outer"]),
        store=str(config["store"]),
        threads=threads,
    )


def amx_space(image: Image, threads: int) -> ConfigSpace:
    """The decisions of a convolution."""
    columns = {rows: _tile_columns(image, rows) for rows in _rows_choices(image)}
    knobs = (
        Knob("tile_columns", tuple(sorted(set().union(*columns.values())))),
        Knob("tile_rows", tuple(range(1, min(_least_form(image, "apart").output[0], MAX_TILE_ROWS) + 1))),
        Knob("tile_registers", tuple(range(1, min(math.ceil(image.out_channels / LANES), MAX_CHANNEL_TILES) + 1))),
        Knob("rows", tuple(columns), before="apart", since=2),
        Knob("outer", ("weights", "image")),
        Knob("fetch", _fetch_choices(image), before="demand", since=2),
        Knob("store", ("after", "beside")),
    )

    def form(config: Mapping[str, Value]) -> AmxForm:
        return amx_form(image, config, threads)

    constraints = (
        Constraint("columns cover the rows evenly", lambda c: c["tile_columns"] in columns[str(c["rows"])]),
        Constraint("joined and turned rows are one", lambda c: c["rows"] == "apart" or c["tile_rows"] == 1),
        Constraint(
            f"sums and operands fit {TILE_REGISTERS} registers", lambda c: form(c).used_registers <= TILE_REGISTERS
        ),
        Constraint("each block has outputs", lambda c: form(c).fewest_outputs > 0),
    )
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=_default(knobs, constraints, form),
        features=lambda config: _features(form(config)),
    )


def _fetch_choices(image: Image) -> tuple[str, ...]:
    """Weights that stay in the second-level cache need not be fetched ahead."""
    return ("demand", "ahead") if _weight_bytes(image) > FAR_BYTES else ("demand",)


def _rows_choices(image: Image) -> tuple[str, ...]:
    """Joined rows read no value beyond a run: it would be one of the next row. Window sums want the image whole."""
    if _least_form(image, "apart").output[0] == 1:
        return ("apart", "widened") if _widens(image) else ("apart",)
    joined = _least_form(image, "joined")
    summed = joined.split and joined.has_window_sum
    choices = {"apart": True, "joined": not (joined.slack or summed), "turned": _turns(image)}
    return tuple(rows for rows, fits in choices.items() if fits)


def _turns(image: Image) -> bool:
    """Whether a turned image is one row, which spares a border; what is stored together is in two columns at most."""
    spares = min(image.width, image.window.kernel[1]) > 1 and image.height >= PACKED_REGISTERS
    return spares and in_one_row(turned(image)).height == 1


def _widens(image: Image) -> bool:
    """Whether taps of a kernel of one column share steps: those of one long row."""
    return image.window.kernel[1] == 1 and _least_form(image, "widened").shared_taps > 1


def _tile_columns(image: Image, rows: str) -> set[int]:
    """Columns of a block that fill one to `MAX_DATA_TILES` data registers evenly."""
    width = _least_form(image, rows).output[1]
    return {_evenly(width, REGISTER_ROWS * count) for count in range(1, MAX_DATA_TILES + 1)}


def _least_form(image: Image, rows: str) -> AmxForm:
    """A form of the least block, for what depends on nothing else."""
    return AmxForm(image, 1, 1, 1, rows, "weights", "demand", "after")


def _weight_bytes(image: Image) -> int:
    return image.window.kernel[0] * image.window.kernel[1] * image.channels * image.out_channels


def _evenly(extent: int, largest: int) -> int:
    """The smallest size that covers an axis with as many blocks as the largest size does."""
    return math.ceil(extent / math.ceil(extent / largest))


def _default(knobs: tuple[Knob, ...], constraints: tuple[Constraint, ...], form: Callable[[Config], AmxForm]) -> Config:
    """The config with the fewest estimated cycles; of equal ones the first."""
    choices = {knob.name: knob.choices for knob in knobs}
    return cheapest(choices, constraints, lambda config: estimated_cycles(form(config)))


def estimated_cycles(form: AmxForm) -> float:
    """A rough count, of the thread with the largest share."""
    sums = len(form.data_tiles) * form.tile_registers
    block = form.steps * max(sums * PRODUCT_CYCLES, _load_cycles(form)) + sums * SUMS_CYCLES
    block += form.parts * (PART_CYCLES * (not form.pipelined) + JOINED_PART_CYCLES * (form.joined or form.turned))
    rows = form.image.batch * math.ceil(form.output[0] / form.tile_rows)
    blocks = largest_share(form.outer == "weights", form.threads, form.channel_tiles, rows, form.tiles_of_a_row)
    return blocks * block + _copy_cycles(form) + _farther_cycles(form, blocks)


def _copy_cycles(form: AmxForm) -> float:
    """Cycles of copying the image, and of reading what another thread has copied."""
    if not form.copies:
        return 0.0
    a_byte = SPLIT_BYTE_CYCLES if form.split else COPIED_BYTE_CYCLES
    own = form.own_copies and form.outer == "weights"
    copied = _read_bytes(form) * a_byte + _more_pieces(form) * PIECE_CYCLES
    return copied / (1 if own else form.threads) + _foreign_bytes(form) / FOREIGN_BYTES


def _more_pieces(form: AmxForm) -> int:
    """Pieces of widened pixels that are copied one by one and are not in the copy that other rows need for a border."""
    if not form.widened:
        return 0
    return form.image.batch * form.image_columns * (form.shared_taps - any(form.image.window.padding))


def _farther_cycles(form: AmxForm, blocks: int) -> float:
    """Cycles of weights from beyond the second-level cache: once, or again for each block of the image."""
    weights: float = form.channel_tiles * _block_weight_bytes(form)
    if form.outer == "weights":
        weights /= form.threads
    if weights <= FAR_BYTES:
        return 0.0
    streamed = blocks * _block_weight_bytes(form) if form.outer == "image" else weights
    return streamed * FARTHER_BYTE_CYCLES * (FETCHED_SHARE if form.fetch == "ahead" else 1)


def _block_weight_bytes(form: AmxForm) -> int:
    return form.steps * form.tile_registers * form.weight_bytes


def _foreign_bytes(form: AmxForm) -> float:
    """Bytes of the copied image that a thread reads and another has copied: all rows where threads share channels."""
    if form.threads == 1 or form.outer == "image" or form.own_copies:
        return 0.0
    return _read_bytes(form) * (1 - 1 / form.threads)


def _load_cycles(form: AmxForm) -> float:
    """Cycles in which the operands of one step are loaded."""
    reused = _block_weight_bytes(form) * (form.channel_tiles if form.outer == "image" else 1)
    weight = LOAD_CYCLES + FAR_WEIGHT_CYCLES * (reused > NEAR_BYTES)
    data = LOAD_CYCLES + FAR_DATA_CYCLES * (_data_bytes(form) > NEAR_BYTES)
    filled = form.step_bytes / ROW_BYTES
    rows = (1 + form.columns_of_register / REGISTER_ROWS) / 2
    return form.tile_registers * weight * filled + len(form.data_tiles) * data * rows


def _data_bytes(form: AmxForm) -> int:
    """Data that is read before the first of it is read again."""
    image, window = form.image, form.image.window
    if form.outer == "weights":
        return _read_bytes(form)
    if form.joined:
        columns = form.tile_columns + window.kernel[0] // form.phases[0] * form.image_columns
        return columns * image.channels * math.prod(form.phases)
    if image.output[0] == 1:
        return (form.tile_columns + (window.kernel[1] - 1) * window.dilation[1]) * form.pixel_bytes
    return (form.tile_rows * window.stride[0] + window.kernel[0]) * form.row_bytes


def _read_bytes(form: AmxForm) -> int:
    """The image that is read, with its border."""
    return form.image.batch * math.prod(form.phases) * form.image_rows * form.row_bytes


def _features(form: AmxForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    image, data, weights = form.image, len(form.data_tiles), form.tile_registers
    rows = math.ceil(form.output[0] / form.tile_rows)
    blocks = image.batch * rows * form.tiles_of_a_row * form.channel_tiles
    sums = blocks * data * weights * REGISTER_ROWS * LANES
    return {
        "estimated_cycles": estimated_cycles(form),
        "blocks": blocks,
        "products": form.steps * data * weights,
        "loads_per_product": 1 / data + 1 / weights,
        "waste": sums / (image.batch * math.prod(image.output) * image.out_channels),
        "register_rows": form.columns_of_register,
        "joined": float(form.joined),
        "split": float(form.split),
        "turned": float(form.turned),
        "steps": form.steps,
        "step_bytes": form.step_bytes,
        "parts_per_step": form.parts / form.steps,
        "block_weight_bytes": _block_weight_bytes(form),
        "weight_bytes": _block_weight_bytes(form) * form.channel_tiles,
        "image_bytes": _read_bytes(form),
        "row_stride_bytes": form.strides[1] * form.pixel_bytes,
        "weights_outer": float(form.outer == "weights"),
        "copies": float(form.copies),
        "pipelined": float(form.pipelined),
        "fetches_ahead": float(form.fetch == "ahead"),
    }

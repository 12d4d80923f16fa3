"""TFLite operators that move values, where these are no 8-bit integers or places are computed, as ONNX nodes.

Sources: the reference kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.graph import DTYPES
from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader


def _joined(at: Nodes) -> str:
    options, rank = at.options("Concatenation"), len(at.outputs[0].shape)
    axis = at.axis(options.Axis(), rank)
    return at.activated(at.apply("Concat", *at.inputs(), axis=axis), options.FusedActivationFunction())


def _packed(at: Nodes) -> str:
    rank = len(at.outputs[0].shape)
    axis = at.axis(at.options("Pack").Axis(), rank)
    parts = [
        at.shaped(at.input(index), (*at.shape(index)[:axis], 1, *at.shape(index)[axis:])) for index in range(len(at))
    ]
    return at.apply("Concat", *parts, axis=axis)


def _padded(at: Nodes) -> str:
    at.require_types("f32")
    rank, widths = len(at.shape(0)), at.integers(1, "padding")
    at.require(len(widths) == 2 * rank and min(widths, default=0) >= 0, "it must have two widths for each axis")
    value = 0.0
    if len(at) > 2:
        numbers = at.numbers(2)
        at.require(numbers.size == 1, "the value of its border must be one constant")
        value = float(numbers.reshape(-1)[0])
    pads = at.places([*widths[::2], *widths[1::2]])
    return at.apply("Pad", at.input(0), pads, at.number(value))


def _space_to_batch(at: Nodes) -> str:
    at.require_types("f32")
    shape, block, widths = at.shape(0), at.integers(1, "blocks"), at.integers(2, "paddings")
    count = len(block)
    fits = 1 <= count < len(shape) and len(widths) == 2 * count and min(block) >= 1 and min(widths) >= 0
    at.require(fits, f"its blocks and paddings must be those of axes of {shape}: {block}")
    before, after = ([0, *widths[first::2], *[0] * (len(shape) - count - 1)] for first in (0, 1))
    wide = [sum(each) for each in zip(shape, before, after, strict=True)]
    at.require(not any(extent % each for extent, each in zip(wide[1:], block, strict=False)), f"{wide} has no blocks")
    padded = at.apply("Pad", at.input(0), at.places([*before, *after]), at.number(0.0))
    parts = [part for extent, each in zip(wide[1:], block, strict=False) for part in (extent // each, each)]
    rest = range(2 * count + 1, 2 * count + len(shape) - count)
    order = (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *rest)
    split = at.shaped(padded, (wide[0], *parts, *wide[1 + count :]))
    return at.shaped(at.transposed(split, order), at.outputs[0].shape)


def _gathered(at: Nodes) -> str:
    """Places outside of the axis, of which LiteRT makes an error, are the next one within it."""
    options, shape = at.options("Gather"), at.shape(0)
    at.require(len(at) == 2 and at.value(1).type in ("s32", "s64"), "its indices must be integers")
    axis, batches = at.axis(options.Axis(), max(1, len(shape))), options.BatchDims()
    _require_within(at, (shape or (1,))[axis])
    if not batches:
        return at.apply("Gather", at.input(0), at.input(1), axis=axis)
    at.require(axis == batches and at.shape(1)[:batches] == shape[:batches], "its batches must be those of its data")
    places = at.shaped(at.input(1), (*at.shape(1), 1))
    return at.apply("GatherND", at.input(0), at.apply("Cast", places, to=7), batch_dims=batches)


def _gathered_nd(at: Nodes) -> str:
    at.require(len(at) == 2 and at.value(1).type in ("s32", "s64"), "its indices must be integers")
    axes = (*at.shape(1), 0)[-2]
    at.require(1 <= axes <= len(at.shape(0)), f"its indices must be those of axes of {at.shape(0)}: {axes}")
    _require_within(at, *at.shape(0)[:axes])
    return at.apply("GatherND", at.input(0), at.apply("Cast", at.input(1), to=7))


def _require_within(at: Nodes, *extents: int) -> None:
    known = at.value(1).constant
    fits = known is None or bool(((known >= 0) & (known < np.array(extents))).all())
    at.require(fits, f"its indices must be within {list(extents)}")


def _looked_up(at: Nodes) -> str:
    """Rows of a table."""
    at.require(len(at) == 2 and at.value(0).type == "s32" and bool(at.shape(1)), "it must have indices and a table")
    return at.apply("Gather", at.input(1), at.input(0), axis=0)


def _one_hot(at: Nodes) -> str:
    at.require(len(at) == 4 and at.value(0).type in ("s32", "s64"), "it must have integers, a count and two values")
    (count, *_), rank = at.integers(1, "count"), len(at.outputs[0].shape)
    axis = at.options("OneHot").Axis()
    axis = rank - 1 if axis == -1 else at.axis(axis, rank)
    at.require(count == at.outputs[0].shape[axis], f"its output must have {count} places: {at.outputs[0].shape}")
    shape = at.shape(0)
    places = at.shaped(at.input(0), (*shape[:axis], 1, *shape[axis:]))
    every = np.arange(count).astype(np.int32 if at.value(0).type == "s32" else np.int64)
    is_one = at.apply("Equal", places, at.constant(every.reshape([-1] + [1] * (rank - axis - 1))))
    return at.apply("Where", is_one, at.input(2), at.input(3))


def _filled(at: Nodes) -> str:
    at.require(len(at) == 2 and math.prod(at.shape(1)) == 1, "it must have a shape and a value")
    return at.apply("Expand", at.input(1), at.places(at.outputs[0].shape))


def _updated(at: Nodes) -> str:
    """Data with a part of it replaced; where it begins is moved so that all of it is within the data."""
    at.require(len(at) == 3 and at.value(2).type in ("s32", "s64"), "it must have data, a part of it and its place")
    shape, part = at.shape(0), at.shape(1)
    fits = len(shape) == len(part) and all(each <= extent for each, extent in zip(part, shape, strict=True))
    at.require(fits and at.shape(2) == (len(shape),), f"its part {part} must be within {shape}")
    starts, placed, is_within = at.apply("Cast", at.input(2), to=ELEMENTS["s64"]), at.input(1), ""
    for axis, (extent, each) in enumerate(zip(shape, part, strict=True)):
        start = at.apply("Gather", starts, at.places([axis]), axis=0)
        start = at.apply("Min", at.apply("Max", start, at.places([0])), at.places([extent - each]))
        place = at.apply("Sub", at.places(range(extent)), start)
        inside = at.apply("Min", at.apply("Max", place, at.places([0])), at.places([each - 1]))
        placed = at.apply("Gather", placed, inside, axis=axis)
        is_here = at.shaped(at.apply("Equal", place, inside), (extent, *(1,) * (len(shape) - axis - 1)))
        is_within = at.apply("And", is_within, is_here) if is_within else is_here
    return at.chosen(is_within, placed, at.input(0))


def _diagonal(at: Nodes) -> str:
    """Matrices of zeros but for a diagonal; of stored values, too, which are 0."""
    at.require(len(at) == 1 and bool(at.shape(0)), "it must have one input of at least one axis")
    (*batch, extent), element = at.shape(0), at.element(at.value(0))
    at.require_known((extent, extent))
    rows, zero = at.shaped(at.input(0), (*batch, 1, extent)), at.constant(0, DTYPES[element])
    return at.chosen(at.constant(np.eye(extent, dtype=np.bool_)), rows, zero)


def _diagonal_set(at: Nodes) -> str:
    at.require(len(at) == 2 and len(at.shape(0)) > 1, "it must have matrices and diagonals")
    *batch, rows, columns = at.shape(0)
    at.require_known((rows, columns))
    least = min(rows, columns)
    at.require(at.shape(1) == (*batch, least), f"its diagonals must have shape {[*batch, least]}: {at.shape(1)}")
    places = np.minimum(np.arange(columns), least - 1)
    spread = at.apply("Gather", at.input(1), at.places([int(place) for place in places]), axis=-1)
    spread = at.shaped(spread, (*batch, 1, columns))
    return at.chosen(at.constant(np.eye(rows, columns, dtype=np.bool_)), spread, at.input(0))


def _dilated(at: Nodes) -> str:
    """Values with others in between, along each axis."""
    at.require(len(at) == 3 and math.prod(at.shape(2)) == 1, "it must have data, dilations and one value")
    shape, factors = at.shape(0), at.integers(1, "dilations")
    at.require(len(factors) == len(shape) > 0 and min(factors) >= 1 and min(shape) >= 1, "it must dilate each axis")
    made = [(extent - 1) * factor + 1 for extent, factor in zip(shape, factors, strict=True)]
    at.require_known(made)
    spread, is_taken = at.input(0), np.ones((), np.bool_)
    for axis, (extent, factor) in enumerate(zip(made, factors, strict=True)):
        places = np.arange(extent)
        if factor > 1:
            spread = at.apply("Gather", spread, at.constant(places // factor), axis=axis)
        is_taken = is_taken[..., None] & (places % factor == 0)
    return at.chosen(at.constant(is_taken), spread, at.shaped(at.input(2), ()))


def _reversed_sequences(at: Nodes) -> str:
    """The first values of each sequence in the other order; LiteRT reads outside where that are too many."""
    options, shape = at.options("ReverseSequence"), at.shape(0)
    at.require(len(at) == 2 and at.value(1).type in ("s32", "s64"), "it must have data and lengths")
    along, batch = options.SeqDim(), options.BatchDim()
    fits = along != batch and 0 <= along < len(shape) and 0 <= batch < len(shape) and at.shape(1) == (shape[batch],)
    at.require(fits, f"its axes must be two of {shape}, with a length for each of a batch: {along}, {batch}")
    order = [batch, along, *(axis for axis in range(len(shape)) if axis not in (batch, along))]
    places = at.constant(np.arange(shape[along]), np.int64)
    lengths = at.shaped(at.apply("Cast", at.input(1), to=ELEMENTS["s64"]), (shape[batch], 1))
    turned = at.apply("Sub", at.apply("Sub", lengths, at.places([1])), places)
    taken = at.apply("Where", at.apply("Less", places, lengths), turned, places)
    taken = at.apply("Min", taken, at.places([shape[along] - 1]))
    taken = at.shaped(taken, (shape[batch], shape[along], 1))
    rows = at.apply("GatherND", at.transposed(at.input(0), order), taken, batch_dims=1)
    return at.transposed(rows, [order.index(axis) for axis in range(len(shape))])


def _same(at: Nodes) -> str:
    """Numbers in another type: both ends of the nodes do that."""
    at.require_types("f32")
    at.require(len(at) == 1, f"it must have one input: {len(at)}")
    return at.apply("Identity", at.input(0))


READERS: dict[str, Reader] = {
    "QUANTIZE": _same,
    "DEQUANTIZE": _same,
    "CONCATENATION": _joined,
    "PACK": _packed,
    "PAD": _padded,
    "PADV2": _padded,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "GATHER": _gathered,
    "GATHER_ND": _gathered_nd,
    "EMBEDDING_LOOKUP": _looked_up,
    "ONE_HOT": _one_hot,
    "FILL": _filled,
    "DYNAMIC_UPDATE_SLICE": _updated,
    "MATRIX_DIAG": _diagonal,
    "MATRIX_SET_DIAG": _diagonal_set,
    "DILATE": _dilated,
    "REVERSE_SEQUENCE": _reversed_sequences,
}
RAW = (
    *("CONCATENATION", "PACK", "GATHER", "GATHER_ND", "FILL", "DYNAMIC_UPDATE_SLICE"),
    *("MATRIX_DIAG", "MATRIX_SET_DIAG", "DILATE", "REVERSE_SEQUENCE"),
)

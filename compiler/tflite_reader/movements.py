"""TFLite's operators that move values and change none: each as a chain of a graph's.

Sources: the kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import LongArray, zero_point_of
from int8tune.compiler.tflite_reader.steps import Reason, Step, integers

Shape = tuple[int, ...]
# Each link is a kind, its attributes, and the shape of what it makes.
Link = tuple[Kind, dict[str, Any], Shape]
Values = MutableMapping[str, Value]
# Of an axis.
MOST_PLACES = 1 << 20
MIRROR_MODES = {0: "reflect", 1: "symmetric"}


def moved(step: Step, values: Values) -> tuple[Operator, ...]:
    """The operators of a movement, or one of kind OTHER."""
    word = step.plain.operator
    if word in ("SPLIT", "SPLIT_V", "UNPACK"):
        found = (_unpacked if word == "UNPACK" else _split)(step, values)
    elif word == "PACK":
        found = _packed(step, values)
    elif len(step.inputs) < _LEAST_INPUTS.get(word, 1) or len(step.plain.outputs) != 1:
        found = f"it has {len(step.inputs)} inputs and {len(step.plain.outputs)} outputs"
    elif word in _GATHERING and max((*step.inputs[0].shape, *step.output.shape), default=0) > MOST_PLACES:
        found = f"it must have at most {MOST_PLACES} places on an axis: {step.inputs[0].shape}, {step.output.shape}"
    else:
        links = _CHAINS[word](step)
        found = links if isinstance(links, str) else _chain(step.plain, step.inputs[0].name, links, values)
    return (other(step.plain, found),) if isinstance(found, str) else found


def _chain(plain: Operator, data: str, links: list[Link], values: Values) -> tuple[Operator, ...]:
    """Operators one behind the other, the last of which makes the operator's first output."""
    made: list[Operator] = []
    (output, *_), source = plain.outputs, data
    shapes = [values[data].shape, *(shape for _, _, shape in links)]
    idle = [kind is Kind.RESHAPE and before == shape for (kind, _, shape), before in zip(links, shapes, strict=False)]
    links = [link for link, is_idle in zip(links, idle, strict=True) if not is_idle] or links[-1:]
    for index, (kind, attributes, shape) in enumerate(links):
        name = output
        if index < len(links) - 1:
            name = free_name(f"{output}/{index}", values)
            values[name] = replace(values[output], name=name, shape=shape)
        operator = replace(plain, kind=kind, inputs=(source,), outputs=(name,), attributes=attributes)
        made.append(checked(replace(operator, layers=plain.layers if name == output else (name,)), values))
        source = name
    return tuple(made)


def _gather_link(shape: Shape, places: dict[int, LongArray]) -> Link:
    each = tuple(places.get(axis) for axis in range(len(shape)))
    made = tuple(extent if at is None else len(at) for at, extent in zip(each, shape, strict=True))
    return Kind.GATHER, {"places": each}, made


def _reshape_link(shape: Shape) -> Link:
    return Kind.RESHAPE, {}, shape


def _slice(step: Step) -> list[Link] | Reason:
    begin, size = (integers(value) for value in step.inputs[1:3])
    shape = step.inputs[0].shape
    if begin is None or size is None or not len(begin) == len(size) == len(shape):
        return "its begin and size must be constant, one for each axis"
    end = [extent if part == -1 else first + part for first, part, extent in zip(begin, size, shape, strict=True)]
    attributes = {"begin": tuple(begin), "end": tuple(end), "strides": (1,) * len(shape)}
    return [(Kind.SLICE, attributes, step.output.shape)]


def _strided_slice(step: Step) -> list[Link] | Reason:
    places = strided_places(step)
    return (
        places if isinstance(places, str) else [*_cut(step.inputs[0].shape, places), _reshape_link(step.output.shape)]
    )


def strided_places(step: Step) -> list[slice] | Reason:
    """What a STRIDED_SLICE takes of each axis of its data."""
    options, shape = step.options("StridedSliceOptions"), step.inputs[0].shape
    begin, end, strides = (integers(value) for value in step.inputs[1:4])
    if begin is None or end is None or strides is None or not len(begin) == len(end) == len(strides):
        return "its begin, end and strides must be constant, one for each axis"
    if options.Offset() or 0 in strides:
        return f"its end must be a place, and its strides not 0: {strides}"
    places, axis = list[slice](), 0
    left_out = [index for index in range(len(begin)) if options.EllipsisMask() >> index & 1]
    named = sum(not (options.NewAxisMask() | options.EllipsisMask()) >> index & 1 for index in range(len(begin)))
    if named > len(shape) or len(left_out) > 1:
        return f"its places must be those of {shape}: {begin}"
    for index, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        if index in left_out:
            places += [slice(None)] * (len(shape) - named)
        elif options.NewAxisMask() >> index & 1:
            continue
        elif options.ShrinkAxisMask() >> index & 1:
            extent = shape[len(places)]
            at = 0 if options.BeginMask() >> index & 1 else max(first + extent * (first < 0), 0)
            if at >= extent or stride < 0:  # LiteRT takes nothing then, and makes what is in memory
                return f"it must take a place within {extent} in ascending steps: {first}, {stride}"
            places.append(slice(at, at + 1, 1))
        else:
            start = None if options.BeginMask() >> index & 1 else first
            stop = None if options.EndMask() >> index & 1 else last
            places.append(slice(start, stop, stride))
        axis += 1
    return places + [slice(None)] * (len(shape) - len(places))


def _cut(shape: Shape, places: list[slice]) -> list[Link]:
    whole = [each.indices(extent) for each, extent in zip(places, shape, strict=True)]
    if any(stride < 0 for _, _, stride in whole) and max(shape) <= MOST_PLACES:
        taken = [np.arange(extent)[each] for each, extent in zip(places, shape, strict=True)]
        return [_gather_link(shape, dict(enumerate(taken)))]
    attributes = dict(zip(("begin", "end", "strides"), zip(*whole, strict=True), strict=True))
    return [(Kind.SLICE, attributes, tuple(len(range(*each)) for each in whole))]


def _gather(step: Step) -> list[Link] | Reason:
    options, (data, indices) = step.options("GatherOptions"), step.inputs[:2]
    found, rank = integers(indices), len(data.shape)
    axis = options.Axis() + rank * (options.Axis() < 0)
    if found is None or options.BatchDims() or not 0 <= axis < rank:
        return "its indices must be constant, and the same for all batches"
    return [_gather_link(data.shape, {axis: np.array(found, np.int64)}), _reshape_link(step.output.shape)]


def _gather_nd(step: Step) -> list[Link] | Reason:
    data, indices = step.inputs[:2]
    found, axes = integers(indices), (*indices.shape, 0)[-2]
    if found is None or not 1 <= axes <= len(data.shape) or not indices.shape:
        return "its indices must be constant, one for each of its first axes"
    places, front = np.array(found, np.int64).reshape(-1, axes), data.shape[:axes]
    if (places < 0).any() or (places >= np.array(front)).any():
        return f"its indices must be within {front}"
    rows = np.asarray(np.ravel_multi_index(tuple(places.T), front), np.int64)
    flat = (math.prod(front), *data.shape[axes:])
    return [_reshape_link(flat), _gather_link(flat, {0: rows}), _reshape_link(step.output.shape)]


def _tile(step: Step) -> list[Link] | Reason:
    shape, counts = step.inputs[0].shape, integers(step.inputs[1])
    if counts is None or len(counts) != len(shape) or min(counts, default=1) < 1:
        return f"its multiples must be constant, at least 1 for each axis: {counts}"
    made = [extent * count for extent, count in zip(shape, counts, strict=True)]
    if math.prod(made) != math.prod(step.output.shape):
        return f"its output must have shape {made}: {step.output.shape}"
    return [_gather_link(shape, {axis: np.arange(extent) % shape[axis] for axis, extent in enumerate(made)})]


def _broadcast(step: Step) -> list[Link] | Reason:
    shape, made = step.inputs[0].shape, step.output.shape
    if len(shape) > len(made):
        return f"{shape} can't become {made}"
    wide = (1,) * (len(made) - len(shape)) + shape
    if any(own not in (1, extent) for own, extent in zip(wide, made, strict=True)):
        return f"{shape} can't become {made}"
    spread = {axis: np.zeros(extent, np.int64) for axis, extent in enumerate(made) if wide[axis] < extent}
    return [_reshape_link(wide), _gather_link(wide, spread)]


def _mirror_pad(step: Step) -> list[Link] | Reason:
    shape, widths = step.inputs[0].shape, integers(step.inputs[1])
    mode = MIRROR_MODES[step.options("MirrorPadOptions").Mode()]
    if widths is None or len(widths) != 2 * len(shape) or min(widths, default=0) < 0:
        return "its padding must be constant, two widths for each axis"
    places = {}
    for axis, extent in enumerate(shape):
        before, after = widths[2 * axis : 2 * axis + 2]
        if max(before, after) > extent - (mode == "reflect"):
            return f"a border must be narrower than its image: {widths}, {shape}"
        places[axis] = np.pad(np.arange(extent), (before, after), mode)  # type: ignore[call-overload]
    return [_gather_link(shape, places)]


def _reverse(step: Step) -> list[Link] | Reason:
    shape, axes = step.inputs[0].shape, integers(step.inputs[1])
    if axes is None or not all(-len(shape) <= axis < len(shape) for axis in axes):
        return f"its axes must be constant, and those of {shape}: {axes}"
    return [_gather_link(shape, {axis % len(shape): np.arange(shape[axis])[::-1] for axis in axes})]


def _blocks(step: Step) -> list[Link] | Reason:
    is_depth = step.plain.operator == "DEPTH_TO_SPACE"
    block = step.options("DepthToSpaceOptions" if is_depth else "SpaceToDepthOptions").BlockSize()
    kind = Kind.DEPTH_TO_SPACE if is_depth else Kind.SPACE_TO_DEPTH
    return [(kind, {"block": (block, block), "minor": False}, step.output.shape)]


def _space_to_batch(step: Step) -> list[Link] | Reason:
    (data, *_), block, widths = step.inputs, integers(step.inputs[1]), integers(step.inputs[2])
    if block is None or widths is None or data.quantization is None or len(widths) != 2 * len(block):
        return "its blocks and paddings must be constant, its values quantized"
    shape, count = data.shape, len(block)
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    if not 1 <= count < len(shape) or min(block) < 1 or min(widths) < 0:
        return f"its blocks must be those of axes of {shape}: {block}"
    padding = ((0, 0), *pairs, *((0, 0),) * (len(shape) - count - 1))
    wide = tuple(extent + sum(pair) for extent, pair in zip(shape, padding, strict=True))
    if any(extent % each for extent, each in zip(wide[1:], block, strict=False)):
        return f"{wide} has no blocks of {block}"
    split = [part for extent, each in zip(wide[1:], block, strict=False) for part in (extent // each, each)]
    rest = wide[1 + count :]
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    order = (*inner, 0, *outer, *range(2 * count + 1, 2 * count + 1 + len(rest)))
    before = (wide[0], *split, *rest)
    return [
        (Kind.PAD, {"padding": padding, "value": zero_point_of(data)}, wide),
        _reshape_link(before),
        (Kind.TRANSPOSE, {"permutation": order}, tuple(before[axis] for axis in order)),
        _reshape_link(step.output.shape),
    ]


def _batch_to_space(step: Step) -> list[Link] | Reason:
    (data, *_), block, crops = step.inputs, integers(step.inputs[1]), integers(step.inputs[2])
    if block is None or crops is None or len(crops) != 2 * len(block):
        return "its blocks and crops must be constant"
    shape, count = data.shape, len(block)
    if not 1 <= count < len(shape) or min(block) < 1 or shape[0] % math.prod(block):
        return f"its blocks must be those of axes of {shape}: {block}"
    rest = shape[1 + count :]
    before = (*block, shape[0] // math.prod(block), *shape[1:])
    order = (count, *(place for axis in range(count) for place in (count + 1 + axis, axis)))
    order = (*order, *range(2 * count + 1, 2 * count + 1 + len(rest)))
    wide = tuple(extent * each for extent, each in zip(shape[1:], block, strict=False))
    whole = (before[count], *wide, *rest)
    ends = [extent - after for extent, after in zip(wide, crops[1::2], strict=True)]
    cut = [slice(None), *map(slice, crops[::2], ends), *[slice(None)] * len(rest)]
    return [
        _reshape_link(before),
        (Kind.TRANSPOSE, {"permutation": order}, tuple(before[axis] for axis in order)),
        _reshape_link(whole),
        *_cut(whole, cut),
    ]


def _split(step: Step, values: Values) -> tuple[Operator, ...] | Reason:
    """A slice for each output, behind the one before."""
    order = slice(None, None, -1) if step.plain.operator == "SPLIT" else slice(0, 3, 2)
    data, where = (*step.inputs[order], None, None)[:2]
    axes = None if where is None else integers(where)
    if data is None or axes is None or len(axes) != 1 or not -len(data.shape) <= axes[0] < len(data.shape):
        return "its axis must be constant and one of its input's"
    axis = axes[0] % len(data.shape)
    lengths = [(*values[name].shape, *data.shape)[axis] for name in step.plain.outputs]
    return _parts(step, data, values, axis, lengths, lambda part: [part])


def _unpacked(step: Step, values: Values) -> tuple[Operator, ...] | Reason:
    """A slice for each output, without its axis."""
    (data, *_), axis = step.inputs, step.options("UnpackOptions").Axis()
    if not -len(data.shape) <= axis < len(data.shape):
        return f"its axis must be one of {data.shape}: {axis}"
    axis %= len(data.shape)
    shape = data.shape[:axis] + data.shape[axis + 1 :]
    return _parts(step, data, values, axis, [1] * len(step.plain.outputs), lambda part: [part, _reshape_link(shape)])


def _parts(
    step: Step, data: Value, values: Values, axis: int, lengths: list[int], links: Callable[[Link], list[Link]]
) -> tuple[Operator, ...]:
    made: list[Operator] = []
    for name, length, end in zip(step.plain.outputs, lengths, accumulate(lengths), strict=True):
        begin = tuple(end - length if each == axis else 0 for each in range(len(data.shape)))
        ends = tuple(end if each == axis else extent for each, extent in enumerate(data.shape))
        attributes = {"begin": begin, "end": ends, "strides": (1,) * len(data.shape)}
        shape = tuple(length if each == axis else extent for each, extent in enumerate(data.shape))
        part = replace(step.plain, layers=(name,), outputs=(name,))
        made += _chain(part, data.name, links((Kind.SLICE, attributes, shape)), values)
    return tuple(made)


def _packed(step: Step, values: Values) -> tuple[Operator, ...] | Reason:
    """Values with another axis, joined."""
    rank, axis = len(step.output.shape), step.options("PackOptions").Axis()
    if not -rank <= axis < rank:
        return f"its axis must be one of {step.output.shape}: {axis}"
    axis %= rank
    made, names = list[Operator](), list[str]()
    for index, data in enumerate(step.inputs):
        name = free_name(f"{step.output.name}/{index}", values)
        values[name] = replace(data, name=name, shape=(*data.shape[:axis], 1, *data.shape[axis:]), constant=None)
        reshape = replace(step.plain, kind=Kind.RESHAPE, layers=(name,), inputs=(data.name,), outputs=(name,))
        made.append(checked(reshape, values))
        names.append(name)
    joined = replace(step.plain, kind=Kind.CONCAT, inputs=tuple(names), attributes={"axis": axis})
    return (*made, checked(joined, values))


_CHAINS: dict[str, Callable[[Step], list[Link] | Reason]] = {
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast,
    "MIRROR_PAD": _mirror_pad,
    "REVERSE_V2": _reverse,
    "DEPTH_TO_SPACE": _blocks,
    "SPACE_TO_DEPTH": _blocks,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
}
# Those that say each place.
_GATHERING = ("GATHER", "GATHER_ND", "TILE", "BROADCAST_TO", "MIRROR_PAD", "REVERSE_V2")
_LEAST_INPUTS = {
    **dict.fromkeys(("SLICE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), 3),
    **dict.fromkeys(("GATHER", "GATHER_ND", "TILE", "MIRROR_PAD", "REVERSE_V2"), 2),
    "STRIDED_SLICE": 4,
}
MOVEMENTS = (*_CHAINS, "SPLIT", "SPLIT_V", "UNPACK", "PACK")

"""ONNX's operators that move values and change none; axes are still those of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind
from int8tune.compiler.onnx_reader.layers import MAX_NUMBER
from int8tune.compiler.onnx_reader.steps import Found, Reason, Step
from int8tune.compiler.operators.base import LongArray
from int8tune.compiler.operators.float_tables import quantized as stored_of

# How numpy calls ONNX's ways to pad with an image's own values.
PAD_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _reshape(step: Step) -> Found | Reason:  # noqa: ARG001
    return Found(Kind.RESHAPE, {})


def _transpose(step: Step) -> Found | Reason:
    rank = len(step.shape)
    order = step.node.attributes.get("perm", tuple(reversed(range(rank))))
    if not isinstance(order, tuple) or sorted(order) != list(range(rank)):
        return f"{order} is no order of {rank} axes"
    return Found(Kind.TRANSPOSE, {"permutation": order})


def _pad(step: Step) -> Found | Reason:
    rank, widths, axes = len(step.shape), step.integers(1, "pads"), step.integers(3, "axes")
    mode = step.node.attributes.get("mode", "constant")
    if mode != "constant" and mode not in PAD_MODES:
        return f"its border must be constant, or {', '.join(PAD_MODES)}: {mode}"
    if widths is None or step.is_computed(2) or step.is_computed(3):
        return "its pads, their value and axes must be constant"
    axes = tuple(range(rank)) if axes is None else axes
    if len(widths) != 2 * len(axes) or not all(-rank <= axis < rank for axis in axes):
        return f"{len(widths)} pads don't fit axes {axes}"
    padding = [(0, 0)] * rank
    for axis, before, after in zip(axes, widths, widths[len(axes) :], strict=False):
        padding[axis % rank] = before, after
    if mode != "constant":
        return _bordered(step.shape, padding, PAD_MODES[mode])
    filling = step.constants.get(step.node.input(2))
    if filling is not None and filling.array.size != 1:
        return "its border must have one value"
    value = step.number("value", 0.0) if filling is None else float(filling.real.reshape(-1)[0])
    if not np.isfinite(value):
        return f"the value of its border must be finite: {value}"
    stored = int(value) if step.is_raw else stored_of(value, step.output)
    return Found(Kind.PAD, {"padding": tuple(padding), "value": stored})


def _bordered(shape: tuple[int, ...], padding: list[tuple[int, int]], mode: Any) -> Found | Reason:
    """A border of an image's own values; widths below 0 cut it."""
    places = {}
    if max(shape, default=0) > MAX_NUMBER:
        return f"it must have at most {MAX_NUMBER} places on an axis: {shape}"
    for axis, ((before, after), extent) in enumerate(zip(padding, shape, strict=True)):
        most = MAX_NUMBER if mode == "edge" else extent - (mode == "reflect")
        if max(before, after) > most or min(before, after) < (0 if mode == "wrap" else -extent):
            return f"a border of an image's own values must be narrower than it: {padding}, {shape}"
        if before or after:
            wide = np.pad(np.arange(extent), (max(0, before), max(0, after)), mode)
            places[axis] = wide[max(0, -before) : len(wide) - max(0, -after)]
    return _gathered(shape, places) if places else Found(Kind.RESHAPE, {})


def _slice(step: Step) -> Found | Reason:
    rank = len(step.shape)
    starts, ends = step.integers(1, "starts"), step.integers(2, "ends")
    axes, steps = step.integers(3, "axes"), step.integers(4, "steps")
    if starts is None or ends is None or step.is_computed(3) or step.is_computed(4):
        return "its places must be constant"
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or not all(-rank <= axis < rank for axis in axes):
        return f"its places don't fit {step.shape}"
    if 0 in steps:
        return f"its steps must not be 0: {steps}"
    if min(steps, default=1) < 1:
        return _reversed(step.shape, starts, ends, axes, steps)
    places = [(0, extent, 1) for extent in step.shape]
    for axis, start, end, stride in zip(axes, starts, ends, steps, strict=True):
        places[axis % rank] = slice(start, end, stride).indices(step.shape[axis])
    return _places(places)


def _reversed(shape: tuple[int, ...], *places: tuple[int, ...]) -> Found | Reason:
    """A slice with steps below 0. An end before the first place is one that is far below it."""
    taken = {}
    if max(shape, default=0) > MAX_NUMBER:
        return f"it must have at most {MAX_NUMBER} places on an axis: {shape}"
    for start, end, axis, stride in zip(*places, strict=True):
        taken[axis % len(shape)] = np.arange(shape[axis])[start : _end(end, shape[axis], stride) : stride]
    return _gathered(shape, taken)


def _end(end: int, extent: int, stride: int) -> int | None:
    return None if stride < 0 and end < -extent else end


def _split(step: Step) -> Found | Reason:
    rank, axis = len(step.shape), step.node.attributes.get("axis", 0)
    sizes, parts = step.integers(1, "split"), len(step.node.outputs)
    if step.is_computed(1) or not isinstance(axis, int) or not -rank <= axis < rank:
        return "its axis and sizes must be constant"
    extent = step.shape[axis]
    if sizes is None:
        sizes = (-(-extent // parts),) * parts
    begin = sum(sizes[: step.index])
    places = [(0, length, 1) for length in step.shape]
    places[axis % rank] = begin, min(extent, begin + (*sizes, *(0,) * parts)[step.index]), 1
    return _places(places)


def _places(places: list[tuple[int, int, int]]) -> Found:
    names = ("begin", "end", "strides")
    return Found(Kind.SLICE, dict(zip(names, zip(*places, strict=True), strict=True)))


def _gather(step: Step) -> Found | Reason:
    indices, axis, rank = step.constants.get(step.node.input(1)), step.node.attributes.get("axis", 0), len(step.shape)
    if indices is None or indices.array.dtype.kind != "i":
        return "its indices must be constant"
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return f"its axis must be one of {step.shape}: {axis}"
    axis, places = axis % rank, indices.array.reshape(-1).astype(np.int64)
    places = np.where(places < 0, places + step.shape[axis], places)
    return _gathered(step.shape, {axis: places})


def _expand(step: Step) -> Found | Reason:
    made = step.output.shape
    if max(made, default=0) > MAX_NUMBER:
        return f"it must have at most {MAX_NUMBER} places on an axis: {made}"
    taken = (1,) * (len(made) - len(step.shape)) + step.shape
    extents = enumerate(zip(taken, made, strict=True))
    spread = {axis: np.zeros(extent, np.int64) for axis, (own, extent) in extents if own < extent}
    return _gathered(taken, spread) if spread else Found(Kind.RESHAPE, {})


def _tile(step: Step) -> Found | Reason:
    repeats = step.integers(1, "repeats")
    most = max(step.output.shape, default=0)
    if repeats is None or len(repeats) != len(step.shape) or min(repeats, default=1) < 1 or most > MAX_NUMBER:
        return f"its repeats must be constant, 1 to {MAX_NUMBER} for each axis: {repeats}"
    tiled = {
        axis: np.arange(extent * count) % extent
        for axis, (extent, count) in enumerate(zip(step.shape, repeats, strict=True))
        if count > 1
    }
    return _gathered(step.shape, tiled) if tiled else Found(Kind.RESHAPE, {})


def _blocks(step: Step) -> Found | Reason:
    block, mode = step.node.attributes.get("blocksize"), step.node.attributes.get("mode", "DCR")
    if not isinstance(block, int) or not 1 <= block <= MAX_NUMBER or len(step.shape) != 4 or mode not in ("DCR", "CRD"):
        return (
            f"its blocks must be of 1 to {MAX_NUMBER} rows in the channels of an image: {block}, {mode}, {step.shape}"
        )
    is_depth = step.node.computes == "DepthToSpace"
    attributes = {"block": (block, block), "minor": mode == "CRD"}
    return Found(Kind.DEPTH_TO_SPACE if is_depth else Kind.SPACE_TO_DEPTH, attributes)


def _gathered(shape: Sequence[int], places: dict[int, LongArray]) -> Found:
    """A gather from values of a shape, at places on some axes."""
    each = tuple(places.get(axis) for axis in range(len(shape)))
    made = tuple(extent if at is None else len(at) for at, extent in zip(each, shape, strict=True))
    return Found(Kind.GATHER, {"places": each}, taken=tuple(shape), made=made)


MOVEMENTS: dict[str, Callable[[Step], Found | Reason]] = {
    "Transpose": _transpose,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), _reshape),
}

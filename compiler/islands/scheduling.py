"""How kernels of islands run: products in tiles, everything else along vectors. This module imports TVM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm

from int8tune.compiler.islands.convolutions import (
    CHANNELS,
    FRAME,
    WOVEN,
    schedule_channels,
    schedule_columns,
    schedule_woven,
)
from int8tune.compiler.islands.products import COLUMNS, CUT, PADDED, PRODUCTS, schedule_products
from int8tune.compiler.islands.resizing import ACROSS
from int8tune.compiler.islands.rows import PREFIX, schedule_rows
from int8tune.compiler.operator_kernels.kernel import LEAST_SHARED_RESULTS
from int8tune.schedules.target import Target

LANES = 16
# Values of a window whose loops are written out.
MOST_UNROLLED = 25
# What TVM calls the border of a pool's image, which each of its windows would ask for.
BORDER = "pad_temp"
# Letters of a block's text, in all places that it would stand in.
MOST_INLINED = 2000
# Functions of TIR that LLVM has no vectors of, only libm's one value at a time.
ONE_BY_ONE = ("tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "log1p", "fmod")
# Functions that take many instructions; `Let` is what `compiler.islands.functions` writes.
COSTLY = (
    *ONE_BY_ONE,
    "Let",
    "exp",
    "exp2",
    "log",
    "log2",
    "log10",
    "pow",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "sin",
    "cos",
)


def with_whole_vectors(target: Target) -> Target:
    """The target for LLVM's own vectors: it takes only half of those of 512 bits, if it isn't told otherwise."""
    if not str(target.tvm.get("mcpu", "")).endswith("v4"):
        return target
    return replace(target, tvm={**target.tvm, "mattr": [*target.tvm.get("mattr", ()), "-prefer-256-bit"]})


def scheduled(function: Any, target: Target) -> Any:
    """A PrimFunc, scheduled as far as its blocks allow it."""
    if not _has_blocks(function):
        return function  # its loops are written one by one
    schedule = tvm.s_tir.Schedule(function)
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    if all(schedule.get(block).name_hint.startswith(PREFIX) for block in blocks):
        schedule_rows(schedule, blocks, target.threads)
        return schedule.mod["main"]
    _inline(schedule)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        name = schedule.get(block).name_hint
        if name.startswith(PRODUCTS):
            schedule_products(schedule, block, target.threads)
        elif name.startswith(CHANNELS):
            schedule_channels(schedule, block, target.threads)
        elif name.startswith(WOVEN):
            schedule_woven(schedule, block, target.threads)
        elif name.startswith(COLUMNS):
            schedule_columns(schedule, block, target.threads)
        else:
            _vectorize(schedule, block, target.threads)
    return schedule.mod["main"]


def _has_blocks(function: Any) -> bool:
    body = function.body
    return isinstance(body, tvm.s_tir.SBlockRealize) and body.block.name_hint == "root"


def _inline(schedule: Any) -> None:
    """Compute what is copied, compared or calculated where it is read; what takes a function's time, if read once."""
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        if _is_cheap(schedule, block):
            # One that a reduction or several outputs need stays.
            try:
                schedule.compute_inline(block)
            except tvm.s_tir.ScheduleError:
                continue


def _is_cheap(schedule: Any, block: Any) -> bool:
    found = schedule.get(block)
    if found.name_hint.startswith((COLUMNS, PADDED, FRAME, WOVEN, BORDER, ACROSS)) or not schedule.get_consumers(block):
        return False
    if any(int(axis.iter_type) != 0 for axis in found.iter_vars):
        return False
    text = found.body.script()
    if _calls(text, COSTLY):
        return not _calls(text, ONE_BY_ONE) and _is_read_once(schedule, block)
    return not _grows(schedule, block, len(text))


def _is_read_once(schedule: Any, block: Any) -> bool:
    """Whether each of a block's values is read once, by what is no function itself.

    Of two functions in a row a vector takes so long that too few of them are on their way.
    """
    readers, made = schedule.get_consumers(block), schedule.get(block).writes[0].source
    if len(readers) != 1:
        return False
    reader = schedule.get(readers[0])
    text, shapes = reader.body.script(), [[int(extent) for extent in made.shape]]
    shapes.append([int(extent) for extent in reader.writes[0].source.shape])
    is_spatial = all(int(axis.iter_type) == 0 for axis in reader.iter_vars)
    return is_spatial and shapes[0] == shapes[1] and not _calls(text, COSTLY) and text.count(f"{made.name}[") == 1


def _grows(schedule: Any, block: Any, letters: int) -> bool:
    """Whether what reads a block's values several times would be long with the block's text in each place.

    Chains of such blocks, as the importer writes a Cast of floats, grow without bounds, and TVM's time with them.
    """
    name = f"{schedule.get(block).writes[0].source.name}["
    uses = sum(int(schedule.get(each).body.script().count(name)) for each in schedule.get_consumers(block))
    return uses > 1 and uses * letters > MOST_INLINED


def _calls(text: str, names: Sequence[str]) -> bool:
    return any(f"T.{name}(" in text for name in names)


def _vectorize(schedule: Any, block: Any, threads: int) -> None:
    """Loops that LLVM makes vectors of: sums outside of the innermost axis; the outer axes shared among threads."""
    loops, found = schedule.get_loops(block), schedule.get(block)
    kinds = [int(axis.iter_type) for axis in found.iter_vars]
    if len(loops) != len(kinds) or not loops or set(kinds) - {0, 2}:
        return
    text = found.body.script()
    if _calls(text, ONE_BY_ONE):
        return
    outer = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == 0]
    sums = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == 2]
    values = math.prod(int(schedule.get(loop).extent) for loop in loops)
    if sums and outer and _is_window(schedule, found, sums, outer[-1]):
        outer = _in_registers(schedule, outer, sums)
    elif sums:
        if outer and int(schedule.get(outer[-1]).extent) >= LANES // 2:
            schedule.reorder(*outer[:-1], *sums, outer.pop())
    elif ("%" in text or "//" in text) and not found.name_hint.startswith(CUT):
        # LLVM 22 makes wrong vectors of some such loops for x86-64-v4, and none of vectors.
        lanes = _lanes(math.prod(_extents(schedule, outer)))
        around, lanes = schedule.split(schedule.fuse(*outer), [None, lanes])
        schedule.vectorize(lanes)
        outer = [around]
    elif _is_elementwise(found):
        outer = [schedule.fuse(*outer)]
    else:
        outer = outer[:-1]
    if threads > 1 and values >= LEAST_SHARED_RESULTS and outer:
        schedule.parallel(schedule.fuse(*outer))
    if sums:
        schedule.decompose_reduction(block, sums[0])


def _is_window(schedule: Any, block: Any, sums: Sequence[Any], last: Any) -> bool:
    """Whether few values are put together for each output, and vectors of outputs read such of neighbours."""
    if math.prod(_extents(schedule, sums)) > MOST_UNROLLED or _lanes(int(schedule.get(last).extent)) < LANES // 2:
        return False
    axis = [each.var for each in block.iter_vars if int(each.iter_type) == 0][-1]
    steps = [[_step(each.min, axis) for each in region.region] for region in block.reads]
    return all(not any(each[:-1]) and each[-1:] in ([], [0], [1]) for each in steps)


def _step(place: Any, axis: Any) -> int:
    """How far a place moves with an axis; -1 where that is not always the same."""
    found = tvm.sym.detect_linear_equation(place, [axis])
    return int(found[0]) if found and isinstance(found[0], tvm.tirx.IntImm) else -1


def _in_registers(schedule: Any, outer: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
    """A vector of outputs at a time, all of its window's values one after the other; the loops around."""
    around, lane = schedule.split(outer[-1], [None, _lanes(int(schedule.get(outer[-1]).extent))])
    schedule.reorder(*outer[:-1], around, *sums, lane)
    for loop in sums:
        schedule.unroll(loop)
    schedule.vectorize(lane)
    return [*outer[:-1], around]


def _extents(schedule: Any, loops: Sequence[Any]) -> list[int]:
    return [int(schedule.get(loop).extent) for loop in loops]


def _lanes(values: int) -> int:
    return next(lanes for lanes in (16, 8, 4, 2, 1) if values % lanes == 0)


def _is_elementwise(block: Any) -> bool:
    """Whether each value is made of those in the same place of tensors of the same shape."""
    axes = [axis.var for axis in block.iter_vars]
    shapes = {tuple(int(extent) for extent in region.source.shape) for region in (*block.reads, *block.writes)}
    places = [[each.min for each in region.region] for region in (*block.reads, *block.writes)]
    return len(shapes) == 1 and all(
        len(place) == len(axes) and all(at.same_as(axis) for at, axis in zip(place, axes, strict=True))
        for place in places
    )

"""Depthwise convolution on x86, written as TIR: loops over rows of tiles and blocks of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.scale_bounds import bounds_scales
from int8tune.schedules.written.rows import divided, repeat, share
from int8tune.schedules.written.signature import declare_arguments
from int8tune.schedules.x86.depthwise_form import LOWEST_WEIGHT, Blocks, DepthwiseForm, Tiles, Weights
from int8tune.schedules.x86.depthwise_image import copied_image, image_in_place
from int8tune.schedules.x86.depthwise_row import Constants, Kernel, Place, RowOfTiles
from int8tune.schedules.x86.epilogue import Epilogue


def write_depthwise(form: DepthwiseForm, vectors: X86Vectors) -> Any:
    """The PrimFunc of a depthwise convolution: (data, weight, bias, rescale, params, out), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        arguments = declare_arguments(form.workload, form, form.weight_length, simplified=True)
        image = copied_image(form, arguments) if form.copies else image_in_place(form, arguments)
        epilogue = Epilogue(vectors, form.workload.numerics, arguments, bounds_scales(form.workload))
        unsigned = form.weights is Weights.UNSIGNED
        kernel = Kernel(form, vectors, arguments, epilogue, image, unsigned=unsigned)
        if form.weights is Weights.CENTRED:
            _choose(
                (arguments.params[WEIGHT_ZERO_POINT] == 0, kernel),
                (arguments.params[WEIGHT_ZERO_POINT] != LOWEST_WEIGHT, replace(kernel, centred=True)),
                (True, replace(kernel, unsigned=True, moved=True)),
            )
        else:
            _write_tiles(kernel)
    return builder.get()


def _choose(*cases: tuple[Any, Kernel]) -> None:
    """Emit each kernel, and the choice of the first one whose condition holds."""
    (condition, kernel), *others = cases
    if not others:
        _write_tiles(kernel)
        return
    with T.If(condition):
        with T.Then():
            _write_tiles(kernel)
        with T.Else():
            _choose(*others)


def _write_tiles(kernel: Kernel) -> None:
    form = kernel.form
    batch, threads = form.workload.batch, form.threads
    row_tiles, block_count = sum(rows.count for rows in form.row_tiles), sum(blocks.count for blocks in form.blocks)

    def of_block(blocks: Blocks, k: Any) -> None:
        """The whole image for one block of channels."""
        constants = Constants(kernel)

        def of_image(n: Any) -> None:
            _each(
                form.row_tiles,
                lambda rows, i: RowOfTiles(
                    kernel, constants, Place(rows, blocks, n, rows.first + i * rows.size, k)
                ).write(),
            )

        repeat(batch, of_image)

    def of_rows(rows: Tiles, n: Any, index: Any) -> None:
        """All channels for one row of tiles."""
        constants = Constants(kernel)
        y = rows.first + index * rows.size
        _each(form.blocks, lambda blocks, k: RowOfTiles(kernel, constants, Place(rows, blocks, n, y, k)).write())

    if form.outer == "channels":
        share(block_count, threads, lambda index: _select(form.blocks, index, of_block))
        return

    def of_tiles(index: Any) -> None:
        n, row = divided(index, row_tiles) if batch > 1 else (0, index)
        _select(form.row_tiles, row, lambda rows, i: of_rows(rows, n, i))

    share(batch * row_tiles, threads, of_tiles)


def _each(groups: Sequence[Any], emit: Callable[[Any, Any], None]) -> None:
    """Emit each group of things that run the same code: a loop, or its body."""
    for group in groups:
        repeat(group.count, partial(emit, group))


def _select(groups: Sequence[Any], index: Any, emit: Callable[[Any, Any], None]) -> None:
    """Emit the code of each group, and a choice of the one that the thing with this index is in."""
    first, *others = groups
    if not others:
        emit(first, index)
        return
    with T.If(index < first.count):
        with T.Then():
            emit(first, index)
        with T.Else():
            _select(others, index - first.count, emit)

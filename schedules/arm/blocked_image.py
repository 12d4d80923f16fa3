"""The copy of an image that a blocked ARM kernel reads: its channels in blocks, its columns in phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import PAD_VALUE
from int8tune.schedules.arm.blocked_form import BLOCK, BlockedForm
from int8tune.schedules.written.rows import flip_signs, load_bytes, pieces, repeat, share, store_vector
from int8tune.schedules.written.signature import Arguments

# Columns and blocks that are copied together.
COLUMNS_TOGETHER, MOST_BLOCKS = 4, 4


class BlockedImage:
    """Emits the copy; `buffer` has its bytes, signed."""

    def __init__(self, form: BlockedForm, arguments: Arguments) -> None:
        self.form, self.problem = form, form.image
        self.source = arguments.data
        self.flips = form.data_offset != 0
        self.buffer = T.alloc_buffer((self.problem.batch * self.problem.groups * form.group_bytes,), "int8")
        self.pad = T.cast(arguments.params[PAD_VALUE], "int8")

    def write(self) -> None:
        """Rows of the image, and those of its border."""
        form, (top, _, _, _) = self.form, self.problem.window.padding
        first = min(-(-top // form.row_step), form.rows)
        behind = max(min((self.problem.height + top - 1) // form.row_step + 1, form.rows), first)
        inside, around = behind - first, form.rows - (behind - first)

        def border(index: Any) -> None:
            row = index % around
            self._row(index // around, row + T.cast(row >= first, "int32") * inside, None)

        def copy(index: Any) -> None:
            row = first + index % inside
            self._row(index // inside, row, row * form.row_step - top)

        for count, body in ((around, border), (inside, copy)):
            if count:
                share(self.problem.batch * count, form.threads, body)

    def _row(self, n: Any, row: Any, y: Any | None) -> None:
        """One row of the copy, of all blocks: from row `y` of the image, or of the border where that is none."""
        form, problem = self.form, self.problem

        def group(g: Any) -> None:
            target = (n * problem.groups + g) * form.group_bytes + row * form.row_bytes
            if y is None:
                self._fill_row(target)
                return
            source = (n * problem.height + y) * problem.width * problem.channels + g * problem.group_channels
            (self._tiles if form.is_pointwise else self._phases)(target, source)

        repeat(problem.groups, group)

    def _fill_row(self, target: Any) -> None:
        count = len(self.form.phases) * self.form.columns
        self._each_block(lambda block, _: self._fill(target + block * self.form.block_bytes(1), count))

    def _tiles(self, target: Any, source: Any) -> None:
        """The columns of each tile behind each other."""
        form, width = self.form, self.form.tile_columns
        whole, rest = divmod(form.columns, width)
        step = self.problem.window.stride[1] * self.problem.channels

        def tile(index: Any, columns: int) -> None:
            at = index * width
            self._columns(target + at * form.column_bytes, source + at * step, columns, form.block_bytes(columns))

        repeat(whole, lambda index: tile(index, width))
        if rest:
            tile(whole, rest)

    def _phases(self, target: Any, source: Any) -> None:
        """The columns of each phase behind each other, with what is beside the image."""
        form, problem, (left, stride) = (
            self.form,
            self.problem,
            (self.problem.window.padding[1], self.problem.window.stride[1]),
        )
        for index, phase in enumerate(form.phases):
            first = min(max(-((phase - left) // stride), 0), form.columns)
            behind = max(min((problem.width + left - phase - 1) // stride + 1, form.columns), first)
            at = target + index * form.columns * BLOCK
            self._each_block(lambda block, _: self._fill(at + block * form.block_bytes(1), first))  # noqa: B023
            start = source + (first * stride + phase - left) * problem.channels
            self._run(at + first * BLOCK, start, behind - first)
            rest = at + behind * BLOCK
            self._each_block(lambda block, _: self._fill(rest + block * form.block_bytes(1), form.columns - behind))  # noqa: B023

    def _run(self, target: Any, source: Any, count: int) -> None:
        """So many columns of a phase."""
        step, block_bytes = self.problem.window.stride[1] * self.problem.channels, self.form.block_bytes(1)

        def some(index: Any, columns: int) -> None:
            at = index * COLUMNS_TOGETHER
            self._columns(target + at * BLOCK, source + at * step, columns, block_bytes)

        whole, rest = divmod(count, COLUMNS_TOGETHER)
        repeat(whole, lambda index: some(index, COLUMNS_TOGETHER))
        if rest:
            some(whole, rest)

    def _columns(self, target: Any, source: Any, columns: int, block_bytes: int) -> None:
        """Some columns of all blocks."""
        step = self.problem.window.stride[1] * self.problem.channels

        def copy(block: Any, count: int) -> None:
            for column in range(columns):
                at = source + column * step + block * BLOCK
                self._copy(target + block * block_bytes + column * BLOCK, at, count)

        self._each_block(copy)

    def _each_block(self, body: Callable[[Any, int], None]) -> None:
        """Emit body(block, its channels), some blocks at a time."""
        whole, rest = divmod(self.problem.group_channels, BLOCK)
        together = max(count for count in range(1, MOST_BLOCKS + 1) if whole % count == 0)

        def some(index: Any) -> None:
            for each in range(together):
                body(index * together + each, BLOCK)

        repeat(whole // together, some)
        if rest:
            body(whole, rest)

    def _copy(self, target: Any, source: Any, count: int) -> None:
        """Channels of one pixel."""
        for offset, width in pieces(count, BLOCK):
            value = load_bytes(self.source, source + offset, width)
            value = T.reinterpret(flip_signs(value, width) if self.flips else value, dtype=_type(width))
            store_vector(self.buffer, target + offset, value, width)

    def _fill(self, target: Any, count: int) -> None:
        """So many columns of a block."""
        repeat(
            count,
            lambda index: store_vector(self.buffer, target + index * BLOCK, T.broadcast(self.pad, BLOCK), BLOCK),
        )


def _type(width: int) -> str:
    return f"int8x{width}" if width > 1 else "int8"

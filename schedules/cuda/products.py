"""The products of a step: a thread's sums, and where the operands of its instructions are in shared memory."""

from __future__ import annotations

from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.channel_order import CHUNK_BYTES, WARP_CHANNELS, swizzled
from int8tune.schedules.cuda.gemm_form import GROUP_ROWS, WARP_ROWS, GemmForm
from int8tune.schedules.cuda.launch import shared_words
from int8tune.schedules.gpus import GROUP, WARP, WORD_BYTES
from int8tune.schedules.intrinsics.cuda import Instructions
from int8tune.schedules.written.rows import divided

# Four bytes of one: the sum of four data values is their product with it.
ONES = 0x01010101
MOST_UNROLLED_SUMS = 16
# Bytes of the depth that one instruction of matrices multiplies.
MATRIX_BYTES = 32
MATRIX_ROWS = 16
GROUP_MATRIX_ROWS = 64
MATRIX_COLUMNS = 8


class Products(Protocol):
    """A thread's sums, in registers."""

    def begin(self) -> None:
        """Have sums, of nothing yet."""

    def add(self, step: Any, stage_at: Any) -> None:
        """Add the products of the step, the first is 0, whose stage begins there, or begin to."""

    def wait(self, steps: int) -> None:
        """Wait until products of no more than so many of the latest steps are still being added."""

    def row(self, index: Any) -> Any:
        """The row in the block's tile of the sums with this index."""

    def first_channel(self) -> Any:
        """The channel in the block's tile of the thread's first sums; `form.spread` says where others are."""

    def sum(self, row: Any, channel: Any) -> Any:
        """The sum of the row and the channel with these indices."""

    def window_sum(self, row: Any) -> Any:
        """The sum of the row's data."""


def products_of(form: GemmForm, instructions: Instructions, shared: Any, thread: Any) -> Products:
    """How the form multiplies."""
    arguments = (form, instructions, shared, thread)
    if form.products == "dp4a":
        return WordProducts(*arguments)
    return GroupProducts(*arguments) if form.products == "wgmma" else MatrixProducts(*arguments)


class _Products:
    def __init__(self, form: GemmForm, instructions: Instructions, shared: Any, thread: Any) -> None:
        self.form = form
        self.instructions = instructions
        self.shared = shared
        self.thread = thread
        numerics = form.image.numerics
        self.types = (numerics.data, numerics.weight)

    def wait(self, steps: int) -> None:
        """Nothing: instructions of a thread or a warp follow each other."""

    def _registers(self, count: int) -> Any:
        return T.alloc_buffer((count,), "int32", scope="local")

    def _cleared(self, count: int) -> Any:
        registers = self._registers(count)
        with T.unroll(0, count) as index:
            T.buffer_store(registers, T.int32(0), [index])
        return registers


class WordProducts(_Products):
    """DP4A: a thread reads chunks of its rows and of its channels, and multiplies them word by word."""

    def begin(self) -> None:
        form = self.form
        self.across, self.down = form.block_channels // form.thread_channels, form.block_rows // form.thread_rows
        self.y, self.x = divided(self.thread, self.across)
        self.sums = self._cleared(form.thread_rows * form.thread_channels)
        self.window_sums = self._cleared(form.thread_rows) if form.has_window_sum else None
        self.words = shared_words(self.shared)
        self.data, self.weight = (self._registers(WORD_BYTES * count) for count in (form.thread_rows, 1))

    def add(self, step: Any, stage_at: Any) -> None:  # noqa: ARG002
        form = self.form
        weights_at = stage_at + form.block_rows * form.block_depth
        # Where a chunk has many products, one after the other is code enough for the instruction cache.
        is_long = form.thread_rows * form.thread_channels > MOST_UNROLLED_SUMS
        with (T.serial if is_long else T.unroll)(0, form.chunks) as chunk:
            with T.unroll(0, form.thread_rows) as index:
                self._load(self.data, index * WORD_BYTES, stage_at, self.row(index), chunk)
            if self.window_sums is not None:
                with T.unroll(0, form.thread_rows) as index, T.unroll(0, WORD_BYTES) as word:
                    added = self.instructions.dot(
                        self.data[index * WORD_BYTES + word], T.int32(ONES), self.window_sums[index], self.types
                    )
                    T.buffer_store(self.window_sums, added, [index])
            with T.unroll(0, form.thread_channels) as channel:
                self._load(self.weight, 0, weights_at, channel * self.across + self.x, chunk)
                with T.unroll(0, WORD_BYTES) as word, T.unroll(0, form.thread_rows) as index:
                    place = index * form.thread_channels + channel
                    data, weight = self.data[index * WORD_BYTES + word], self.weight[word]
                    added = self.instructions.dot(data, weight, self.sums[place], self.types)
                    T.buffer_store(self.sums, added, [place])

    def _load(self, to: Any, at: Any, matrix_at: Any, row: Any, chunk: Any) -> None:
        """A chunk of a row of a matrix."""
        form = self.form
        source = matrix_at + row * form.block_depth + swizzled(row, chunk, form.chunks) * CHUNK_BYTES
        value = self.words.vload([T.truncdiv(source, WORD_BYTES)], "int32x4")
        T.buffer_store(to, value, [T.ramp(at, 1, WORD_BYTES)])

    def row(self, index: Any) -> Any:
        return self.y + index * self.down

    def first_channel(self) -> Any:
        return self.x * self.form.thread_channels

    def sum(self, row: Any, channel: Any) -> Any:
        return self.sums[row * self.form.thread_channels + channel]

    def window_sum(self, row: Any) -> Any:
        assert self.window_sums is not None
        return self.window_sums[row]


class MatrixProducts(_Products):
    """Tensor cores: a warp loads matrices of its rows and of its channels, and multiplies them."""

    def begin(self) -> None:
        form = self.form
        self.warp_rows, self.warp_channels = WARP_ROWS * form.thread_rows, WARP_CHANNELS * form.thread_channels
        warp, self.lane = divided(self.thread, WARP)
        y, x = divided(warp, form.block_channels // self.warp_channels)
        self.first_row, self.first_column = T.Bind(y * self.warp_rows), T.Bind(x * self.warp_channels)
        self.bands, self.columns = form.thread_rows // 2, form.thread_channels // 2
        self.sums = self._cleared(4 * self.bands * self.columns)
        self.window_sums = self._cleared(4 * self.bands) if form.has_window_sum else None
        self.data, self.weight = self._registers(4 * self.bands), self._registers(2 * self.columns)
        # Which row, of which of four matrices, this lane gives the address of.
        self.matrix, self.matrix_row = divided(self.lane, 8)
        self.ones = self._registers(2)
        if form.has_window_sum:
            for index in range(2):
                T.buffer_store(self.ones, T.int32(ONES), [index])

    def add(self, step: Any, stage_at: Any) -> None:  # noqa: ARG002
        form = self.form
        weights_at = T.Bind(stage_at + form.block_rows * form.block_depth)
        half, other = T.Bind(T.truncmod(self.matrix, 2)), T.Bind(T.truncdiv(self.matrix, 2))
        # Rows are in the order of the registers: data has both halves of 16 rows, then further bytes of both; weights
        # have both halves of 32 bytes of 8 columns, then those of the next 8.
        data_row = T.Bind(self.first_row + half * 8 + self.matrix_row)
        weight_row = T.Bind(self.first_column + other * MATRIX_COLUMNS + self.matrix_row)
        for part in range(form.block_depth // MATRIX_BYTES):
            data_at = self._chunk_at(stage_at, data_row, 2 * part + other)
            weight_at = self._chunk_at(weights_at, weight_row, 2 * part + half)
            with T.unroll(0, self.bands) as band:
                self._load(self.data, 4 * band, data_at + band * MATRIX_ROWS * form.block_depth)
            with T.unroll(0, self.columns // 2) as pair:
                self._load(self.weight, 4 * pair, weight_at + pair * 2 * MATRIX_COLUMNS * form.block_depth)
            self._multiply()

    def _multiply(self) -> None:
        with T.unroll(0, self.bands) as band:
            data = T.address_of(self.data[4 * band])
            with T.unroll(0, self.columns) as column:
                total = T.address_of(self.sums[4 * (band * self.columns + column)])
                self.instructions.multiply(total, data, T.address_of(self.weight[2 * column]), self.types)
            if self.window_sums is not None:
                total = T.address_of(self.window_sums[4 * band])
                self.instructions.multiply(total, data, T.address_of(self.ones[0]), self.types)

    def _chunk_at(self, matrix_at: Any, row: Any, chunk: Any) -> Any:
        form = self.form
        return T.Bind(matrix_at + row * form.block_depth + swizzled(row, chunk, form.chunks) * CHUNK_BYTES)

    def _load(self, to: Any, at: Any, source: Any) -> None:
        self.instructions.load_matrices(T.address_of(to[at]), T.address_of(self.shared[source]))

    def row(self, index: Any) -> Any:
        return self.first_row + index * 8 + T.truncdiv(self.lane, 4)

    def first_channel(self) -> Any:
        return self.first_column + T.truncmod(self.lane, 4) * self.form.run

    def sum(self, row: Any, channel: Any) -> Any:
        band, half = T.truncdiv(row, 2), T.truncmod(row, 2)
        return self.sums[4 * (band * self.columns + T.truncdiv(channel, 2)) + 2 * half + T.truncmod(channel, 2)]

    def window_sum(self, row: Any) -> Any:
        assert self.window_sums is not None
        return self.window_sums[4 * T.truncdiv(row, 2) + 2 * T.truncmod(row, 2)]


class GroupProducts(_Products):
    """Hopper's tensor cores: four warps multiply what lies in shared memory, without loading it."""

    def begin(self) -> None:
        form = self.form
        self.columns = WARP_CHANNELS * form.thread_channels
        group, self.of_group = divided(self.thread, GROUP)
        y, x = divided(group, form.block_channels // self.columns)
        self.first_row, self.first_column = T.Bind(y * GROUP_ROWS * form.thread_rows), T.Bind(x * self.columns)
        self.bands = form.thread_rows // 2
        self.sums = self._registers(form.thread_rows * form.thread_channels)

    def add(self, step: Any, stage_at: Any) -> None:
        form, instructions = self.form, self.instructions
        data_at = T.Bind(stage_at + self.first_row * form.block_depth)
        weight_at = T.Bind(stage_at + (form.block_rows + self.first_column) * form.block_depth)
        instructions.begin_group()
        for part in range(form.block_depth // MATRIX_BYTES):
            weight = T.address_of(self.shared[weight_at + part * MATRIX_BYTES])
            for band in range(self.bands):
                at = data_at + band * GROUP_MATRIX_ROWS * form.block_depth + part * MATRIX_BYTES
                sums = T.address_of(self.sums[band * 2 * form.thread_channels])
                data = T.address_of(self.shared[at])
                is_added = step > 0 if part == 0 else T.bool(True)
                instructions.multiply_group(sums, data, weight, self.columns, form.block_depth, self.types, is_added)
        instructions.end_group()

    def wait(self, steps: int) -> None:
        self.instructions.wait_group(steps)

    def row(self, index: Any) -> Any:
        warp, lane = T.truncdiv(self.of_group, WARP), T.truncmod(self.of_group, WARP)
        band, half = T.truncdiv(index, 2), T.truncmod(index, 2)
        return self.first_row + band * GROUP_MATRIX_ROWS + warp * MATRIX_ROWS + half * 8 + T.truncdiv(lane, 4)

    def first_channel(self) -> Any:
        return self.first_column + T.truncmod(self.of_group, 4) * self.form.run

    def sum(self, row: Any, channel: Any) -> Any:
        band, half = T.truncdiv(row, 2), T.truncmod(row, 2)
        of_band = 4 * T.truncdiv(channel, 2) + 2 * half + T.truncmod(channel, 2)
        return self.sums[band * 2 * self.form.thread_channels + of_band]

    def window_sum(self, row: Any) -> Any:
        raise NotImplementedError

"""A row of tiles of an x86 depthwise convolution, for one block of channels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import PAD_VALUE, WEIGHT_ZERO_POINT
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.written.image import ReadImage
from int8tune.schedules.written.rows import flip_signs, load_bytes, repeat
from int8tune.schedules.written.signature import Arguments
from int8tune.schedules.x86.channels import PACKED_REGISTERS
from int8tune.schedules.x86.depthwise_form import Blocks, DepthwiseForm, Tiles, Weights
from int8tune.schedules.x86.depthwise_words import WordMaker
from int8tune.schedules.x86.epilogue import Epilogue, Pixel
from int8tune.schedules.x86.registers import TAPS

Operand = Sequence[Any]


@dataclass(frozen=True)
class Kernel:
    """What all rows of a kernel have in common.

    Attributes:
        centred: sums begin with the zero point's share.
        unsigned: the weights are the unsigned operand, the data the signed one.
        moved: the weights are those that were made unsigned by adding 128: sums begin with what the data lacks.
    """

    form: DepthwiseForm
    vectors: X86Vectors
    arguments: Arguments
    epilogue: Epilogue
    image: ReadImage
    centred: bool = False
    unsigned: bool = False
    moved: bool = False


class Constants:
    """Values that do not change, made once by each thread."""

    def __init__(self, kernel: Kernel) -> None:
        form, size = kernel.form, 4 * kernel.form.lanes
        params = kernel.arguments.params
        self.maker = WordMaker(form.lanes)
        # Zero, but LLVM does not know. It is part of the addresses of weights, which LLVM would else load once for all
        # tiles, into more registers than there are.
        self.zero = T.Bind(T.shift_right(params[PAD_VALUE] + 128, 9))
        # Spilled registers are only aligned in a function that has an aligned buffer, not one in registers: that is why
        # there are two values, and a choice between them.
        pads = T.alloc_buffer((2,), f"uint8x{size}")
        for index in (0, 1):
            pad = T.cast(params[PAD_VALUE] - form.data_offset, "uint8")
            T.buffer_store(pads, T.broadcast(pad, size), [index])
        self.pad = T.Bind(pads[T.shift_right(params[PAD_VALUE] + 128, 8)])
        if kernel.centred:
            value = T.cast(T.int32(0) - params[WEIGHT_ZERO_POINT], "int8")
            self.minus_zero_point = kernel.vectors.weight_operand(T.broadcast(value, size))


@dataclass(frozen=True, slots=True)
class Place:
    """Which row of tiles: of image `n`, from output row `y` on, for block `k` of `blocks`."""

    rows: Tiles
    blocks: Blocks
    n: Any
    y: Any
    k: Any


class RowOfTiles:
    """Emits the tiles of a row from left to right."""

    def __init__(self, kernel: Kernel, constants: Constants, place: Place) -> None:
        self.constants = constants
        self.kernel, self.form, self.vectors = kernel, kernel.form, kernel.vectors
        self.place, self.blocks = place, place.blocks
        self.window = kernel.form.workload.window
        self.block_bytes = self.blocks.registers * self.form.lanes
        self.row_words = self.form.row_words(place.rows.size)
        step = TAPS * self.window.dilation[0]
        self.bases = sorted({words.base + word * step for words in self.row_words for word in range(self.form.words)})
        self.carried: dict[tuple[int, int], list[list[Any]]] = {}

    def write(self) -> None:
        """All tiles; what a tile shares with the next one stays in registers."""
        self._begin()
        form = self.form
        shared = sorted(form.shared_columns)
        self._carry_from(_Tile(self, form.first_columns, 0, {}), shared, 0)
        for tiles in form.column_tiles:
            repeat(tiles.count, partial(self._tile, tiles, shared))

    def _tile(self, tiles: Tiles, shared: Sequence[int], index: Any) -> None:
        x = tiles.first + index * tiles.size
        known = {
            (base, column): [
                [T.Bind(T.reinterpret(part[0], dtype=self.vectors.operand_type)) for part in operand]
                for operand in operands
            ]
            for (base, column), operands in self.carried.items()
            if column in self.form.columns_read(tiles.size)
        }
        tile = _Tile(self, tiles, x, known)
        tile.write()
        if tiles.count > 1 or tiles is not self.form.column_tiles[-1]:
            self._carry_from(tile, shared, tiles.size * self.window.stride[1])

    def _begin(self) -> None:
        """Where the row begins in memory, and memory for what tiles share: LLVM keeps it in registers."""
        form, place = self.form, self.place
        channel = self.blocks.first + place.k * self.block_bytes
        self.position = bound(self.blocks.position + place.k * self.block_bytes)
        self.first_weight = bound(form.first_weight(self.blocks, place.k))
        image, (height, width) = self.kernel.image, form.output
        y = place.n * image.rows + place.y * self.window.stride[0] - image.top
        self.data_at = bound(y * image.row_bytes - image.left * form.pixel_bytes + channel)
        self.out_at = bound((place.n * height + place.y) * width * form.workload.out_channels + channel)
        for key in itertools.product(self.bases, sorted(form.shared_columns)):
            self.carried[key] = [
                [T.alloc_buffer((1,), buffer_type(form.lanes)) for _ in range(form.registers.parts)]
                for _ in range(self.blocks.registers)
            ]

    def _carry_from(self, tile: _Tile, shared: Sequence[int], distance: int) -> None:
        for base, column in itertools.product(self.bases, shared):
            made = tile.words(base, column + distance)
            for operand, buffers in zip(made, self.carried[base, column], strict=True):
                for part, buffer in zip(operand, buffers, strict=True):
                    T.buffer_store(buffer, T.reinterpret(part, dtype=buffer_type(self.form.lanes)), [0])


class _Tile:
    """Emits one tile; input rows and columns are counted from its first ones."""

    def __init__(
        self, row: RowOfTiles, columns: Tiles, x: Any, known: Mapping[tuple[int, int], Sequence[Operand]]
    ) -> None:
        self.row, self.form, self.vectors, self.window = row, row.form, row.vectors, row.window
        self.columns, self.x = columns, x
        self.data_at = bound(row.data_at + x * (self.window.stride[1] * row.form.pixel_bytes))
        self.made: dict[tuple[int, int], Sequence[Operand]] = dict(known)
        self.rows_read = self.form.rows_read(row.place.rows.size)
        new = sorted(self.form.columns_read(columns.size) - {column for _, column in known})
        at_once = PACKED_REGISTERS // row.blocks.registers
        self.together = {
            column: new[i : i + at_once] for i in range(0, len(new), at_once) for column in new[i : i + at_once]
        }
        self.vectors_made: dict[tuple[int, int], Any] = {}

    def write(self) -> None:
        at_once = self.form.columns_at_once(self.row.blocks.registers, self.row.place.rows.size)
        for first in range(0, self.columns.size, at_once):
            self._columns(range(first, min(first + at_once, self.columns.size)))

    # Sums.

    def _columns(self, columns: Sequence[int]) -> None:
        """Some columns: their sums, and what becomes of them."""
        zero = T.Bind(self.row.constants.zero * (self.x + columns[0]))
        sums = self._begin_sums(columns, T.Bind(self.row.position + zero))
        weights = self.row.kernel.arguments.weight
        first_weight = T.Bind((self.row.first_weight + zero) * self.form.registers.weight_bytes)
        taps, words = range(self.window.kernel[1]), range(self.form.words)
        registers, step = range(self.row.blocks.registers), TAPS * self.window.dilation[0]
        for (column, row), tap, word in itertools.product(sums, taps, words):
            where = self.row.row_words[row]
            data = self.words(where.base + word * step, column * self.window.stride[1] + tap * self.window.dilation[1])
            index = self.form.weight_index(self.row.blocks, where.shift, word, tap)
            for r in registers:
                weight = self.vectors.load_weight(weights, index + r, first_weight)
                total = sums[column, row][r]
                sums[column, row][r] = T.Bind(self._multiply_add(total, data[r], weight))
        self._store(sums)

    def _multiply_add(self, total: Any, data: Operand, weight: Operand) -> Any:
        if self.row.kernel.unsigned:
            return self.vectors.multiply_add(total, weight, data)
        return self.vectors.multiply_add(total, data, weight)

    def _begin_sums(self, columns: Sequence[int], position: Any) -> dict[tuple[int, int], list[Any]]:
        """The first value of each sum, by column and row; the bias begins at `position`."""
        rows, lanes = range(len(self.row.row_words)), self.form.lanes
        bias = self.row.kernel.arguments.bias
        biases = [
            T.Bind(bias.vload([position + r * lanes], f"int32x{lanes}")) for r in range(self.row.blocks.registers)
        ]
        if self.row.kernel.moved:
            biases = [T.Bind(self._completed(value, r)) for r, value in enumerate(biases)]
        if not self.row.kernel.centred:
            return {key: list(biases) for key in itertools.product(columns, rows)}
        return self._centred(columns, biases)

    def _centred(self, columns: Sequence[int], biases: Sequence[Any]) -> dict[tuple[int, int], list[Any]]:
        """The bias minus the zero point times the sum of the data, which columns share where they read the same."""
        stride, taps = self.window.stride[1], self.form.columns_read(1)
        read = {column: {column * stride + tap for tap in taps} for column in columns}
        common = set.intersection(*read.values())
        sums: dict[tuple[int, int], list[Any]] = {}
        for base in dict.fromkeys(words.base for words in self.row.row_words):
            together = self._add_data(biases, base, sorted(common))
            for column in columns:
                own = self._add_data(together, base, sorted(read[column] - common))
                sums |= {(column, row): list(own) for row, words in enumerate(self.row.row_words) if words.base == base}
        return {key: sums[key] for key in sorted(sums)}

    def _add_data(self, totals: Sequence[Any], base: int, columns: Sequence[int]) -> list[Any]:
        """Sums plus minus the zero point times the data of some input columns."""
        step, added = TAPS * self.window.dilation[0], list(totals)
        for column, word in itertools.product(columns, range(self.form.words)):
            for r, data in enumerate(self.words(base + word * step, column)):
                added[r] = T.Bind(self.vectors.multiply_add(added[r], data, self.row.constants.minus_zero_point))
        return added

    def _completed(self, bias: Any, r: int) -> Any:
        """The bias plus 128 times the sum of the weights."""
        taps, words = range(self.window.kernel[1]), range(self.form.words)
        form, size = self.form, 4 * self.form.lanes
        less = self.vectors.weight_operand(T.broadcast(T.int8(-128), size))
        total = T.broadcast(T.int32(0), form.lanes)
        for tap, word in itertools.product(taps, words):
            index = form.weight_index(self.row.blocks, form.shifts[0], word, tap) + r
            first = self.row.first_weight * form.registers.weight_bytes
            weight = self.vectors.load_weight(self.row.kernel.arguments.weight, index, first)
            total = T.Bind(self.vectors.multiply_add(total, weight, less))
        kind = f"uint32x{form.lanes}"  # int32 may not wrap in TIR
        wrapped = T.reinterpret(bias, dtype=kind) - T.reinterpret(total, dtype=kind)
        return T.reinterpret(wrapped, dtype=f"int32x{form.lanes}")

    def _store(self, sums: Mapping[tuple[int, int], Sequence[Any]]) -> None:
        width, channels = self.form.output[1], self.form.workload.out_channels
        out_at = bound(self.row.out_at + self.x * channels)
        pixels = [Pixel(values, out_at + (row * width + column) * channels) for (column, row), values in sums.items()]
        self.row.kernel.epilogue.store(pixels, self.row.position, self.row.blocks.valid)

    # Words.

    def words(self, base: int, column: int) -> Sequence[Operand]:
        """The operands of an input column's words from row `base` on."""
        if (base, column) not in self.made:
            self._make(base, self.together[column])
        return self.made[base, column]

    def _make(self, base: int, columns: Sequence[int]) -> None:
        rows = [base + i * self.window.dilation[0] for i in range(TAPS)]
        # A row that nobody reads may be any row: its weights are zero.
        some = next(row for row in rows if row in self.rows_read)
        vectors = [self._vector(row if row in self.rows_read else some, columns) for row in rows]
        registers = self.row.constants.maker.words(vectors)
        size = self.row.blocks.registers
        for index, column in enumerate(columns):
            taken = registers[index * size : (index + 1) * size]
            self.made[base, column] = [self.vectors.data_operand(register) for register in taken]

    def _vector(self, row: int, columns: Sequence[int]) -> Any:
        """A register of channels of one row."""
        key = row, columns[0]
        if key not in self.vectors_made:
            self.vectors_made[key] = T.Bind(self._typed(self._channels(row, columns)))
        return self.vectors_made[key]

    def _channels(self, row: int, columns: Sequence[int]) -> Any:
        """The channels of some columns together, as they are in memory."""
        size, count = self.row.block_bytes, PACKED_REGISTERS // self.row.blocks.registers
        inside = [self.row.place.rows.inside[row] and self.columns.inside[column] for column in columns]
        if not any(inside):
            return self.row.constants.pad
        neighbours = list(range(columns[0], columns[0] + count)) == list(columns)
        if neighbours and all(inside) and self.form.pixel_bytes == size:
            return self.row.constants.maker.spread(self._load(row, columns[0], count * size), count)
        pad = T.Shuffle([self.row.constants.pad], list(range(size)))
        parts = [self._load(row, column, size) if i else pad for column, i in zip(columns, inside, strict=True)]
        return self.row.constants.maker.together([*parts, *(count - len(parts)) * parts[-1:]])

    def _load(self, row: int, column: int, size: int) -> Any:
        image = self.row.kernel.image
        at = self.data_at + (row * image.row_bytes + column * self.form.pixel_bytes)
        return T.Bind(T.reinterpret(load_bytes(image.buffer, at, size), dtype=f"uint8x{size}"))

    def _typed(self, value: Any) -> Any:
        """Bytes of the image as the dot product takes them."""
        kernel = self.row.kernel
        signed = kernel.form.weights is Weights.UNSIGNED if kernel.form.copies else kernel.image.buffer.dtype == "int8"
        return flip_signs(value, 4 * self.form.lanes) if signed != kernel.unsigned else value


def bound(index: Any) -> Any:
    """An index that is computed here, and once."""
    return index if isinstance(index, int) else T.Bind(index)


def buffer_type(lanes: int) -> str:
    """The type of a register in memory: TVM takes no whole vectors of 16-bit values there."""
    return f"int8x{4 * lanes}"

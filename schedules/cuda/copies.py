"""What a block of threads copies to shared memory: a step of its rows of the image, and of its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.channel_order import CHUNK_BYTES, swizzled
from int8tune.schedules.cuda.gemm_form import GemmForm
from int8tune.schedules.cuda.launch import shared_words
from int8tune.schedules.gpus import WORD_BYTES
from int8tune.schedules.intrinsics.cuda import Instructions, bytes_across
from int8tune.schedules.written.rows import divided

# The address of a stage's barrier.
Barrier = Callable[[Any], Any]
# Of rows that do not exist: so far outside the image that no tap is inside.
NOWHERE = -(1 << 24)


class ImageCopies:
    """The image, row by row: outputs' windows, each of which is read in place.

    A thread copies one unit of several rows; what it knows of these rows stays in its registers.
    """

    def __init__(self, form: GemmForm, instructions: Instructions, data: Any, shared: Any, thread: Any) -> None:
        self.form = form
        self.instructions = instructions
        self.data = data
        self.shared = shared
        self.thread = thread

    def begin(self, first_row: Any, group: Any) -> None:
        """Find the rows from this one on in the image."""
        form, image = self.form, self.form.image
        self.row, self.unit = divided(self.thread, form.units)
        self.places = self._of_rows()
        self.taps = self._of_rows() if form.has_tap_bits else None
        if form.is_window and self.taps is None:
            self.tops, self.lefts = (self._of_rows() for _ in range(2))
        with T.unroll(0, form.loaded_rows) as index:
            row = T.Bind(first_row + self.row + index * form.rows_at_once)
            offset = group * image.group_channels
            if form.is_window:
                self._begin_window(row, offset, index)
            else:
                place = self._pixel_at(row) + offset
                T.buffer_store(self.places, T.Select(row < form.rows, place, T.int32(-1)), [index])

    def _of_rows(self) -> Any:
        return T.alloc_buffer((self.form.loaded_rows,), "int32", scope="local")

    def _pixel_at(self, row: Any) -> Any:
        """The first value of the pixel that a row reads, where it reads one only."""
        image = self.form.image
        if image.window.stride == (1, 1):
            return row * image.channels
        n, y, x = self._output_of(row)
        y, x = y * image.window.stride[0], x * image.window.stride[1]
        return ((n * image.height + y) * image.width + x) * image.channels

    def _begin_window(self, row: Any, offset: Any, index: Any) -> None:
        image = self.form.image
        n, y, x = self._output_of(row)
        top = T.Bind(y * image.window.stride[0] - image.window.padding[0])
        left = T.Bind(x * image.window.stride[1] - image.window.padding[1])
        place = ((n * image.height + top) * image.width + left) * image.channels + offset
        T.buffer_store(self.places, place, [index])
        top = T.Bind(T.Select(row < self.form.rows, top, T.int32(NOWHERE)))
        if self.taps is not None:
            T.buffer_store(self.taps, self._tap_bits(top, left), [index])
        else:
            T.buffer_store(self.tops, top, [index])
            T.buffer_store(self.lefts, left, [index])

    def _tap_bits(self, top: Any, left: Any) -> Any:
        """A bit for each tap of a window: whether it is inside the image."""
        window = self.form.image.window
        height, width = window.kernel
        columns: Any = T.int32(0)
        for x in range(width):
            inside = self._is_within(left + x * window.dilation[1], self.form.image.width)
            columns = T.bitwise_or(columns, T.Select(inside, T.int32(1 << x), T.int32(0)))
        columns, bits = T.Bind(columns), T.int32(0)
        for y in range(height):
            inside = self._is_within(top + y * window.dilation[0], self.form.image.height)
            row = T.shift_left(columns, T.int32(y * width))
            bits = T.bitwise_or(bits, T.Select(inside, row, T.int32(0)))
        return bits

    @staticmethod
    def _is_within(at: Any, extent: int) -> Any:
        return T.And(at >= 0, at < extent)

    def _output_of(self, row: Any) -> tuple[Any, Any, Any]:
        height, width = self.form.image.output
        rest, x = divided(row, width)
        n, y = divided(rest, height) if self.form.image.batch > 1 else (0, rest)
        return n, y, x

    def copy(self, step: Any, stage: Any) -> None:
        """Begin to copy a step's values of all rows into a stage."""
        form, image = self.form, self.form.image
        depth = T.Bind(step * form.block_depth + self.unit * form.unit_bytes)
        tap, channel = divided(depth, form.tap_bytes) if form.taps > 1 else (0, depth)
        down, right = self._step_of(tap)
        offset = T.Bind((down * image.width + right) * image.channels + channel)
        bit = T.Bind(T.shift_left(T.int32(1), tap)) if form.has_tap_bits else None
        chunk, within = divided(self.unit * form.unit_bytes, CHUNK_BYTES)

        def to(index: Any) -> Any:
            row = T.Bind(self.row + index * form.rows_at_once)
            at = stage * form.stage_bytes + row * form.block_depth
            return T.Bind(at + swizzled(row, chunk, form.chunks) * CHUNK_BYTES + within)

        if form.unit == 1:
            self._gather(to, lambda index: self._is_inside(index, bit, depth, down, right), offset, channel)
            return
        with T.unroll(0, form.loaded_rows) as index:
            inside = T.Bind(self._is_inside(index, bit, depth, down, right))
            # Of what is not inside nothing is read, wherever that would be.
            source = self.data[self.places[index] + offset]
            addresses = (T.address_of(self.shared[to(index)]), T.address_of(source))
            self.instructions.copy(*addresses, form.unit, inside)

    def _step_of(self, tap: Any) -> tuple[Any, Any]:
        """Rows and columns of the image from a window's first tap to another."""
        window = self.form.image.window
        if self.form.taps == 1:
            return 0, 0
        row, column = divided(tap, window.kernel[1])
        return T.Bind(row * window.dilation[0]), T.Bind(column * window.dilation[1])

    def _is_inside(self, index: Any, bit: Any, depth: Any, down: Any, right: Any) -> Any:
        """Whether a row has a value there; what fills up the last step is no tap."""
        is_tap = depth < self.form.depth
        if self.taps is not None:
            inside = T.bitwise_and(self.taps[index], bit) != 0
            # Behind the last one of several taps there are bits, too, which are zero.
            return inside if self.form.taps > 1 else T.And(is_tap, inside)
        if not self.form.is_window:
            return T.And(is_tap, self.places[index] >= 0)
        image = self.form.image
        inside = (
            self._is_within(self.tops[index] + down, image.height),
            self._is_within(self.lefts[index] + right, image.width),
        )
        return T.And(is_tap, T.And(*inside))

    def _gather(self, to: Callable[[Any], Any], inside: Callable[[Any], Any], offset: Any, channel: Any) -> None:
        """Words of bytes: all rows' are loaded before the first one is stored, so that no load waits for another."""
        form = self.form
        loaded = T.alloc_buffer((form.loaded_rows,), "int32", scope="local")
        words = shared_words(self.shared)
        with T.unroll(0, form.loaded_rows) as index:
            source, is_real = self.places[index] + offset, T.Bind(inside(index))
            word = self._word_across(source, is_real) if form.reads_words else self._gathered(source, channel, is_real)
            T.buffer_store(loaded, word, [index])
        with T.unroll(0, form.loaded_rows) as index:
            T.buffer_store(words, loaded[index], [T.truncdiv(to(index), WORD_BYTES)])

    def _word_across(self, source: Any, inside: Any) -> Any:
        """Four bytes from anywhere, of two words; those beyond the channels meet weights that are zero."""
        last = self.form.image_bytes // WORD_BYTES - 1
        data = T.decl_buffer((last + 1,), "int32", data=self.data.data)
        start = T.Bind(T.Select(inside, source, T.int32(0)))
        first = T.Bind(T.truncdiv(start, WORD_BYTES))
        pair = (data[first], data[T.min(first + 1, last)])
        return T.Select(inside, bytes_across(*pair, T.truncmod(start, WORD_BYTES)), T.int32(0))

    def _gathered(self, source: Any, channel: Any, inside: Any) -> Any:
        word: Any = T.int32(0)
        for byte in range(WORD_BYTES):
            is_real = T.And(inside, channel + byte < self.form.image.group_channels)
            value = T.if_then_else(is_real, T.cast(self.data[source + byte], "int32"), T.int32(0))
            word = T.bitwise_or(word, T.shift_left(T.bitwise_and(value, 255), 8 * byte))
        return word


class WeightCopies:
    """Weights, which lie in memory as they are to lie in shared memory."""

    def __init__(self, form: GemmForm, instructions: Instructions, weight: Any, shared: Any, thread: Any) -> None:
        self.form = form
        self.instructions = instructions
        self.weight = weight
        self.shared = shared
        self.thread = thread

    @property
    def step_bytes(self) -> int:
        return self.form.block_channels * self.form.block_depth

    def places(self, channel_tile: Any, step: Any, stage: Any) -> tuple[Any, Any]:
        """Where a step's weights of a tile begin in memory, and where they are to begin in shared memory."""
        form = self.form
        to = stage * form.stage_bytes + form.block_rows * form.block_depth
        return (channel_tile * form.steps + step) * self.step_bytes, to

    def copy(self, channel_tile: Any, step: Any, stage: Any) -> None:
        """Begin to copy a step's weights of a tile into a stage."""
        chunks = self.step_bytes // CHUNK_BYTES
        source, to = map(T.Bind, self.places(channel_tile, step, stage))

        def one(first: Any) -> None:
            at = T.Bind((first + self.thread) * CHUNK_BYTES)
            addresses = (T.address_of(self.shared[to + at]), T.address_of(self.weight[source + at]))
            self.instructions.copy(*addresses, CHUNK_BYTES, T.bool(True))

        threads = self.form.copying_threads
        if chunks >= threads:
            with T.unroll(0, chunks // threads) as turn:
                one(turn * threads)
        if rest := chunks % threads:
            with T.If(self.thread < rest), T.Then():
                one(chunks - rest)


class BulkWeightCopies(WeightCopies):
    """The same by one copy of all bytes of a step, which one thread begins, and for which a stage's barrier waits."""

    def __init__(
        self, form: GemmForm, instructions: Instructions, weight: Any, shared: Any, thread: Any, barrier: Barrier
    ) -> None:
        super().__init__(form, instructions, weight, shared, thread)
        self.barrier = barrier

    def copy(self, channel_tile: Any, step: Any, stage: Any) -> None:
        """Begin to copy a step's weights of a tile into a stage."""
        size = self.step_bytes
        with T.If(self.thread == 0), T.Then():
            self.instructions.expect(self.barrier(stage), size)
            source, to = self.places(channel_tile, step, stage)
            addresses = (T.address_of(self.shared[to]), T.address_of(self.weight[source]))
            self.instructions.copy_bytes(*addresses, size, self.barrier(stage))

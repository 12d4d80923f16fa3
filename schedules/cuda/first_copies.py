"""What a block of threads copies of the image for the windows of its outputs: rows as they are, zeros beside them."""

from __future__ import annotations

import math
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.first_form import FirstForm
from int8tune.schedules.cuda.launch import shared_words
from int8tune.schedules.gpus import WARP, WORD_BYTES
from int8tune.schedules.intrinsics.cuda import Instructions, bytes_across
from int8tune.schedules.written.rows import divided

# Words that a thread loads from the image before it stores the first one.
LOADED_AT_ONCE = 8


class Patch:
    """The part of the image that a tile's windows read, in shared memory behind the weights.

    Args:
        tile: the image of the batch that the tile is in, and its first row and column of outputs.
    """

    def __init__(
        self, form: FirstForm, instructions: Instructions, data: Any, shared: Any, thread: Any, tile: tuple[Any, ...]
    ) -> None:
        self.form = form
        self.image = form.image
        self.instructions = instructions
        self.data = data
        self.shared = shared
        self.thread = thread
        self.batch, self.y, self.x = tile

    def copy(self) -> None:
        """Begin to copy it, in the same group as other copies, or put it together."""
        if self.form.copied_bytes > 1:
            self._copy()
        else:
            self._put_together()

    def _copy(self) -> None:
        """Copy the rows as they lie in memory; no piece of a row is partly outside."""
        form, width = self.form, self.form.copied_bytes
        pieces = form.patch_words * WORD_BYTES // width
        with T.unroll(0, math.ceil(form.patch_rows * pieces / form.threads)) as turn:
            row, piece = divided(T.Bind(turn * form.threads + self.thread), pieces)
            start, is_row = self._row_of_image(row)
            at = T.Bind(self._first_byte() - form.phase + piece * width)
            is_inside = T.Bind(T.And(is_row, T.And(at >= 0, at < self.image.width * self.image.channels)))
            to = T.Bind(form.weight_bytes + row * (form.pitch_words * WORD_BYTES) + piece * width)
            with T.If(row < form.patch_rows), T.Then():
                addresses = T.address_of(self.shared[to]), T.address_of(self.data[start + at])
                self.instructions.copy(*addresses, width, is_inside)

    def _first_byte(self) -> Any:
        """Where the tile's first window begins in a row of the image, which may be before it."""
        image = self.image
        return (self.x * image.window.stride[1] - image.window.padding[1]) * image.channels

    def _put_together(self) -> None:
        """Each warp copies rows of the image, its lanes their words; several are loaded before the first is stored."""
        form = self.form
        warp, lane = divided(self.thread, WARP)
        words = shared_words(self.shared)
        parts = math.ceil(form.patch_words / WARP)
        together = max(1, LOADED_AT_ONCE // parts)
        loaded = T.alloc_buffer((together * parts,), "int32", scope="local")
        with T.serial(0, math.ceil(form.patch_rows / (together * form.warps))) as turn:
            first = T.Bind(turn * together * form.warps + warp)
            for index in range(together):
                start, is_row = self._row_of_image(T.Bind(first + index * form.warps))
                for part in range(parts):
                    value = self._word_of_image(start, is_row, T.Bind(lane + part * WARP))
                    T.buffer_store(loaded, value, [index * parts + part])
            for index in range(together):
                row = T.Bind(first + index * form.warps)
                for part in range(parts):
                    word = T.Bind(lane + part * WARP)
                    with T.If(T.And(row < form.patch_rows, word < form.patch_words)), T.Then():
                        at = form.weight_bytes // WORD_BYTES + row * form.pitch_words + word
                        T.buffer_store(words, loaded[index * parts + part], [at])

    def _row_of_image(self, row: Any) -> tuple[Any, Any]:
        """Where the row of the image that a row of the patch is begins in memory, and whether there is one."""
        image = self.image
        y = T.Bind(self.y * image.window.stride[0] - image.window.padding[0] + row)
        is_row = T.Bind(T.And(T.And(y >= 0, y < image.height), row < self.form.patch_rows))
        start = (self.batch * image.height + y) * image.width * image.channels
        return T.Bind(T.Select(is_row, start, T.int32(0))), is_row

    def _word_of_image(self, start: Any, is_row: Any, word: Any) -> Any:
        """A word of a row of the patch: of four bytes of the image, zeros where they are outside."""
        image = self.image
        at = T.Bind(self._first_byte() + word * WORD_BYTES)
        length = image.width * image.channels
        if not self.form.reads_words:
            return self._gathered(start, is_row, at, length)
        last = self.form.image_bytes // WORD_BYTES - 1
        data = T.decl_buffer((last + 1,), "int32", data=self.data.data)
        source = T.Bind(start + at)
        low = T.Bind(T.shift_right(source, T.int32(2)))
        is_any = T.Bind(T.And(is_row, T.And(at > -WORD_BYTES, at < length)))
        low_word, high_word = (
            T.Bind(T.if_then_else(is_any, data[T.min(T.max(place, 0), last)], T.int32(0))) for place in (low, low + 1)
        )
        value = bytes_across(low_word, high_word, T.bitwise_and(source, WORD_BYTES - 1))
        return T.bitwise_and(value, self._mask(at, length))

    @staticmethod
    def _mask(at: Any, length: int) -> Any:
        """Ones in those of four bytes from there on that a row of so many has."""

        def first_bytes(count: Any) -> Any:
            bounded = T.Bind(T.min(T.max(count, 0), WORD_BYTES))
            ones = T.shift_left(T.int32(1), T.min(bounded, WORD_BYTES - 1) * 8) - 1
            return T.Select(bounded >= WORD_BYTES, T.int32(-1), ones)

        return T.bitwise_and(first_bytes(length - at), T.bitwise_not(first_bytes(-at)))

    def _gathered(self, start: Any, is_row: Any, at: Any, length: int) -> Any:
        word: Any = T.int32(0)
        for byte in range(WORD_BYTES):
            is_real = T.And(is_row, T.And(at + byte >= 0, at + byte < length))
            value = T.if_then_else(is_real, T.cast(self.data[start + at + byte], "int32"), T.int32(0))
            word = T.bitwise_or(word, T.shift_left(T.bitwise_and(value, 255), 8 * byte))
        return word

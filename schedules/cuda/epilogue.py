"""The end of a GPU kernel: from a thread's int32 sums to outputs, several of a row stored at once.

Bytes by the float rule are requantized in a way of their own, with six instructions where the common one has nine. A
product is scaled by 2^-24, which rounds nothing, so that 0.75 added to it rounds it to an integer (the unit in the last
place of binary32 between 0.5 and 1 is 2^-24), and that the addition's own saturation, within 0 and 1, bounds what the
bits of its result can be: so an integer addition bounded by 0 and the range of outputs, which is one instruction, and
exact, takes them to the distance from the lowest output. Four such distances are packed as bytes, and the lowest output
is added to all of them. (VIADDMNMX: NVIDIA's CUDA C++ Programming Guide, "DPX"; `cvt.pack`: PTX ISA.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import HIGHEST, LOWEST, OUTPUT_ZERO_POINT
from int8tune.schedules.cuda.factors import FRACTION, factor_rows, packs
from int8tune.schedules.cuda.loaded_factors import LoadedFactors
from int8tune.schedules.epilogue import DTYPES, SIGN_BIT, add_residual, requantize
from int8tune.schedules.gpus import WORD_BYTES
from int8tune.schedules.intrinsics.cuda import (
    bounded_sum,
    fused,
    packed_bytes,
    rounded_product,
    saturated,
    store_words,
)
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.written.rows import store_vector
from int8tune.schedules.written.signature import Arguments

MOST_WORDS = 4  # that a thread loads at once
# What rounds a product's fraction to a multiple of `FRACTION`.
ROUNDER, ROUNDER_BITS = 0.75, 0x3F400000
# The sign bits of a word's bytes, as an int32.
SIGNS = 0x80808080 + 2 * SIGN_BIT


class Epilogue:
    """Adds the bias, requantizes and stores the sums of rows, each of the same neighbouring channels.

    Args:
        count: of channels.
        width: of outputs that are stored at once; it divides the count, and where a row begins.
    """

    def __init__(self, numerics: Numerics, arguments: Arguments, count: int, width: int) -> None:
        self.numerics = numerics
        self.arguments = arguments
        self.count = count
        self.width = width
        self.rescale: Any = arguments.rescale
        self.packs = packs(numerics, width)

    def begin(self, position: Any) -> None:
        """Load what all rows share: the rescale values of the channels from this position on."""
        if rows := factor_rows(self.numerics):
            loaded = T.alloc_buffer((rows * self.count,), self.arguments.rescale.dtype, scope="local")
            for row in range(rows):
                self._load(loaded, row * self.count, partial(self._factors, row, position))
            self.rescale = _Loaded(loaded, self.count)
        if self.packs:
            self._begin_packing(1 if not rows else self.count)

    def _begin_packing(self, scales: int) -> None:
        """Have fractions of the scales, and what takes a rounded product to the distance from the lowest output."""
        params = self.arguments.params
        if not isinstance(self.arguments, LoadedFactors) or not self.arguments.has_fractions:
            fractions = T.alloc_buffer((scales,), "float32", scope="local")
            for at in range(scales):
                T.buffer_store(fractions, self.rescale[at] * T.float32(FRACTION), [at])
            self.rescale = fractions
        self.offset = T.Bind(-ROUNDER_BITS - params[LOWEST])
        self.range = T.Bind(params[HIGHEST] - params[LOWEST])
        # Bytes with a sign are 128 more until it is taken off again, so that no sum carries into the next byte.
        lowest = params[LOWEST] + params[OUTPUT_ZERO_POINT] + (128 if self.numerics.output == "s8" else 0)
        self.lowest = T.Bind(packed_bytes([T.Bind(lowest)] * WORD_BYTES, T.int32(0)))

    def load_bias(self, at: Any) -> Any:
        """The bias of the channels, from this index on, in registers."""
        bias = T.alloc_buffer((self.count,), "int32", scope="local")
        self._load(bias, 0, lambda offset, width: _vector(self.arguments.bias, at + offset, width))
        return bias

    def store(self, total: Callable[[Any], Any], bias: Any, at: Any, exist: Callable[[int], Any]) -> None:
        """Requantize and store a row.

        What does not exist is requantized, too, and not stored: so nothing has to be decided before the rows' values
        are computed, whose instructions may be in any order. Residuals are read where they are.

        Args:
            total: the sum of a channel, without its bias, or with it where there is none.
            at: the index of the first output.
            exist: whether the outputs from this one of the row on are to be stored.
        """

        def biased(channel: Any) -> Any:
            return total(channel) if bias is None else total(channel) + bias[channel]

        if self.packs:
            self._store_packed(biased, at, exist)
            return
        out, residual = self.arguments.out, self.arguments.residual
        values = T.alloc_buffer((self.count,), DTYPES[self.numerics.output], scope="local")
        added = T.alloc_buffer((self.count,), residual.dtype, scope="local") if residual is not None else None
        for first in range(0, self.count, self.width):
            if residual is not None:
                with T.If(exist(first)), T.Then():
                    store_vector(added, first, _vector(residual, at + first, self.width), self.width)
            with T.unroll(0, self.width) as index:
                channel = first + index
                value = T.Bind(self._value(biased(channel), channel, added))
                T.buffer_store(values, value, [channel])
            with T.If(exist(first)), T.Then():
                store_vector(out, at + first, _vector(values, first, self.width), self.width)

    def _store_packed(self, biased: Callable[[Any], Any], at: Any, exist: Callable[[int], Any]) -> None:
        for first in range(0, self.count, self.width):
            channels = range(first, first + self.width)
            distances = [self._distance(T.Bind(biased(channel)), channel) for channel in channels]
            fours = (distances[at : at + WORD_BYTES] for at in range(0, self.width, WORD_BYTES))
            words = [T.Bind(packed_bytes(four, self.lowest)) for four in fours]
            if self.numerics.output == "s8":
                words = [T.Bind(T.bitwise_xor(word, SIGNS)) for word in words]
            with T.If(exist(first)), T.Then():
                store_words(T.address_of(self.arguments.out[at + first]), words)

    def _distance(self, total: Any, channel: int) -> Any:
        """How far an output is above the lowest one."""
        fraction = self.rescale[channel if factor_rows(self.numerics) else 0]
        product = rounded_product(T.cast(total, "float32"), fraction)
        bits = T.reinterpret(saturated(product + T.float32(ROUNDER)), dtype="int32")
        return T.Bind(bounded_sum(bits, self.offset, self.range))

    def _value(self, total: Any, channel: Any, added: Any) -> Any:
        params = self.arguments.params
        own = T.Bind(requantize(self.numerics, T.Bind(total), channel, self.rescale, params, fused))
        return add_residual(self.numerics, own, None if added is None else added[channel], params, fused)

    def _factors(self, row: int, position: Any, at: int, width: int) -> Any:
        return self.arguments.load_rescale(row, position + at, width)

    def _load(self, to: Any, first: int, load: Callable[[int, int], Any]) -> None:
        width = next(width for width in (MOST_WORDS, 2, 1) if self.count % width == 0)
        for at in range(0, self.count, width):
            store_vector(to, first + at, load(at, width), width)


class _Loaded:
    """Rows of rescale values in registers, read like the argument."""

    def __init__(self, values: Any, count: int) -> None:
        self._values = values
        self._count = count

    def __getitem__(self, place: Any) -> Any:
        row, at = place if isinstance(place, tuple) else (0, place)
        return self._values[row * self._count + at]


def _vector(buffer: Any, at: Any, width: int) -> Any:
    return buffer.vload([at], f"{buffer.dtype}x{width}") if width > 1 else buffer[at]

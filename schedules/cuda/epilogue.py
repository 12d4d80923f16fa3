"""The end of a GPU kernel: from a thread's int32 sums to outputs, several of a row stored at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.factors import factor_rows
from int8tune.schedules.epilogue import DTYPES, add_residual, requantize
from int8tune.schedules.intrinsics.cuda import fused
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.written.rows import store_vector
from int8tune.schedules.written.signature import Arguments

MOST_WORDS = 4  # that a thread loads at once


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

    def begin(self, position: Any) -> None:
        """Load what all rows share: the rescale values of the channels from this position on."""
        rows = factor_rows(self.numerics)
        if not rows:
            return
        loaded = T.alloc_buffer((rows * self.count,), self.arguments.rescale.dtype, scope="local")
        for row in range(rows):
            self._load(loaded, row * self.count, partial(self._factors, row, position))
        self.rescale = _Loaded(loaded, self.count)

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
            total: the sum of a channel, without its bias.
            at: the index of the first output.
            exist: whether the outputs from this one of the row on are to be stored.
        """
        out, residual = self.arguments.out, self.arguments.residual
        values = T.alloc_buffer((self.count,), DTYPES[self.numerics.output], scope="local")
        added = T.alloc_buffer((self.count,), residual.dtype, scope="local") if residual is not None else None
        for first in range(0, self.count, self.width):
            if residual is not None:
                with T.If(exist(first)), T.Then():
                    store_vector(added, first, _vector(residual, at + first, self.width), self.width)
            with T.unroll(0, self.width) as index:
                channel = first + index
                value = T.Bind(self._value(total(channel) + bias[channel], channel, added))
                T.buffer_store(values, value, [channel])
            with T.If(exist(first)), T.Then():
                store_vector(out, at + first, _vector(values, first, self.width), self.width)

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

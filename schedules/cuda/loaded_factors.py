"""Biases and rescale values of a tile's channels in shared memory, where its epilogue finds them like arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.factors import factor_rows
from int8tune.schedules.gpus import WORD_BYTES
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.written.rows import divided, load_bytes, store_vector
from int8tune.schedules.written.signature import Arguments

# Values that a thread loads at once.
LOADED_WORDS = 4


@dataclass(frozen=True, slots=True)
class LoadedFactors(Arguments):
    """Arguments whose biases and rescale values of each channel are in shared memory, these behind those.

    Attributes:
        first: where the biases begin, in words.
        classes: of windows, each of which has biases of its own.
        rows: of rescale values that each channel has of its own.
    """

    first: Any
    classes: int
    rows: int

    def load_rescale(self, row: int, at: Any, width: int) -> Any:
        return Arguments.load_rescale(self, row, at + self.classes * self.positions, width)

    def load(self, given: Arguments, position: Any, thread: Any, threads: int) -> None:
        """Let so many threads load the values of the channels from this position on, four at once."""

        def load(rows: int, to: Any, first: Any, source: Any) -> None:
            count = rows * self.positions // LOADED_WORDS
            for turn in range(math.ceil(count / threads)):
                item = T.Bind(thread + turn * threads)
                with T.If(item < count), T.Then():
                    row, within = divided(item, self.positions // LOADED_WORDS)
                    value = source(row, position + within * LOADED_WORDS)
                    store_vector(to, first + item * LOADED_WORDS, value, LOADED_WORDS)

        load(
            self.classes,
            self.bias,
            self.first,
            lambda row, at: load_bytes(given.bias, row * given.positions + at, LOADED_WORDS),
        )
        if self.rows:
            load(
                self.rows,
                self.rescale,
                self.first + self.classes * self.positions,
                lambda row, at: given.load_rescale(row if self.rows > 1 else 0, at, LOADED_WORDS),
            )


def loaded_factors(
    given: Arguments, numerics: Numerics, shared: Any, shared_bytes: int, first: Any, classes: int, channels: int
) -> LoadedFactors:
    """Where the factors of so many channels are in a block's shared memory, from this word on."""
    words = T.decl_buffer((shared_bytes // WORD_BYTES,), "int32", data=shared.data, scope="shared.dyn")
    rows, rescale = factor_rows(numerics), given.rescale
    if rows:
        rescale = T.decl_buffer(words.shape, rescale.dtype, data=shared.data, scope="shared.dyn")
    known: Mapping[str, Any] = {field.name: getattr(given, field.name) for field in fields(given)}
    own = {"bias": words, "rescale": rescale, "positions": channels, "row_length": channels}
    return LoadedFactors(**{**known, **own}, first=first, classes=classes, rows=rows)

"""Biases and rescale values of a tile's channels in shared memory, where its epilogue finds them like arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.factors import FRACTION, factor_rows, packs
from int8tune.schedules.cuda.launch import shared_words
from int8tune.schedules.image import Image
from int8tune.schedules.intrinsics.cuda import here
from int8tune.schedules.written.rows import divided, load_bytes, store_vector
from int8tune.schedules.written.signature import Arguments

# Values that a thread loads at once.
LOADED_WORDS = 4


class FactorsForm(Protocol):
    """A form whose blocks have a tile of channels."""

    @property
    def image(self) -> Image: ...

    @property
    def block_channels(self) -> int: ...

    @property
    def store_width(self) -> int: ...

    @property
    def border_classes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LoadedFactors(Arguments):
    """Arguments whose biases and rescale values of each channel are in shared memory, these behind those.

    Attributes:
        first: where the biases begin, in words.
        classes: of windows, each of which has biases of its own.
        rows: of rescale values that each channel has of its own.
        has_fractions: whether these are scales times `FRACTION`.
    """

    first: Any
    classes: int
    rows: int
    has_fractions: bool

    def load_rescale(self, row: int, at: Any, width: int) -> Any:
        return Arguments.load_rescale(self, row, at + self.classes * self.positions, width)

    def fetch(self, given: Arguments, position: Any, thread: Any, threads: int) -> list[Callable[[], None]]:
        """Let so many threads load the values of the channels from this position on, four at once, into registers.

        What is given back stores them to shared memory: who waits for them before has something else to do meanwhile.
        """
        first_scale = self.first + self.classes * self.positions
        stores = self._fetch(
            self.classes,
            (self.bias, self.first, 1.0),
            (thread, threads),
            lambda row, at: load_bytes(given.bias, row * given.positions + position + at, LOADED_WORDS),
        )
        return stores + self._fetch(
            self.rows,
            (self.rescale, first_scale, FRACTION if self.has_fractions else 1.0),
            (thread, threads),
            lambda row, at: given.load_rescale(row if self.rows > 1 else 0, position + at, LOADED_WORDS),
        )

    def _fetch(
        self, rows: int, target: tuple[Any, Any, float], threads: tuple[Any, int], source: Callable[[Any, Any], Any]
    ) -> list[Callable[[], None]]:
        """The values of some rows, a factor of which is stored from an index of a buffer on."""
        buffer, first, factor = target
        thread, count = threads
        items = rows * self.positions // LOADED_WORDS
        stores: list[Callable[[], None]] = []
        for turn in range(math.ceil(items / count)):
            item = T.Bind(thread + turn * count)
            values = T.alloc_buffer((LOADED_WORDS,), buffer.dtype, scope="local")
            with T.If(item < items), T.Then():
                row, within = divided(item, self.positions // LOADED_WORDS)
                store_vector(values, 0, source(row, within * LOADED_WORDS), LOADED_WORDS)

            def store(item: Any = item, values: Any = values) -> None:
                with T.If(item < items), T.Then():
                    if factor != 1.0:
                        for at in range(LOADED_WORDS):
                            T.buffer_store(values, here(values[at]) * T.float32(factor), [at])
                    value = load_bytes(values, 0, LOADED_WORDS)
                    store_vector(buffer, first + item * LOADED_WORDS, value, LOADED_WORDS)

            stores.append(store)
        return stores


def with_loaded_params(given: Arguments) -> Arguments:
    """The same with `params` in registers, loaded here: who reads them first at a kernel's end waits for memory."""
    return replace(given, params=[T.Bind(given.params[at]) for at in range(int(given.params.shape[0]))])


def loaded_factors(given: Arguments, form: FactorsForm, shared: Any, first: Any) -> LoadedFactors:
    """Where the factors of a tile's channels are in a block's shared memory, from this word on."""
    words, numerics, rescale = shared_words(shared), form.image.numerics, given.rescale
    if rows := factor_rows(numerics):
        rescale = shared_words(shared, rescale.dtype)
    known: Mapping[str, Any] = {field.name: getattr(given, field.name) for field in fields(given)}
    own = {"bias": words, "rescale": rescale, "positions": form.block_channels, "row_length": form.block_channels}
    return LoadedFactors(
        **{**known, **own},
        first=first,
        classes=form.border_classes,
        rows=rows,
        has_fractions=rows > 0 and packs(numerics, form.store_width),
    )

"""How a kernel's packed weights come of a matrix that is known only when the model runs.

A layout packs weights with numpy. What it does to them is found by packing random ones: packed weights are a sequence
of units, each a few weights of one output channel (or of adjacent ones), and these are made in a plain order first,
which vectors do well, and then copied to their places, several at once where they stay together::

    weights [N, K] -> units [rows + 1, columns], the last row zeros -> packed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.operands import DTYPES
from int8tune.schedules.template import OperandLayout
from int8tune.schedules.workload import Dense

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]

TAPS = 4
# Units of the longest pieces that stay together, and so how many times the last column may be repeated.
PIECES = (16, 8, 4, 2, 1)
DRAWS, CHECKS = 4, 3


@dataclass(frozen=True, slots=True)
class Form:
    """One way to put weights together.

    Attributes:
        dtype: of a unit, of numpy and TVM.
        taps: consecutive weights of a channel that one row of units, or several, are made of.
        rows: for each row of units of those taps, which of them are in a unit, the lowest bits first.
        bits: of a unit that each takes.
        step: if any, the weights behind the last whole step are there once more, in units that end with them.
    """

    name: str
    dtype: str
    taps: int
    rows: tuple[tuple[int, ...], ...]
    bits: int
    step: int = 0

    def units(self, weight: Array, offset: int) -> Array:
        """The units [rows, N] of weights [N, K]; zeros behind the last weight of a channel."""
        features = weight.shape[1]
        moved = weight.astype(np.int64) + offset
        parts = [np.pad(moved, [(0, 0), (0, -features % self.taps)])]
        if behind := self.behind(features):
            parts.append(np.pad(moved[:, -behind:], [(0, 0), (-behind % self.taps, 0)]))
        return np.concatenate([self._units(part) for part in parts])

    def behind(self, features: int) -> int:
        """The weights of a channel that are there twice."""
        return features % self.step if self.step else 0

    def _units(self, moved: Array) -> Array:
        channels = moved.shape[0]
        moved = moved.reshape(channels, -1, self.taps) & ((1 << self.bits) - 1)
        made = [sum(moved[:, :, tap] << self.bits * place for place, tap in enumerate(row)) for row in self.rows]
        stacked = np.stack(made, axis=1).transpose(2, 1, 0).reshape(-1, channels)
        return np.ascontiguousarray(stacked.astype(f"u{np.dtype(self.dtype).itemsize}").view(self.dtype))


FORMS = (
    Form("quads", "int32", TAPS, (tuple(range(TAPS)),), 8),
    Form("pairs", "int32", TAPS, ((0, 2), (1, 3)), 16),
    Form("quads of steps", "int32", TAPS, (tuple(range(TAPS)),), 8, 64),
    Form("values", "int8", 1, ((0,),), 8),
)


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """How weights are packed.

    Attributes:
        offset: what is added to each weight.
        columns: of a row of units: the channels, and the last one again as often as pieces reach behind it.
        rows: of units, without the one of zeros.
        piece: units that stay together.
        starts: int32, for each piece where it is among the units.
        length: bytes that are packed.
    """

    form: Form
    offset: int
    channels: int
    columns: int
    rows: int
    piece: int
    starts: npt.NDArray[np.int32]
    length: int

    def pack(self, weight: Array) -> Array:
        """Weights [N, K], packed: what the kernel of this packing does."""
        units = _with_border(self.form.units(weight, self.offset), self.columns)
        places = self.starts.astype(np.int64)[:, None] + np.arange(self.piece)
        packed: Array = units.reshape(-1)[places].reshape(-1).view(np.int8)
        return packed


def packing_of(workload: Dense, layout: OperandLayout, zero_point: int) -> Packing | None:
    """How the layout packs a layer's weights, whatever they are; None if it is no copy of units."""
    draw = _draws(workload)
    samples = [(weight, _packed(layout, weight, zero_point)) for weight in (draw() for _ in range(DRAWS))]
    for form in FORMS:
        for offset in dict.fromkeys((0, -128, -zero_point)):
            found = _found(form, offset, samples)
            if found is not None and all(_agrees(found, layout, draw(), zero_point) for _ in range(CHECKS)):
                return found
    return None


def _draws(workload: Dense) -> Callable[[], Array]:
    rng, dtype = np.random.default_rng(0), np.dtype(DTYPES[workload.numerics.weight])
    bounds = np.iinfo(dtype)
    return lambda: rng.integers(bounds.min, bounds.max + 1, workload.weight_shape).astype(dtype)


def _packed(layout: OperandLayout, weight: Array, zero_point: int) -> Array:
    return np.ascontiguousarray(layout.pack(weight, zero_point)).reshape(-1).view(np.int8)


def _agrees(found: Packing, layout: OperandLayout, weight: Array, zero_point: int) -> bool:
    return bool(np.array_equal(found.pack(weight), _packed(layout, weight, zero_point)))


def _found(form: Form, offset: int, samples: list[tuple[Array, Array]]) -> Packing | None:
    """The packing, if all units of the samples are found among those of this form."""
    channels, length = samples[0][0].shape[0], samples[0][1].size
    if length % np.dtype(form.dtype).itemsize:
        return None
    columns = channels + PIECES[0] - 1
    units = _keys([_with_border(form.units(weight, offset), columns) for weight, _ in samples])
    packed = _keys([made.view(form.dtype) for _, made in samples])
    order = np.argsort(units, kind="stable")
    first = order[np.minimum(np.searchsorted(units[order], packed), units.size - 1)]
    if not np.array_equal(units[first], packed):
        return None
    for piece in PIECES:
        starts = first[::piece]
        places = starts[:, None] + np.arange(piece)
        inside = packed.size % piece == 0 and places.max() < units.size
        if inside and np.array_equal(units[places].reshape(-1), packed):
            rows = units.size // columns - 1
            return _narrowed(Packing(form, offset, channels, columns, rows, piece, starts.astype(np.int32), length))
    return None


def _narrowed(found: Packing) -> Packing:
    """The packing with no more repeated columns than its pieces reach."""
    row, column = np.divmod(found.starts.astype(np.int64), found.columns)
    # Pieces of zeros begin where these do, and any that run over a row's end keep it as it is.
    is_zero = row == found.rows
    reach = int((column + found.piece)[~is_zero].max(initial=found.channels))
    columns = max(reach, found.channels, found.piece)
    if columns >= found.columns:
        return found
    starts = row * columns + np.where(is_zero, 0, column)
    return Packing(
        found.form,
        found.offset,
        found.channels,
        columns,
        found.rows,
        found.piece,
        starts.astype(np.int32),
        found.length,
    )


def _with_border(units: Array, columns: int) -> Array:
    """Units with the last column repeated, and a row of zeros."""
    wide = np.pad(units, [(0, 0), (0, columns - units.shape[1])], mode="edge")
    return np.concatenate([wide, np.zeros((1, columns), units.dtype)])


def _keys(draws: list[Array]) -> npt.NDArray[np.uint64]:
    """One number for each place, of all draws; equal ones are the same place but for about one of 2^64 pairs."""
    mixed = np.zeros(draws[0].size, np.uint64)
    for each in draws:
        mixed = (mixed ^ each.reshape(-1).astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed

"""The products of an ARM convolution: some steps of a reduction, for all sums of a tile."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arm.conv_form import ConvForm
from int8tune.schedules.arm.pipeline import Values, pipeline
from int8tune.schedules.arm.tiling import HALF_BYTES, LANES, REGISTER_BYTES
from int8tune.schedules.intrinsics import arm_vectors as arm
from int8tune.schedules.written.accumulators import Accumulators
from int8tune.schedules.written.image import ReadImage
from int8tune.schedules.written.rows import load_bytes

# How many sums ahead of its use each kind of operand is made.
DISTANCES = {"loaded": 6, "doubled": 4, "weights": 2, "data": 2}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the reduction.

    Attributes:
        data_at: index in the image of the first value of the tile's first column.
        weight_at: index of the first weight.
        words: of `taps` values each.
    """

    data_at: Any
    weight_at: Any
    words: int
    taps: int


@dataclass(frozen=True, slots=True)
class _Products:
    """What the three ways to multiply have in common."""

    form: ConvForm
    image: ReadImage
    weight: Any
    sums: Accumulators

    @property
    def columns(self) -> range:
        return range(self.form.tile_columns)

    def load(self, data_at: Any, column: int, width: int) -> Any:
        """Bytes of the image, moved by a number of output columns."""
        at = data_at + column * self.form.image.window.stride[1] * self.form.image.channels
        return load_bytes(self.image.buffer, at, width)

    def load_signed(self, data_at: Any, column: int, width: int) -> Any:
        return T.Bind(T.reinterpret(self.load(data_at, column, width), dtype=f"int8x{width}"))

    def load_repeated(self, data_at: Any, column: int, word: int, size: int) -> Any:
        """A word of the image, repeated to so many bytes."""
        taps = self.form.taps
        return T.Bind(arm.broadcast_bytes(self.load(data_at + word * taps, column, taps), taps, size))

    def load_weights(self, at: Any, index: int, size: int) -> Any:
        return T.Bind(self.weight.vload([at + index * size], f"int8x{size}"))


class PairedProducts(_Products):
    """Two products share 16 bits, then pairs of them are added to a sum (SMULL, SMLAL2, SADALP)."""

    def emit(self, steps: Sequence[Step]) -> None:
        values = Values(lambda made, key: self._operand(steps, made, *key))
        units = [
            (index, word, register, column)
            for index, step in enumerate(steps)
            for word in range(step.words)
            for register in range(self.form.accumulators)
            for column in self.columns
        ]
        products: dict[int, Any] = {}

        def operands(unit: int, half: int) -> tuple[Any, Any]:
            index, word, register, column = units[unit]
            return values["weights", index, word, register][half], values["data", index, word, column][half]

        def multiply(unit: int) -> None:
            products[unit] = arm.bind_int16(arm.product_bytes(*operands(unit, 0)))
            arm.keep_order(products[unit])

        def multiply_second(unit: int) -> None:
            products[unit] = arm.bind_int16(arm.add_products(products[unit], *operands(unit, 1)))
            arm.keep_order(products[unit])

        def add(unit: int) -> None:
            _, _, register, column = units[unit]
            self.sums[column, register] = arm.add_pairs(self.sums[column, register], products.pop(unit))
            arm.keep_order(self.sums[column, register])

        ahead = [(distance, partial(self._keys, units, kind)) for kind, distance in DISTANCES.items()]
        pipeline(len(units), values, ahead, (multiply, multiply_second, add))

    def _keys(self, units: Sequence[tuple[int, int, int, int]], kind: str, unit: int) -> Iterable[Hashable]:
        """What has to be made of this kind for a sum."""
        index, word, register, column = units[unit]
        if kind == "weights":
            yield kind, index, word, register
        elif kind == "data":
            yield kind, index, word, column
        else:
            yield kind, index, 0, column

    def _operand(self, steps: Sequence[Step], made: Values, kind: str, index: int, word: int, place: int) -> Any:
        """What was loaded, or the two halves of a register."""
        step, form = steps[index], self.form
        match kind:
            case "loaded":
                return T.Bind(T.reinterpret(self.load(step.data_at, place, _width(step)), dtype=_type(step, 16)))
            case "doubled":
                # Each pair of taps twice: (0, 1), (0, 1), (2, 3), (2, 3) and so on.
                order, pairs = [at // 2 for at in range(_width(step))], made["loaded", index, 0, place]
                value = T.Bind(T.reinterpret(T.Shuffle([pairs, pairs], order), dtype=f"int32x{_width(step) // 2}"))
            case "weights":
                value = self.load_weights(step.weight_at + word * form.word_bytes, place, REGISTER_BYTES)
                return _halves(value)
            case _:
                # A word's first pair of taps four times, then its second.
                twice, order = made["doubled", index, 0, place], [2 * word + lane // 2 for lane in range(LANES)]
                value = T.Bind(T.reinterpret(T.Shuffle([twice, twice], order), dtype="int8x16"))
        arm.keep_order(value)
        return value if kind == "doubled" else _halves(value)


def _width(step: Step) -> int:
    return step.words * step.taps


def _type(step: Step, bits: int) -> str:
    return f"int{bits}x{_width(step) * 8 // bits}"


def _halves(register: Any) -> list[Any]:
    return [arm.half(register, high, "int8") for high in (0, 1)]


class DotProducts(_Products):
    """Four products a lane (SDOT): the words of a step are lanes of the data's register, or the only one."""

    def emit(self, steps: Sequence[Step]) -> None:
        operands = Values(lambda _, key: self._operand(steps, *key))
        places = [(index, word) for index, step in enumerate(steps) for word in range(step.words)]

        def keys(place: int) -> Iterable[Hashable]:
            if place < len(places):
                index, word = places[place]
                yield from (("weights", index, word, register) for register in range(self.form.accumulators))
                yield from (self._data_key(steps[index], index, word, column) for column in self.columns)

        operands.prepare(keys(0))
        for number, (index, word) in enumerate(places):
            operands.prepare(keys(number + 1))
            data = [operands[self._data_key(steps[index], index, word, column)] for column in self.columns]
            if _fills_register(steps[index]):
                order = [self.form.taps * word + tap for tap in range(self.form.taps)] * LANES
                data = [T.Shuffle([value], order) for value in data]
            for register in range(self.form.accumulators):
                weights = operands["weights", index, word, register]
                for column in self.columns:
                    at = column, register
                    self.sums[at] = arm.add_dot_products(self.sums[at], weights, data[column])
                arm.keep_order(self.sums[0, register])

    @staticmethod
    def _data_key(step: Step, index: int, word: int, column: int) -> Hashable:
        return "data", index, 0 if _fills_register(step) else word, column

    def _operand(self, steps: Sequence[Step], kind: str, index: int, word: int, place: int) -> Any:
        step = steps[index]
        if kind == "weights":
            return self.load_weights(step.weight_at + word * self.form.word_bytes, place, REGISTER_BYTES)
        if _fills_register(step):
            return self.load_signed(step.data_at, place, REGISTER_BYTES)
        return self.load_repeated(step.data_at, place, word, REGISTER_BYTES)


def _fills_register(step: Step) -> bool:
    return step.words * step.taps == REGISTER_BYTES


class WideProducts(_Products):
    """Products of 16 bits, each tap an element of the data's register (SMLAL by element)."""

    def emit(self, steps: Sequence[Step]) -> None:
        operands = Values(lambda _, key: self._operand(steps, *key))
        places = [(index, tap) for index, step in enumerate(steps) for tap in range(step.taps)]

        def keys(place: int) -> Iterable[Hashable]:
            if place < len(places):
                index, tap = places[place]
                yield from (("data", index, 0, column) for column in self.columns)
                yield from (("weights", index, tap, first) for first in range(0, self.form.accumulators, self._at_once))

        operands.prepare(keys(0))
        for number, (index, tap) in enumerate(places):
            operands.prepare(keys(number + 1))
            for register in range(self.form.accumulators):
                part = register % self._at_once
                weights = operands["weights", index, tap, register - part][part]
                for column in self.columns:
                    value = T.Shuffle([operands["data", index, 0, column]], [tap] * LANES)
                    total = self.sums[column, register]
                    self.sums[column, register] = arm.add_wide_products(total, weights, value)
                arm.keep_order(self.sums[0, register])

    @property
    def _at_once(self) -> int:
        """Registers of sums whose weights are loaded together."""
        return 2 if self.form.accumulators % 2 == 0 else 1

    def _operand(self, steps: Sequence[Step], kind: str, index: int, tap: int, place: int) -> Any:
        step = steps[index]
        if kind == "data":
            return arm.bind_int16(T.cast(self.load(step.data_at, place, self.form.taps), f"int16x{self.form.taps}"))
        at, size = step.weight_at + tap * self.form.tile_channels * 2 + place * HALF_BYTES, self._at_once * HALF_BYTES
        loaded = T.Bind(T.reinterpret(self.load_weights(at, 0, size), dtype=f"int16x{size // 2}"))
        return [arm.half(loaded, high, "int16") for high in (0, 1)] if self._at_once > 1 else [loaded]

"""The products of a blocked ARM convolution: some steps of a reduction, for all sums of a tile.

An LD1 of several registers costs an in-order core nothing between products, but it takes an address that was computed
before, and an addition between products costs two cycles; several of them, one behind the other, half a cycle each
beyond that. So addresses are computed in groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schedules.arm.pipeline import Values, pipeline
from schedules.arm.tiling import HALF_BYTES, REGISTER_BYTES
from schedules.intrinsics import arm_vectors as arm
from schedules.written.accumulators import Accumulators

# How many sums ahead of their use operands are loaded; registers of a load; addresses that are computed together.
DATA_AHEAD, WEIGHTS_AHEAD = 5, 3
TOGETHER = 2
ADDRESSES = 8


@dataclass(frozen=True, slots=True)
class BlockedStep:
    """A block at one tap.

    Attributes:
        data_at, weight_at: bytes from the turn's first data and weights.
        is_half: whether its upper eight channels are none.
    """

    data_at: int
    weight_at: int
    is_half: bool


@dataclass(frozen=True, slots=True)
class Load:
    """Registers that are loaded together."""

    is_data: bool
    at: int
    count: int


@dataclass(frozen=True, slots=True)
class BlockedProducts:
    """Two products share 16 bits, then pairs of them are added to a sum (SMULL, SMLAL2, SADALP).

    Attributes:
        columns, channels: of the sums.
        data, weights: addresses of the turn's first ones.
    """

    columns: int
    channels: int
    sums: Accumulators
    data: Any
    weights: Any

    def emit(self, steps: Sequence[BlockedStep]) -> None:
        loads = list(self._loads(steps))
        values = Values(lambda made, key: self._value(steps, loads, made, *key))
        units = [
            (index, channel, column)
            for index in range(len(steps))
            for channel in range(self.channels)
            for column in range(self.columns)
        ]
        products: dict[int, Any] = {}

        def operands(unit: int, high: int) -> list[Any]:
            index, channel, column = units[unit]
            weights = values["loaded", self._weights_load(index, channel)][channel % TOGETHER]
            data = values["loaded", self._data_load(index, column)][column % TOGETHER]
            return [arm.half(register, high, "int8") for register in (weights, data)]

        def multiply(unit: int) -> None:
            products[unit] = arm.bind_int16(arm.product_bytes(*operands(unit, 0)))
            arm.keep_order(products[unit])

        def multiply_second(unit: int) -> None:
            if not steps[units[unit][0]].is_half:
                products[unit] = arm.bind_int16(arm.add_products(products[unit], *operands(unit, 1)))
                arm.keep_order(products[unit])

        def add(unit: int) -> None:
            _, channel, column = units[unit]
            self.sums[column, channel] = arm.add_pairs(self.sums[column, channel], products.pop(unit))
            arm.keep_order(self.sums[column, channel])

        def data_of(unit: int) -> Iterable[Hashable]:
            index, _, column = units[unit]
            yield "loaded", self._data_load(index, column)

        def weights_of(unit: int) -> Iterable[Hashable]:
            index, channel, _ = units[unit]
            yield "loaded", self._weights_load(index, channel)

        ahead = [(DATA_AHEAD, data_of), (WEIGHTS_AHEAD, weights_of)]
        pipeline(len(units), values, ahead, (multiply, multiply_second, add))

    def _loads(self, steps: Sequence[BlockedStep]) -> Iterable[Load]:
        """In the order in which they are used."""
        for step in steps:
            for first in range(0, self.columns, TOGETHER):
                yield Load(True, step.data_at + first * REGISTER_BYTES, min(TOGETHER, self.columns - first))
            for first in range(0, self.channels, TOGETHER):
                yield Load(False, step.weight_at + first * REGISTER_BYTES, min(TOGETHER, self.channels - first))

    @property
    def _loads_of_step(self) -> tuple[int, int]:
        """Of data, and all."""
        data, weights = (-(-count // TOGETHER) for count in (self.columns, self.channels))
        return data, data + weights

    def _data_load(self, index: int, column: int) -> int:
        return index * self._loads_of_step[1] + column // TOGETHER

    def _weights_load(self, index: int, channel: int) -> int:
        data, every = self._loads_of_step
        return index * every + data + channel // TOGETHER

    def _value(self, steps: Sequence[BlockedStep], loads: Sequence[Load], made: Values, kind: str, place: int) -> Any:
        """The registers of a load, or the addresses of a group of loads."""
        if kind == "addresses":
            group = loads[place * ADDRESSES : (place + 1) * ADDRESSES]
            return [arm.moved(self.data if load.is_data else self.weights, load.at) for load in group]
        address = made["addresses", place // ADDRESSES][place % ADDRESSES]
        registers = arm.load_registers(address, loads[place].count)
        arm.keep_order(registers[0])
        return registers

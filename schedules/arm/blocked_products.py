"""The products of a blocked ARM convolution: turns of some steps of a reduction, for all sums of a tile.

An LD1 of several registers costs an in-order core nothing between products, but it takes an address that was computed
before, and an addition between products costs two cycles; several of them, one behind the other, half a cycle each
beyond that. So addresses are computed in groups. And each turn begins what the next one goes on with: its first
registers are loaded and its first sums are begun before the loop branches. The last turn does that in vain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from schedules.arm.pipeline import STAGE_DISTANCE, Values
from schedules.arm.tiling import REGISTER_BYTES
from schedules.intrinsics import arm_vectors as arm
from schedules.written.accumulators import ON_STACK, Accumulators

# How many sums ahead of their use operands are loaded; registers of a load; addresses that are computed together.
DATA_AHEAD, WEIGHTS_AHEAD = 5, 2
MOST_TOGETHER = 4
ADDRESSES = 16
# Sums that a turn begins for the next one.
BEGUN = 2 * STAGE_DISTANCE
# Registers of sums that leave enough for weights by fours.
PLENTY = 12


@dataclass(frozen=True, slots=True)
class Load:
    """Registers that are loaded together, so many bytes from the turn's first data or weights."""

    is_data: bool
    at: int
    count: int


@dataclass(frozen=True, slots=True)
class BlockedStep:
    """A block at one tap.

    Attributes:
        data_at, weight_at: bytes from the turn's first data and weights.
        is_half: whether its upper eight channels are none.
    """

    data_at: int
    weight_at: int
    is_half: bool = False


class BlockedProducts:
    """Two products share 16 bits, then pairs of them are added to a sum (SMULL, SMLAL2, SADALP)."""

    def __init__(self, columns: int, channels: int, sums: Accumulators, steps: Sequence[BlockedStep]) -> None:
        """For a turn of these steps, the last of which is the next turn's first one where turns go on."""
        self.columns, self.channels, self.sums, self.steps = columns, channels, sums, steps
        self.together = weights_together(columns, channels)
        self.loads = [load for step in steps for load in self._loads_of(step)]
        self.units_of_step, self.loads_of_step = columns * channels, len(self.loads) // len(steps)

    def emit(self, data: Any, weights: Any) -> None:
        """A turn of its own; `data` and `weights` are the addresses of its first ones."""
        count = len(self.steps) * self.units_of_step
        self._run(range(count + BEGUN), count, self._values(data, weights, {}), {})

    def emit_loop(self, turns: int, data: Any, weights: Any) -> None:
        """Turns, each of which begins the next one."""
        begun = self._values(data, weights, {})
        products: dict[int, Any] = {}
        self._run(range(BEGUN), self.units_of_step, begun, products)
        handed = [index for index in range(self.loads_of_step) if ("loaded", index) in begun.made]
        first, count = len(self.loads) - self.loads_of_step, (len(self.steps) - 1) * self.units_of_step
        places = [(index, part) for index in handed for part in range(self.loads[index].count)]
        registers = T.alloc_buffer((len(places),), "int8x16", annotations=ON_STACK)
        halfway = T.alloc_buffer((BEGUN,), "int16x8", annotations=ON_STACK)

        bases = T.alloc_buffer((2,), "int64", annotations=ON_STACK)

        def hand_over(values: Values, load: int, unit: int, base: list[Any]) -> None:
            for place in range(2):
                T.buffer_store(bases, base[place], [place])
            for place, (index, part) in enumerate(places):
                T.buffer_store(registers, values["loaded", load + index][part], [place])
            for place in range(BEGUN):
                T.buffer_store(halfway, products[unit + place], [place])

        hand_over(begun, 0, 0, [data, weights])
        with T.serial(0, turns):
            taken: dict[Hashable, Any] = {("loaded", index): [None] * self.loads[index].count for index in handed}
            for place, (index, part) in enumerate(places):
                taken["loaded", index][part] = T.Bind(registers[place])
            products = {unit: arm.bind_int16(halfway[unit]) for unit in range(BEGUN)}
            values = self._values(T.Bind(bases[0]), T.Bind(bases[1]), taken)
            self._run(range(BEGUN, count + BEGUN), count + self.units_of_step, values, products)
            hand_over(values, first, count, [values["address", first], values["address", first+self._data_loads]])

    def _run(self, slots: range, units: int, values: Values, products: dict[int, Any]) -> None:
        """Emit all stages that fall into these slots of so many sums."""
        ahead = (DATA_AHEAD, self._data_load), (WEIGHTS_AHEAD, self._weights_load)
        for slot in slots:
            for distance, load in ahead:
                for unit in range(slot if slot == slots.start else slot + distance, min(slot + distance + 1, units)):
                    values["loaded", load(unit)]
            if slot < units:
                self._multiply(slot, 0, values, products)
            if 0 <= slot - STAGE_DISTANCE < units:
                self._multiply(slot - STAGE_DISTANCE, 1, values, products)
            if 0 <= slot - BEGUN < units:
                self._add(slot - BEGUN, products)

    def _multiply(self, unit: int, high: int, values: Values, products: dict[int, Any]) -> None:
        channel, column = self._place(unit)
        if high and self.steps[unit // self.units_of_step].is_half:
            return
        weights = values["loaded", self._weights_load(unit)][channel % self.together]
        data = values["loaded", self._data_load(unit)][column % MOST_TOGETHER]
        operands = [arm.half(register, high, "int8") for register in (weights, data)]
        value = arm.add_products(products[unit], *operands) if high else arm.product_bytes(*operands)
        products[unit] = arm.bind_int16(value)
        arm.keep_order(products[unit])

    def _add(self, unit: int, products: dict[int, Any]) -> None:
        channel, column = self._place(unit)
        self.sums[column, channel] = arm.add_pairs(self.sums[column, channel], products.pop(unit))
        arm.keep_order(self.sums[column, channel])

    def _place(self, unit: int) -> tuple[int, int]:
        """Channel and column of a sum."""
        return divmod(unit % self.units_of_step, self.columns)

    def _data_load(self, unit: int) -> int:
        _, column = self._place(unit)
        return unit // self.units_of_step * self.loads_of_step + column // MOST_TOGETHER

    def _weights_load(self, unit: int) -> int:
        channel, _ = self._place(unit)
        return unit // self.units_of_step * self.loads_of_step + self._data_loads + channel // self.together

    @property
    def _data_loads(self) -> int:
        """Loads of a step's data."""
        return math.ceil(self.columns / MOST_TOGETHER)

    def _loads_of(self, step: BlockedStep) -> Iterator[Load]:
        for first in range(0, self.columns, MOST_TOGETHER):
            yield Load(True, step.data_at + first * REGISTER_BYTES, min(MOST_TOGETHER, self.columns - first))
        for first in range(0, self.channels, self.together):
            at = step.weight_at + first * REGISTER_BYTES
            yield Load(False, at, min(self.together, self.channels - first))

    def _values(self, data: Any, weights: Any, taken: dict[Hashable, Any]) -> Values:
        """The registers of loads, and addresses, in groups of loads behind those that were taken over."""

        def make(values: Values, key: tuple[str, int]) -> Any:
            kind, place = key
            if kind == "addresses":
                group = self.loads[len(taken) + place * ADDRESSES :][:ADDRESSES]
                return [arm.moved(data if load.is_data else weights, load.at) for load in group]
            if kind == "address":
                group_number, index = divmod(place - len(taken), ADDRESSES)
                return values["addresses", group_number][index]
            registers = arm.load_registers(values["address", place], self.loads[place].count)
            arm.keep_order(registers[0])
            return registers

        return Values(make, taken)


def weights_together(columns: int, channels: int) -> int:
    """Registers of weights that are loaded together: fewer where sums leave few registers."""
    return MOST_TOGETHER if columns * channels <= PLENTY else MOST_TOGETHER // 2

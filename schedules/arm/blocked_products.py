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

from int8tune.schedules.arm.blocked_form import MOST_TOGETHER
from int8tune.schedules.arm.pipeline import STAGE_DISTANCE, Values
from int8tune.schedules.arm.tiling import REGISTER_BYTES
from int8tune.schedules.intrinsics import arm_vectors as arm
from int8tune.schedules.intrinsics.arm_loads import load_registers, moved
from int8tune.schedules.written.accumulators import ON_STACK, Accumulators

# How many sums ahead of their use operands are loaded.
DATA_AHEAD, WEIGHTS_AHEAD = 5, 2
# Sums that a turn begins for the next one.
BEGUN = 2 * STAGE_DISTANCE


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

    def __init__(
        self,
        columns: int,
        channels: int,
        together: int,
        addresses: int,
        sums: Accumulators,
        steps: Sequence[BlockedStep],
    ) -> None:
        """For turns of these steps.

        Args:
            together: registers of weights that are loaded by one instruction.
            addresses: that are computed together, at most.
        """
        self.columns, self.channels, self.sums, self.steps = columns, channels, sums, steps
        self.together, self.addresses = together, addresses
        # Those of the steps, and of the next turn's first one.
        self.loads = [load for step in (*steps, BlockedStep(0, 0)) for load in self._loads_of(step)]
        self.units_of_step, self.loads_of_step = columns * channels, len(self.loads) // (len(steps) + 1)

    def begin(self, data: Any, weights: Any) -> None:
        """Begin what the first turn goes on with; the addresses are those of its first data and weights."""
        values = self._values((data, weights), None, {})
        products: dict[int, Any] = {}
        self._run(range(BEGUN), self.units_of_step, values, products)
        self.handed = [index for index in range(self.loads_of_step) if ("loaded", index) in values.made]
        count = sum(self.loads[index].count for index in self.handed)
        self.registers = T.alloc_buffer((count,), "int8x16", annotations=ON_STACK)
        self.begun = T.alloc_buffer((BEGUN,), "int16x8", annotations=ON_STACK)
        self.bases = T.alloc_buffer((2,), "int64", annotations=ON_STACK)
        self._hand_over(values, products, 0, 0, (data, weights))

    @property
    def weights(self) -> Any:
        """The address of the next turn's first weights."""
        return T.Bind(self.bases[1])

    def turn(self, following: Callable[[], tuple[Any, Any]], *, is_first: bool) -> None:
        """Go on with a turn that was begun, and begin the next one.

        Args:
            following: makes the addresses of the next turn's first data and weights.
            is_first: whether it is the first turn of its sums.
        """
        taken: dict[Hashable, Any] = {}
        place = 0
        for index in self.handed:
            taken["loaded", index] = [T.Bind(self.registers[place + part]) for part in range(self.loads[index].count)]
            place += self.loads[index].count
        products = {unit: arm.bind_int16(self.begun[unit]) for unit in range(BEGUN)}
        values = self._values((T.Bind(self.bases[0]), T.Bind(self.bases[1])), following, taken)
        count = len(self.steps) * self.units_of_step
        self._run(range(BEGUN, count + BEGUN), count + self.units_of_step, values, products, is_first=is_first)
        self._hand_over(values, products, len(self.steps) * self.loads_of_step, count, values["following", 0])

    def _hand_over(
        self, values: Values, products: dict[int, Any], load: int, unit: int, bases: tuple[Any, Any]
    ) -> None:
        registers = [register for index in self.handed for register in values["loaded", load + index]]
        begun = [products[unit + place] for place in range(BEGUN)]
        for buffer, kept in ((self.registers, registers), (self.begun, begun), (self.bases, bases)):
            for place, value in enumerate(kept):
                T.buffer_store(buffer, value, [place])

    def _run(
        self, slots: range, units: int, values: Values, products: dict[int, Any], *, is_first: bool = False
    ) -> None:
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
                self._add(slot - BEGUN, products, begins=is_first and slot - BEGUN < self.units_of_step)

    def _multiply(self, unit: int, high: int, values: Values, products: dict[int, Any]) -> None:
        channel, column = self._place(unit)
        if high and self.steps[unit // self.units_of_step % len(self.steps)].is_half:
            return
        weights = values["loaded", self._weights_load(unit)][channel % self.together]
        data = values["loaded", self._data_load(unit)][column % MOST_TOGETHER]
        operands = [arm.half(register, high, "int8") for register in (weights, data)]
        value = arm.add_products(products[unit], *operands) if high else arm.product_bytes(*operands)
        products[unit] = arm.bind_int16(value)
        arm.keep_order(products[unit])

    def _add(self, unit: int, products: dict[int, Any], *, begins: bool) -> None:
        channel, column = self._place(unit)
        product, total = products.pop(unit), self.sums[column, channel]
        self.sums[column, channel] = arm.pairs(product) if begins else arm.add_pairs(total, product)
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

    def _values(
        self, bases: tuple[Any, Any], following: Callable[[], tuple[Any, Any]] | None, taken: dict[Hashable, Any]
    ) -> Values:
        """The registers of loads, and addresses, in groups of loads behind those that were taken over."""
        of_turn = len(self.steps) * self.loads_of_step
        behind = of_turn if following is None else len(self.loads)

        def address(values: Values, index: int) -> Any:
            load = self.loads[index]
            data, weights = values["following", 0] if index >= of_turn else bases
            return moved(data if load.is_data else weights, load.at) if load.at else data if load.is_data else weights

        def make(values: Values, key: tuple[str, int]) -> Any:
            kind, place = key
            if kind == "following":
                assert following is not None
                return following()
            if kind == "addresses":
                first = len(taken) + place * self.addresses
                return [address(values, index) for index in range(first, min(first + self.addresses, behind))]
            group, index = divmod(place - len(taken), self.addresses)
            registers = load_registers(values["addresses", group][index], self.loads[place].count)
            arm.keep_order(registers[0])
            return registers

        return Values(make, taken)

"""Vector registers of the x86 profiles, as far as templates count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

TAPS = 4


@dataclass(frozen=True, slots=True)
class Registers:
    """The registers, and what a dot product of four bytes a lane takes of them.

    Attributes:
        lanes: int32 values of one register.
        parts: registers that one operand fills; with two, the first has taps 0 and 2 of each lane, the second taps 1
            and 3, widened to 16 bits.
        scratch: registers that are needed beside sums and operands.
        dot_cycles, data_cycles: rough cost of a dot product, and of making its operand from a word of data.
        loads_per_cycle: those that a loop of dot products reaches on Zen 5, two with 512 bits.
        dot_latency: cycles from one dot product to the next one that adds to the same sum.
        unroll: steps of a reduction in one turn of a loop; LLVM runs out of registers where products take some.
    """

    lanes: int
    count: int
    parts: int = 1
    scratch: int = 0
    dot_cycles: float = 0.5
    data_cycles: float = 0.0
    loads_per_cycle: float = 2.0
    dot_latency: float = 4.3
    unroll: int = 2

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights of one dot product."""
        return self.lanes * TAPS * self.parts

    def pack(self, weight: npt.NDArray[np.int16]) -> npt.NDArray[np.int8]:
        """s8 weights [..., lanes, 4] in the order in which they are loaded, of one axis."""
        split = weight.reshape(*weight.shape[:-1], TAPS // self.parts, self.parts)
        parts: npt.NDArray[Any] = np.ascontiguousarray(np.moveaxis(split, -1, -3))
        return parts.astype("<i2" if self.parts == 2 else np.int8).view(np.int8).reshape(-1)


_AVX512 = Registers(lanes=16, count=32)
REGISTERS = {
    "x86-amx": _AVX512,
    "x86-avx512vnni": _AVX512,
    "x86-avxvnni": Registers(lanes=8, count=16, loads_per_cycle=1.8),
    "x86-avx2": Registers(
        lanes=8,
        count=16,
        parts=2,
        scratch=2,  # the mask that widens data, and a product
        dot_cycles=1.0,
        data_cycles=0.5,
        loads_per_cycle=1.8,
        dot_latency=2.0,
        unroll=1,
    ),
}

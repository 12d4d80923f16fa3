"""What an aarch64 core holds that decides about the way through its code: general registers, flags, what was stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

# Made-up addresses are this far apart: no two arrays overlap, and their low halves are zero.
ADDRESS_STEP = 1 << 40


@dataclass(slots=True)
class State:
    """General registers, flags and what was stored.

    Attributes:
        registers: x0 to x30, the stack pointer, zero.
        left, right: what was compared last; the flags are those of their difference, as signed and unsigned numbers of
            `bits`.
        memory: by address, integers of 4 or 8 bytes.
        decisions: numbers that conditions are about, in order: what changes sign or becomes zero changes a decision.
    """

    registers: list[int] = field(default_factory=lambda: [0] * 33)
    left: int = 0
    right: int = 0
    bits: int = 64
    memory: dict[int, int] = field(default_factory=dict)
    decisions: list[int] = field(default_factory=list)
    addresses: int = 1

    def new_address(self) -> int:
        self.addresses += 1
        return self.addresses * ADDRESS_STEP

    def load(self, address: int, size: int) -> int:
        if address not in self.memory:
            if size < 8:
                return 0
            self.memory[address] = self.new_address()
        return self.memory[address] & ((1 << 8 * size) - 1)

    def holds(self, condition: str) -> bool:
        """Whether a condition holds of the flags; what decides it is noted."""
        signed = to_signed(self.left, self.bits) - to_signed(self.right, self.bits)
        unsigned = self.left - self.right
        difference = unsigned if condition in ("hs", "lo", "hi", "ls", "cs", "cc") else signed
        self.decisions.append(difference)
        return _CONDITIONS[condition](difference)

    def note_steps(self, rest: int, size: int) -> None:
        """A result goes on as before until what is cut off from it reaches the size of a step, or falls below zero."""
        self.decisions += [size - rest, rest + 1]


# Of the difference of what was compared; overflow is of no use to a loop.
_CONDITIONS: dict[str, Callable[[int], bool]] = {
    "eq": lambda d: d == 0,
    "ne": lambda d: d != 0,
    "hs": lambda d: d >= 0,
    "cs": lambda d: d >= 0,
    "lo": lambda d: d < 0,
    "cc": lambda d: d < 0,
    "mi": lambda d: d < 0,
    "pl": lambda d: d >= 0,
    "hi": lambda d: d > 0,
    "ls": lambda d: d <= 0,
    "ge": lambda d: d >= 0,
    "lt": lambda d: d < 0,
    "gt": lambda d: d > 0,
    "le": lambda d: d <= 0,
    "vs": lambda _: False,
    "vc": lambda _: True,
    "al": lambda _: True,
    "nv": lambda _: True,
}


def to_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value

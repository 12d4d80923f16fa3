"""How often a kernel goes from each block of its code to each other one.

The code is walked with numbers in the general registers. Where two turns of a loop in succession changed all of them by
the same amounts and went the same way, so will all further turns until a number that decides about the way changes its
sign: they are added up and not walked. Loops around loops are treated alike, so a walk takes some turns of each loop.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from int8tune.rpc.errors import EstimateError
from int8tune.rpc.mca.disassembly import Code, Instruction
from int8tune.rpc.mca.scalar import MASK, SP, Effect, effect_of, register_of, split_operands
from int8tune.rpc.mca.state import State, to_signed

MAX_BLOCKS = 3_000_000
STACK = 1 << 62
# Where the function that was called first returns to; what is behind the last instruction.
OUTSIDE, NOWHERE = -1, -2
# Turns of a loop that nothing decides about, or what moves away from a decision.
FOR_EVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that run one after the other.

    Attributes:
        end: the branch at its end, if there is one.
        following: the block behind it.
    """

    instructions: tuple[Instruction, ...]
    effects: tuple[Effect, ...]
    end: Instruction | None
    following: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Attributes:
    blocks: by the address of their first instruction.
    edges: how often one block came behind another; the first one came behind `OUTSIDE`.
    calls: of functions outside of the code, whose time is not known.
    """

    blocks: Mapping[int, Block]
    edges: Mapping[tuple[int, int], int]
    calls: int


def walk(code: Code, entry: int, limit_s: float) -> Walk:
    """Walk from a function's first instruction to its end.

    Raises:
        EstimateError: the code is left otherwise than by its end, or the way takes too long.
    """
    walker = _Walker(_blocks_of(code.instructions), time.monotonic() + limit_s)
    return walker.run(entry)


def _blocks_of(instructions: Sequence[Instruction]) -> dict[int, Block]:
    starts = {instructions[0].address}
    for index, instruction in enumerate(instructions):
        if instruction.target is not None and instruction.mnemonic not in ("adr", "adrp"):
            starts.add(instruction.target)
        if _branches(instruction) and index + 1 < len(instructions):
            starts.add(instructions[index + 1].address)
    blocks: dict[int, Block] = {}
    collected: list[Instruction] = []
    for index, instruction in enumerate(instructions):
        collected.append(instruction)
        following = instructions[index + 1].address if index + 1 < len(instructions) else NOWHERE
        if _branches(instruction) or following in starts or following == NOWHERE:
            blocks[collected[0].address] = _block(tuple(collected), following)
            collected = []
    return blocks


def _branches(instruction: Instruction) -> bool:
    name = instruction.mnemonic
    return name in ("b", "bl", "br", "blr", "ret", "cbz", "cbnz", "tbz", "tbnz") or name.startswith("b.")


def _block(instructions: tuple[Instruction, ...], following: int) -> Block:
    end = instructions[-1] if _branches(instructions[-1]) else None
    inner = instructions[:-1] if end else instructions
    effects = (effect_of(instruction.mnemonic, instruction.operands) for instruction in inner)
    return Block(instructions, tuple(effect for effect in effects if effect), end, following)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What was known when a loop's first block was reached again."""

    registers: list[int]
    memory: dict[int, int]
    edges: Counter[tuple[int, int]]
    calls: int
    decisions: int


class _Walker:
    def __init__(self, blocks: dict[int, Block], deadline: float) -> None:
        self._blocks = blocks
        self._deadline = deadline
        self._state = State()
        self._state.registers[SP] = STACK
        self._edges: Counter[tuple[int, int]] = Counter()
        self._returns: list[int] = []
        self._turns: dict[int, list[_Turn]] = {}
        self._calls = 0

    def run(self, entry: int) -> Walk:
        for register in range(8):
            self._state.registers[register] = self._state.new_address()
        last, at, walked = OUTSIDE, entry, 0
        while at != OUTSIDE:
            block = self._blocks.get(at)
            if block is None:
                raise EstimateError("the code goes to where no instruction is" + (f": {at:#x}" if at >= 0 else ""))
            if 0 <= at <= last:
                self._turn(at)
            elif at in self._turns:
                del self._turns[at]
            self._edges[last, at] += 1
            for effect in block.effects:
                effect(self._state)
            last, at = at, self._next(block)
            walked += 1
            if walked > MAX_BLOCKS or (walked % 1024 == 0 and time.monotonic() > self._deadline):
                raise EstimateError(f"the way through the code is too long to follow: over {walked} blocks")
        return Walk(self._blocks, dict(self._edges), self._calls)

    def _next(self, block: Block) -> int:
        end = block.end
        if end is None:
            return block.following
        name = end.mnemonic
        if name in ("ret", "br"):
            return self._returns.pop() if self._returns else OUTSIDE
        if name == "blr" or (name in ("bl", "b") and end.target not in self._blocks):
            self._call_outside()
            return block.following if name != "b" else self._returns.pop() if self._returns else OUTSIDE
        if name == "bl":
            self._returns.append(block.following)
        taken = name in ("b", "bl") or self._takes(name, split_operands(end.operands))
        target = end.target if end.target is not None else NOWHERE
        if target == end.address and name == "bl":  # of an object that is not linked: it does not know the function
            self._returns.pop()
            self._call_outside()
            return block.following
        return target if taken else block.following

    def _call_outside(self) -> None:
        self._calls += 1
        # An address where one is wanted, zero to who looks at 32 bits of it.
        self._state.registers[0] = self._state.new_address()

    def _takes(self, name: str, operands: Sequence[str]) -> bool:
        state = self._state
        if name.startswith("b."):
            return state.holds(name[2:])
        found = register_of(operands[0])
        number, bits = found or (32, 64)
        value = state.registers[number] & ((1 << bits) - 1)
        if name in ("cbz", "cbnz"):
            state.decisions.append(to_signed(value, bits))
            return (value == 0) == (name == "cbz")
        bit = int(operands[1].lstrip("#"), 0)
        if bit == bits - 1:
            state.decisions.append(to_signed(value, bits))
        else:
            state.note_steps(value & ((1 << bit) - 1), 1 << bit)
        return bool(value >> bit & 1) == (name == "tbnz")

    def _turn(self, at: int) -> None:
        """A block is reached again from behind: skip further turns where the last two were alike."""
        state = self._state
        now = _Turn(list(state.registers), dict(state.memory), self._edges.copy(), self._calls, len(state.decisions))
        turns = self._turns.setdefault(at, [])
        turns.append(now)
        if len(turns) < 3:
            return
        first, second, third = turns[-3:]
        del turns[:-2]
        count = self._alike(first, second, third)
        if count < 1:
            return
        for number, (old, new) in enumerate(zip(second.registers, third.registers, strict=True)):
            state.registers[number] = (new + count * (new - old)) & MASK
        for address, new in third.memory.items():
            state.memory[address] = (new + count * (new - second.memory.get(address, new))) & MASK
        for edge, new_count in third.edges.items():
            self._edges[edge] = new_count + count * (new_count - second.edges.get(edge, 0))
        self._calls += count * (third.calls - second.calls)
        turns.clear()

    def _alike(self, first: _Turn, second: _Turn, third: _Turn) -> int:
        """How many further turns are like the last two; none where these are not alike."""
        decisions = self._state.decisions
        before, after = decisions[first.decisions : second.decisions], decisions[second.decisions : third.decisions]
        if len(before) != len(after) or not _same_changes(first.registers, second.registers, third.registers):
            return 0
        cells = (
            [turn.memory.get(address, value) for address, value in third.memory.items()]
            for turn in (first, second, third)
        )
        if not _same_changes(*cells) or _difference(first, second) != _difference(second, third):
            return 0
        left = min((_turns_left(old, new) for old, new in zip(before, after, strict=True)), default=FOR_EVER)
        if left >= FOR_EVER:
            raise EstimateError("the code has a loop that does not end")
        return left


def _same_changes(first: Sequence[int], second: Sequence[int], third: Sequence[int]) -> bool:
    return all((b - a - c + b) & MASK == 0 for a, b, c in zip(first, second, third, strict=True))


def _difference(old: _Turn, new: _Turn) -> dict[tuple[int, int], int]:
    return {edge: count - old.edges[edge] for edge, count in new.edges.items() if count != old.edges[edge]}


def _turns_left(old: int, new: int) -> int:
    """Turns for which a number that changes as it did keeps its sign and is not zero; many where it stays."""
    change = new - old
    if change == 0 or ((new > 0) == (change > 0) and new != 0):
        return FOR_EVER
    return max(0, (abs(new) - 1) // abs(change) - 1) if new else 0

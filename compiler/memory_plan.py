"""Where a program's values lie: in its inputs and outputs, in constants, or in one block of memory for all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import DTYPES, Graph, Value
from int8tune.compiler.program import Array, Call, Program

# Kernels take their arguments to begin with a cache line.
LINE_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Where the values between a program's inputs and outputs are.

    Attributes:
        sources: of a value that is another one, or a constant, in another shape: that one.
        offsets: bytes from the begin of the block of memory, by the names of values that lie there.
        outputs: the number of the output that a value is written to, by its name.
        copies: outputs by number that are written to at the end, and what they are copies of.
        size_bytes: of the block of memory.
    """

    sources: dict[str, str | Array]
    offsets: dict[str, int]
    outputs: dict[str, int]
    copies: tuple[tuple[int, str | Array], ...]
    size_bytes: int

    def source_of(self, name: str) -> str | Array:
        """The value whose memory one has."""
        found: str | Array = name
        while isinstance(found, str) and found in self.sources:
            found = self.sources[found]
        return found


def memory_plan(program: Program) -> MemoryPlan:
    graph = program.graph
    sources = {call.outputs[0]: call.arguments[0] for call in program.calls if not call.kernel}
    plan = MemoryPlan(sources, {}, {}, (), 0)
    made = {name for call in program.calls if call.kernel for name in call.outputs}
    copies = list[tuple[int, str | Array]]()
    for index, name in enumerate(graph.needed):
        constant = graph.values[name].constant
        source = plan.source_of(name) if constant is None else np.asarray(constant, order="C")
        if isinstance(source, str) and source in made and source not in plan.outputs:
            plan.outputs[source] = index
        else:
            copies.append((index, source))
    calls = [call for call in program.calls if call.kernel]
    offsets, size_bytes = _placed(graph, calls, plan)
    return MemoryPlan(sources, offsets, plan.outputs, tuple(copies), size_bytes)


def _placed(graph: Graph, calls: Sequence[Call], plan: MemoryPlan) -> tuple[dict[str, int], int]:
    """Offsets of values that are neither outputs nor inputs, and the bytes that they need at once."""
    last: dict[str, int] = {}
    for index, call in enumerate(calls):
        used = [plan.source_of(each) for each in (*call.arguments, *call.outputs) if isinstance(each, str)]
        last.update((name, index) for name in used if isinstance(name, str))
    ends: dict[int, list[str]] = {}
    for name, index in last.items():
        ends.setdefault(index, []).append(name)
    block, offsets = _Block(), dict[str, int]()
    for index, call in enumerate(calls):
        for name in call.outputs:
            if name not in plan.outputs:
                offsets[name] = block.take(bytes_of(graph.values[name]))
        for name in ends.get(index, ()):
            if name in offsets:
                block.free(offsets[name], bytes_of(graph.values[name]))
    return offsets, block.size_bytes


def bytes_of(value: Value) -> int:
    """The memory of a value: whole cache lines, and at least one."""
    size = math.prod(value.shape) * np.dtype(DTYPES[value.type]).itemsize
    return max(-(-size // LINE_BYTES), 1) * LINE_BYTES


class _Block:
    """Memory of which parts are taken and freed."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """The begin of the smallest free part that is large enough; the block grows where there is none."""
        fitting = [(end - begin, begin, end) for begin, end in self._free if end - begin >= size]
        if fitting:
            _, begin, end = min(fitting)
            self._free.remove((begin, end))
            if begin + size < end:
                self._free.append((begin + size, end))
            return begin
        # A free part at the end becomes longer.
        begin = next((begin for begin, end in self._free if end == self.size_bytes), self.size_bytes)
        self._free = [part for part in self._free if part[0] != begin]
        self.size_bytes = begin + size
        return begin

    def free(self, begin: int, size: int) -> None:
        end = begin + size
        for part in [part for part in self._free if begin in part or end in part]:
            self._free.remove(part)
            begin, end = min(begin, part[0]), max(end, part[1])
        self._free.append((begin, end))

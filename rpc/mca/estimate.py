"""The cycles of a kernel in a shared library, as LLVM models a core.

A model knows no caches and no other instructions than those of the kernel: an estimate is for ranking, and is never
mixed with measured times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.errors import EstimateError
from int8tune.rpc.mca.cycles import cycles_of
from int8tune.rpc.mca.disassembly import UNKNOWN, Code, disassemble
from int8tune.rpc.mca.tools import llvm_version, tool
from int8tune.rpc.mca.walk import OUTSIDE, Block, Walk, walk

ENTRY_SYMBOL = "__tvm_ffi_main"
# Turns of a loop of one block that llvm-mca sees, to tell what a further one takes.
TURNS = 3


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one call of a kernel is estimated to take.

    Attributes:
        instructions: that are executed.
        outside_calls: of functions outside of the kernel, which are not part of the cycles.
    """

    cycles: float
    instructions: int
    outside_calls: int


def estimate_cycles(library: Path, cpu: str, symbol: str = ENTRY_SYMBOL, limit_s: float = 60.0) -> Estimate:
    """The estimated cycles of one call of a function in a library.

    Raises:
        EstimateError: a tool of LLVM is missing or failed, or the code is none that can be followed.
    """
    code = disassemble(library, limit_s)
    if symbol not in code.symbols:
        raise EstimateError(f"the library has no function `{symbol}`")
    return _sum_up(walk(code, code.symbols[symbol], limit_s), cpu, limit_s)


def model_name(cpu: str) -> str:
    """What estimates come from, as records have it.

    Raises:
        EstimateError: a tool of LLVM is missing.
    """
    tool("llvm-objdump")
    return f"llvm-mca of LLVM {llvm_version(tool('llvm-mca'))} for {cpu}"


def block_counts(code: Code, symbol: str, limit_s: float = 60.0) -> dict[int, int]:
    """How often each block of a function runs, by the address of its first instruction.

    Raises:
        EstimateError: the code is none that can be followed.
    """
    counts: dict[int, int] = {}
    for (_, block), count in walk(code, code.symbols[symbol], limit_s).edges.items():
        counts[block] = counts.get(block, 0) + count
    return counts


def _sum_up(walked: Walk, cpu: str, limit_s: float) -> Estimate:
    cycles = cycles_of_blocks(walked, cpu, limit_s)
    instructions = sum(count * len(walked.blocks[block].instructions) for (_, block), count in walked.edges.items())
    return Estimate(float(sum(cycles.values())), instructions, walked.calls)


def cycles_of_blocks(walked: Walk, cpu: str, limit_s: float) -> dict[int, int]:
    """What all runs of each block cost, by its address.

    A block costs what it adds to the cycles of the one before it, or to those of its own earlier turns.

    Raises:
        EstimateError: llvm-mca is missing or failed, or an instruction is unknown.
    """
    regions: dict[str, list[str]] = {}

    def region(*starts: int) -> str:
        name = "_".join(f"{start:x}" for start in starts)
        regions[name] = [line for start in starts for line in _texts(walked.blocks[start])]
        return name

    costs: list[tuple[int, int, str, str | None]] = []
    for (before, block), count in walked.edges.items():
        if before == block:
            costs.append((block, count, region(*[block] * TURNS), region(*[block] * (TURNS - 1))))
        elif before == OUTSIDE:
            costs.append((block, count, region(block), None))
        else:
            costs.append((block, count, region(before, block), region(before)))
    cycles = cycles_of(regions, cpu, limit_s)
    found: dict[int, int] = {}
    for block, count, both, first in costs:
        found[block] = found.get(block, 0) + count * (cycles[both] - (cycles[first] if first else 0))
    return found


def _texts(block: Block) -> list[str]:
    for instruction in block.instructions:
        if instruction.mnemonic == UNKNOWN:
            raise EstimateError(f"llvm-objdump does not know the instruction at {instruction.address:#x}")
    return [instruction.text for instruction in block.instructions]

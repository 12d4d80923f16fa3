"""The instructions of a shared library for aarch64, by llvm-objdump."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.errors import EstimateError
from int8tune.rpc.mca.tools import run_tool

# A kernel has some thousand instructions.
MAX_INSTRUCTIONS = 200_000
# What kernels may use beyond the first version of the architecture.
FEATURES = "+dotprod"
UNKNOWN = "<unknown>"
_LINE = re.compile(rf"^\s*([0-9a-f]+):\s+([a-z][a-z0-9.]*|{UNKNOWN})(?:\s+(.*))?$")
_SYMBOL = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_TARGET = re.compile(r"(?:^|, )(?:0x)?([0-9a-f]+) <[^>]*>$")
BRANCHES = frozenset({"b", "bl", "cbz", "cbnz", "tbz", "tbnz"})


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        operands: as text, without aliases.
        target: the address that a branch may go to.
    """

    address: int
    mnemonic: str
    operands: str
    target: int | None

    @property
    def text(self) -> str:
        """As an assembler reads it, wherever it branches to."""
        operands = self.operands
        if self.target is not None:
            operands = _TARGET.sub(lambda match: (", " if match[0].startswith(", ") else "") + "#0", operands)
        return f"{self.mnemonic}\t{operands}"


@dataclass(frozen=True, slots=True)
class Code:
    """All instructions in order of their addresses, and where functions begin."""

    instructions: tuple[Instruction, ...]
    symbols: dict[str, int]


def disassemble(library: Path, limit_s: float) -> Code:
    """The code of a library.

    Raises:
        EstimateError: there is no llvm-objdump, or it can't read the file, or the code is too long.
    """
    command = ["--disassemble", "--no-show-raw-insn", f"--mattr={FEATURES}", "-M", "no-aliases", str(library)]
    return parse_disassembly(run_tool("llvm-objdump", command, "", limit_s))


def parse_disassembly(text: str) -> Code:
    """What llvm-objdump prints.

    Raises:
        EstimateError: it has no instructions, or too many.
    """
    instructions: list[Instruction] = []
    symbols: dict[str, int] = {}
    highest = -1
    for line in text.splitlines():
        if match := _LINE.match(line):
            if int(match[1], 16) <= highest:
                break  # sections of an object that is not linked all begin at 0: kernels are in the first one
            highest = int(match[1], 16)
            operands = (match[3] or "").strip()
            instructions.append(Instruction(int(match[1], 16), match[2], operands, _target(match[2], operands)))
        elif match := _SYMBOL.match(line):
            symbols.setdefault(match[2], int(match[1], 16))
        if len(instructions) > MAX_INSTRUCTIONS:
            raise EstimateError(f"the code has more than {MAX_INSTRUCTIONS} instructions")
    if not instructions:
        raise EstimateError("the library has no code that llvm-objdump can read")
    return Code(tuple(instructions), symbols)


def _target(mnemonic: str, operands: str) -> int | None:
    is_branch = mnemonic in BRANCHES or mnemonic.startswith("b.") or mnemonic in ("adr", "adrp")
    match = _TARGET.search(operands) if is_branch else None
    return int(match[1], 16) if match else None

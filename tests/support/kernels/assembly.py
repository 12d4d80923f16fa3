"""Assembly in a form that two versions of a kernel can be compared in: what LLVM writes, or NVIDIA's listings.

A code is a list of lines: labels, which end in a colon, instructions, and the data that these read. Of a loop, labels,
constants, places on the stack and registers are numbered in the order in which they appear there, so that a loop stays
as it is where only code around it changed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

_SECTION = re.compile(r"\.section\s+(\S+?)(,|$)|\.(text|data|bss)\b")
# What says nothing of the code: where it came from, how a debugger or an unwinder reads it.
_SILENT = re.compile(r"\.(loc|cfi_\w+|file|ident|type|size|addrsig\w*)\b")
_LABEL = re.compile(r"(?<![\w.])(?:\.L[\w.$]+|[LC]\d+\b)")
_SASS_FUNCTION = re.compile(r"\s*Function : (\w+)")
_SASS_LINE = re.compile(r"\s*/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;")
_SASS_TARGET = re.compile(r"(?<=\s)0x[0-9a-f]+$")
_SASS_JUMP = re.compile(r"^(@!?U?P\w+ )?(BRA|BSSY|CALL|JMP|WARPSYNC\.COLLECTIVE)\b")
_PREFIX = re.compile(r"^(\{\w+\}|@!?U?P\w+) ")


@dataclass(frozen=True, slots=True)
class Isa:
    """How the instructions of a family of processors are read.

    Attributes:
        products: the names of instructions that multiply values of 8 or 16 bits, or sums of these.
        loads, stores: whether an instruction reads or writes memory.
        stack: a place on the stack among its operands.
        renumber: loops with registers in the order of their appearance.
    """

    products: re.Pattern[str]
    loads: Callable[[str], bool]
    stores: Callable[[str], bool]
    stack: re.Pattern[str]
    renumber: Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of a loop's instructions do what."""

    instructions: int
    products: int
    loads: int
    stores: int
    stack_loads: int
    stack_stores: int

    def __str__(self) -> str:
        stack = f"on the stack {self.stack_loads} loads, {self.stack_stores} stores"
        whole = f"{self.instructions} instructions, {self.products} products, {self.loads} loads, {self.stores} stores"
        return f"{whole}; {stack}"


def name_of(line: str) -> str:
    """The name of a line's instruction; that of a label or a directive as it is."""
    return _PREFIX.sub("", line).partition(" ")[0]


def is_instruction(line: str) -> bool:
    return not line.endswith(":") and not line.startswith(".")


def digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def llvm_code(text: str) -> list[str]:
    """The code of an assembly file by LLVM, its labels and constants numbered."""
    lines, silent = [], False
    for line in (" ".join(written.split()) for written in text.splitlines()):
        if section := _SECTION.match(line):
            silent = (section[1] or "").strip('"').startswith((".debug", ".note"))
        if line and not silent and not _SILENT.match(line):
            lines.append(line)
    used = {label for line in lines if not line.endswith(":") for label in _LABEL.findall(line)}
    return _with_numbered_labels([line for line in lines if not line.startswith(".L") or line[:-1] in used])


def sass_code(listing: str) -> list[str]:
    """The code of `cuobjdump -sass`, without addresses and what fills its end."""
    functions: list[tuple[str, list[tuple[int, str]]]] = []
    for line in listing.splitlines():
        if begins := _SASS_FUNCTION.match(line):
            functions.append((begins[1], []))
        elif found := _SASS_LINE.match(line):
            functions[-1][1].append((int(found[1], 16), found[2]))
    lines = [line for name, instructions in functions for line in _sass_function(name, instructions)]
    return _with_numbered_labels(lines)


def _sass_function(name: str, instructions: Sequence[tuple[int, str]]) -> list[str]:
    targets = {int(found[0], 16) for _, text in instructions if (found := _jump_target(text))}
    lines = [f"{name}:"]
    for address, text in instructions:
        lines += [f".L{name}.{address}:"] * (address in targets)
        found = _jump_target(text)
        lines.append(text[: found.start()] + f".L{name}.{int(found[0], 16)}" if found else text)
    while lines[-1] == "NOP":
        lines.pop()
    return lines


def _jump_target(text: str) -> re.Match[str] | None:
    return _SASS_TARGET.search(text) if _SASS_JUMP.match(text) else None


def _with_numbered_labels(lines: Sequence[str]) -> list[str]:
    """Lines whose labels are L0, L1, ..., and constants C0, C1, ..., in the order of their appearance."""
    labels, constants = dict[str, str](), dict[str, str]()

    def numbered(found: re.Match[str]) -> str:
        names, letter = (constants, "C") if _is_constant(found[0]) else (labels, "L")
        return names.setdefault(found[0], f"{letter}{len(names)}")

    return [_LABEL.sub(numbered, line) for line in lines]


def innermost_loop(lines: Sequence[str], isa: Isa) -> Sequence[str]:
    """The loop with most products of those that have no other one with products inside; the first, if several have.

    Where no loop has any, the longest piece without jumps that has most.
    """
    places = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":") and not _is_constant(line)}
    ends: dict[int, int] = {}
    for at, line in enumerate(lines):
        for label in _LABEL.findall(line):
            if is_instruction(line) and places.get(label, at) < at:
                ends[places[label]] = at

    def products(place: tuple[int, int]) -> int:
        return sum(is_product(line, isa) for line in lines[place[0] : place[1] + 1])

    loops = [place for place in ends.items() if products(place)]
    innermost = [
        (begin, end)
        for begin, end in loops
        if not any(begin <= a and b <= end and (a, b) != (begin, end) for a, b in loops)
    ]
    begin, end = max(innermost or _pieces(lines), key=products)
    return lines[begin : end + 1]


def _pieces(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where the pieces of the code begin and end that have no label and no jump inside."""
    borders = [at for at, line in enumerate(lines) if not is_instruction(line) or _LABEL.search(line)]
    return [(a + 1, b - 1) for a, b in zip([-1, *borders], [*borders, len(lines)], strict=True) if a + 1 < b]


def is_product(line: str, isa: Isa) -> bool:
    return is_instruction(line) and isa.products.match(name_of(line)) is not None


def counts_of(loop: Sequence[str], isa: Isa) -> Counts:
    """What a loop consists of, as the code has it."""
    instructions = [line for line in loop if is_instruction(line)]
    loads = [line for line in instructions if isa.loads(line)]
    stores = [line for line in instructions if isa.stores(line)]
    return Counts(
        len(instructions),
        sum(is_product(line, isa) for line in instructions),
        len(loads),
        len(stores),
        sum(isa.stack.search(line) is not None for line in loads),
        sum(isa.stack.search(line) is not None for line in stores),
    )


def readable_loop(loop: Sequence[str], isa: Isa) -> list[str]:
    """A loop whose names are those of its own: `out` is any place outside."""
    kept = [line for line in loop if not line.startswith(".")]
    inside = {line[:-1] for line in kept if line.endswith(":")}

    def named_within(found: re.Match[str]) -> str:
        return found[0] if found[0] in inside or _is_constant(found[0]) else "out"

    within = [_LABEL.sub(named_within, line) for line in kept]
    named = _with_numbered_labels(_with_numbered_places(within, isa))
    return [line if line.endswith(":") else f" {line}" for line in isa.renumber(named)]


def _is_constant(label: str) -> bool:
    return label.startswith((".LCPI", "C"))


def _with_numbered_places(lines: Sequence[str], isa: Isa) -> list[str]:
    """Lines whose places on the stack are `[stack+0]`, `[stack+1]`, ..., in the order of their appearance."""
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        index = found.groupdict().get("index") or ""
        return f"[stack+{places.setdefault(found['place'], len(places))}{index}]"

    return [isa.stack.sub(numbered, line) if "place" in isa.stack.groupindex else line for line in lines]


def memory_operands(line: str) -> list[bool]:
    """Which operands of an instruction in AT&T's form are in memory."""
    text = _PREFIX.sub("", line).partition(" ")[2]
    depth, operands = 0, [""]
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            operands.append("")
        else:
            operands[-1] += letter
    return ["(" in operand or "[stack" in operand for operand in takewhile(bool, operands)]

"""The instructions of x86, ARM and NVIDIA's GPUs, as `tests/support/kernels/assembly.py` reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tests.support.kernels.assembly import Isa, memory_operands, name_of

# What has an operand in memory and neither loads nor stores a value, and what only reads its last operand.
_X86_NO_LOAD = re.compile(r"^(lea|prefetch|nop|ldtilecfg)")
_X86_ONLY_READS = re.compile(r"^(v?u?comis|cmp|test|bt|call|jmp|push)")
_X86_VECTOR = re.compile(r"%([xyz]mm)(\d+)")
_X86_GENERAL = {
    **{
        name: (letter, size)
        for letter in "abcd"
        for name, size in ((f"r{letter}x", ""), (f"e{letter}x", "d"), (f"{letter}x", "w"), (f"{letter}l", "b"))
    },
    **{
        name: (pair, size)
        for pair in ("si", "di", "bp")
        for name, size in ((f"r{pair}", ""), (f"e{pair}", "d"), (pair, "w"), (f"{pair}l", "b"))
    },
    **{f"r{number}{size}": (f"r{number}", size) for number in range(8, 16) for size in ("", "d", "w", "b")},
}
_X86_GENERAL_NAME = re.compile(r"%(r1?\d[dwb]?|[re]?[abcd]x|[re]?(?:si|di|bp)|[abcd]l|(?:si|di|bp)l)\b")
_ARM_VECTOR = re.compile(r"\b([vqdshb])(\d+)(?=\.|\b)")
_ARM_GENERAL = re.compile(r"\b([xw])(\d+)\b")


def _x86_loads(line: str) -> bool:
    if _X86_NO_LOAD.match(name_of(line)):
        return False
    inside = memory_operands(line)
    return any(inside[:-1]) or (inside[-1:] == [True] and _X86_ONLY_READS.match(name_of(line)) is not None)


def _x86_stores(line: str) -> bool:
    unlike = _X86_NO_LOAD.match(name_of(line)) or _X86_ONLY_READS.match(name_of(line))
    return memory_operands(line)[-1:] == [True] and not unlike


def _renumbered(lines: Sequence[str], pattern: re.Pattern[str], name: Callable[[re.Match[str], int], str]) -> list[str]:
    """Lines with what a pattern finds named by its place in the order of appearance of its second group."""
    order: dict[str, int] = {}
    return [pattern.sub(lambda found: name(found, order.setdefault(found[2], len(order))), line) for line in lines]


def _renumber_x86(lines: Sequence[str]) -> list[str]:
    order: dict[str, int] = {}

    def general(found: re.Match[str]) -> str:
        register, size = _X86_GENERAL[found[1]]
        return f"%r{order.setdefault(register, len(order))}{size}"

    named = [_X86_GENERAL_NAME.sub(general, line) for line in lines]
    return _renumbered(named, _X86_VECTOR, lambda found, at: f"%{found[1]}{at}")


def _renumber_arm(lines: Sequence[str]) -> list[str]:
    named = _renumbered(lines, _ARM_VECTOR, lambda found, at: f"{found[1]}{at}")
    return _renumbered(named, _ARM_GENERAL, lambda found, at: f"{found[1]}{at}")


def _named(*beginnings: str) -> Callable[[str], bool]:
    return lambda line: name_of(line).startswith(beginnings)


X86 = Isa(
    products=re.compile(r"vpdp|vpmadd|vpmull|pmadd|pmull|tdp"),
    loads=_x86_loads,
    stores=_x86_stores,
    # Functions with vectors on the stack keep its aligned end in rbp or below rsp.
    stack=re.compile(r"(?P<place>-?\d*)\(%rsp(?P<index>,[^)]*)?\)"),
    renumber=_renumber_x86,
)
ARM = Isa(
    products=re.compile(r"[su]dot|[su]ml[as]l?2?$|[su]mull2?$|ml[as]$|mul$"),
    loads=_named("ld"),
    stores=_named("st"),
    stack=re.compile(r"\[sp(?:, (?P<place>#-?\d+))?(?P<index>, [xw]\d+[^\]]*)?\]"),
    renumber=_renumber_arm,
)
# Registers keep their numbers: an instruction names the first one of several.
CUDA = Isa(
    products=re.compile(r"IMMA|IGMMA|IDP"),
    loads=_named("LD"),
    stores=_named("ST"),
    stack=re.compile(r"^(@!?U?P\w+ )?(LDL|STL)\b"),
    renumber=list,
)

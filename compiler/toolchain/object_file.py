"""Object files (ELF, 64 bits) that hold bytes under a name: what an assembler's `.incbin` would make."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

MACHINES = {"x86_64": 62, "aarch64": 183}
"""The field `e_machine` of ELF's header."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_ALLOCATED = 2
_GLOBAL_OBJECT = 1 << 4 | 1
_ALIGNMENT = 64
_NAMES = ("", ".rodata", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack")


def data_object(symbol: str, data: bytes) -> bytes:
    """The file for x86-64, with one global symbol at the first byte."""
    head, tail = _around(symbol, len(data), "x86_64")
    return head + data + tail


def write_data_object(path: Path, symbol: str, data: Sequence[bytes | memoryview], architecture: str) -> None:
    """Write the file for an architecture of `MACHINES`; the parts of `data`, most of a model, are not copied."""
    head, tail = _around(symbol, sum(map(len, data)), architecture)
    with path.open("wb") as file:
        for part in (head, *data, tail):
            file.write(part)


def _around(symbol: str, size: int, architecture: str) -> tuple[bytes, bytes]:
    """What stands before and behind so many bytes."""
    names = b"".join(name.encode() + b"\0" for name in _NAMES)
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + _SYMBOL.pack(1, _GLOBAL_OBJECT, 0, 1, 0, size)
    # Size, type, flags, section of the names, first global symbol, size of an entry. The last one, which is empty, says
    # that the stack need not be executable.
    contents = (symbols, strings, names, b"")
    sections = (
        (size, _PROGBITS, _ALLOCATED, 0, 0, 0),
        (len(symbols), _SYMTAB, 0, 3, 1, _SYMBOL.size),
        (len(strings), _STRTAB, 0, 0, 0, 0),
        (len(names), _STRTAB, 0, 0, 0, 0),
        (0, _PROGBITS, 0, 0, 0, 0),
    )
    place, headers = _ALIGNMENT, [_SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    for name, (length, kind, flags, link, info, entry) in zip(_NAMES[1:], sections, strict=True):
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(_SECTION.pack(at, kind, flags, 0, place, length, link, info, _ALIGNMENT, entry))
        place += length + -length % _ALIGNMENT
    magic, count = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9), len(headers)
    header = _HEADER.pack(
        magic, _RELOCATABLE, MACHINES[architecture], 1, 0, 0, place, 0, _HEADER.size, 0, 0, _SECTION.size, count, 4
    )
    rest = b"".join(each + bytes(-len(each) % _ALIGNMENT) for each in contents)
    return header, bytes(-size % _ALIGNMENT) + rest + b"".join(headers)

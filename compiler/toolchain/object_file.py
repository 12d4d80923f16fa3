"""An object file (ELF, 64 bits, x86-64) that holds bytes under a name: what an assembler's `.incbin` would make."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_ALLOCATED = 2
_GLOBAL_OBJECT = 1 << 4 | 1
_ALIGNMENT = 64
_NAMES = ("", ".rodata", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack")


def data_object(symbol: str, data: bytes) -> bytes:
    """The file, with one global symbol at the first byte."""
    names = b"".join(name.encode() + b"\0" for name in _NAMES)
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + _SYMBOL.pack(1, _GLOBAL_OBJECT, 0, 1, 0, len(data))
    # Contents, type, flags, section of the names, first global symbol, size of an entry. The last one, which is empty,
    # says that the stack need not be executable.
    sections = (
        (data, _PROGBITS, _ALLOCATED, 0, 0, 0),
        (symbols, _SYMTAB, 0, 3, 1, _SYMBOL.size),
        (strings, _STRTAB, 0, 0, 0, 0),
        (names, _STRTAB, 0, 0, 0, 0),
        (b"", _PROGBITS, 0, 0, 0, 0),
    )
    body, headers = bytearray(), [_SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    body += bytes(_ALIGNMENT)  # where the header goes
    for name, (content, kind, flags, link, info, entry) in zip(_NAMES[1:], sections, strict=True):
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(_SECTION.pack(at, kind, flags, 0, len(body), len(content), link, info, _ALIGNMENT, entry))
        body += content + bytes(-len(content) % _ALIGNMENT)
    magic = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    end, count = len(body), len(headers)
    header = _HEADER.pack(magic, _RELOCATABLE, _X86_64, 1, 0, 0, end, 0, _HEADER.size, 0, 0, _SECTION.size, count, 4)
    body[: len(header)] = header
    return bytes(body) + b"".join(headers)

"""Flatbuffers' tables that the package `tflite` does not read as LiteRT does."""

from __future__ import annotations

from typing import Any

# A table without fields, and where it begins: behind its vtable of 4 bytes.
EMPTY_TABLE = bytes([4, 0, 4, 0, 4, 0, 0, 0]), 4
# One whose second field is false, which is true by default: whether sums of 16 bits have scales of powers of two.
POWERLESS_TABLE = bytes([8, 0, 5, 0, 0, 0, 4, 0, 8, 0, 0, 0, 0]), 8


def number_at(table: Any, slot: int) -> int | None:
    """A field of 32 bits of a table; None where a file leaves it out.

    Args:
        slot: 4 and two bytes for each field before it.
    """
    if not (place := table.Offset(slot)):
        return None
    begin = table.Pos + place
    return int.from_bytes(table.Bytes[begin : begin + 4], "little", signed=True)

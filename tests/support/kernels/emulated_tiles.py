"""AMX without AMX: tile registers as memory and their instructions as loops, for any x86 CPU with AVX-512.

Kernels are the same but for `schedules.intrinsics.x86_tiles`, whose functions are replaced by those here. Every address
that a tile register is loaded from or stored to is computed by the kernel's own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics import x86_tiles

ROWS, ROW_BYTES, LANES = 16, 64, 16
# The types that a register's bytes have in a product, by those of data and weights.
_TYPES = {"u8": "uint8", "s8": "int8"}


class EmulatedTiles:
    """Registers of 16 x 64 bytes: those of sums hold int32, those of operands bytes."""

    def __init__(self) -> None:
        self._shapes: list[tuple[int, int]] = []
        self._sums: Any = None
        self._bytes: Any = None

    def configure(self, shapes: Sequence[tuple[int, int]]) -> None:
        assert len(shapes) <= 8
        assert all(0 < rows <= ROWS and 0 < row_bytes <= ROW_BYTES and row_bytes % 4 == 0 for rows, row_bytes in shapes)
        self._shapes = list(shapes)
        self._sums = T.alloc_buffer((8 * ROWS * LANES,), "int32")
        self._bytes = T.alloc_buffer((8 * ROWS * ROW_BYTES,), "int8")

    def release(self) -> None:
        self._shapes = []

    def clear(self, register: int) -> None:
        rows, _ = self._shapes[register]
        with T.serial(0, rows * LANES) as index:
            T.buffer_store(self._sums, T.int32(0), [register * ROWS * LANES + index])

    def load(self, register: int, buffer: Any, at: Any, row_bytes: Any) -> None:
        rows, used = self._shapes[register]
        if buffer.dtype == "int32":
            with T.serial(0, rows) as row, T.serial(0, used // 4) as lane:
                place = (register * ROWS + row) * LANES + lane
                T.buffer_store(self._sums, buffer[at + row * (row_bytes // 4) + lane], [place])
            return
        with T.serial(0, rows) as row, T.serial(0, used) as byte:
            value = T.reinterpret(buffer[at + row * row_bytes + byte], dtype="int8")
            T.buffer_store(self._bytes, value, [(register * ROWS + row) * ROW_BYTES + byte])

    def store(self, register: int, buffer: Any, at: Any, row_bytes: int) -> None:
        rows, used = self._shapes[register]
        with T.serial(0, rows) as row, T.serial(0, used // 4) as lane:
            value = self._sums[(register * ROWS + row) * LANES + lane]
            T.buffer_store(buffer, value, [at + row * (row_bytes // 4) + lane])

    def multiply_add(self, total: int, data: int, weight: int, types: tuple[str, str]) -> None:
        (rows, _), (data_rows, depth), (words, _) = (self._shapes[register] for register in (total, data, weight))
        assert rows == data_rows
        assert depth == words * 4

        def value(register: int, row: Any, byte: Any, kind: str) -> Any:
            loaded = self._bytes[(register * ROWS + row) * ROW_BYTES + byte]
            return T.cast(T.reinterpret(loaded, dtype=_TYPES[kind]), "int32")

        with T.serial(0, rows) as row, T.serial(0, LANES) as lane, T.serial(0, depth) as k:
            place = (total * ROWS + row) * LANES + lane
            product = value(data, row, k, types[0]) * value(weight, k // 4, lane * 4 + k % 4, types[1])
            T.buffer_store(self._sums, self._sums[place] + product, [place])


def emulate_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels that are written from now on have emulated tiles."""
    emulated = EmulatedTiles()
    for name in ("configure", "release", "clear", "load", "store", "multiply_add"):
        monkeypatch.setattr(x86_tiles, name, getattr(emulated, name))

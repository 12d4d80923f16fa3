"""AMX: matrices in tile registers, and their products.

Eight registers hold up to 16 rows of 64 bytes each. A configuration says how many rows and bytes each has; a process
needs the kernel's leave to use them (`rpc.local.tile_registers`).

Names and semantics: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.written.accumulators import ON_STACK

# The instruction for the types of data and weights.
_PRODUCTS = {("u8", "s8"): "tdpbusd", ("u8", "u8"): "tdpbuud", ("s8", "s8"): "tdpbssd", ("s8", "u8"): "tdpbsud"}
_PALETTE = 1


def configure(shapes: Sequence[tuple[int, int]]) -> None:
    """Set (rows, bytes of a row) of the first registers (LDTILECFG)."""
    rows, row_bytes = zip(*shapes, strict=True)
    left = 16 - len(shapes)
    image = struct.pack("<BB14x16H16B", _PALETTE, 0, *row_bytes, *[0] * left, *rows, *[0] * left)
    words = struct.unpack("<8q", image)
    memory = T.alloc_buffer((len(words),), "int64", annotations=ON_STACK)
    for index, word in enumerate(words):
        T.buffer_store(memory, T.int64(word), [index])
    _call("ldtilecfg", T.address_of(memory[0]))


def release() -> None:
    """Give the registers back, so that nothing has to save them (TILERELEASE)."""
    _call("tilerelease")


def clear(register: int) -> None:
    """Set a register's rows to zero (TILEZERO)."""
    _call("tilezero", T.int8(register))


def load(register: int, buffer: Any, at: Any, row_bytes: Any) -> None:
    """Load a register's rows from index `at` of a buffer on (TILELOADD)."""
    _call("tileloadd64", T.int8(register), T.address_of(buffer[at]), T.cast(row_bytes, "int64"))


def store(register: int, buffer: Any, at: Any, row_bytes: int) -> None:
    """Store a register's rows from index `at` of a buffer on (TILESTORED)."""
    _call("tilestored64", T.int8(register), T.address_of(buffer[at]), T.int64(row_bytes))


def multiply_add(total: int, data: int, weight: int, types: tuple[str, str]) -> None:
    """Add to int32 [rows, 16] the products of bytes [rows, K] and packed [K / 4, 16, 4] (TDPBUSD and its like)."""
    _call(_PRODUCTS[types], T.int8(total), T.int8(data), T.int8(weight))


def _call(name: str, *arguments: Any) -> None:
    T.evaluate(T.call_llvm_intrin("void", f"llvm.x86.{name}", *arguments))

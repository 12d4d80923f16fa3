"""Rows of bytes: filled, copied, converted, in whole vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from tvm.script.ir_builder import tirx as T

VECTOR_BYTES = 64


def flip_signs(value: Any, width: int) -> Any:
    """s8 bytes plus 128, as u8."""
    unsigned = T.reinterpret(value, dtype=_type(width))
    return T.bitwise_xor(unsigned, T.broadcast(T.uint8(128), width) if width > 1 else T.uint8(128))


def copy_row(target: Any, target_at: Any, source: Any, source_at: Any, count: int, signed: bool) -> None:
    """Copy `count` bytes; signed ones become unsigned. The last vector of a long row overlaps its neighbour."""

    def copy(offset: Any, width: int) -> None:
        value = load_bytes(source, source_at + offset, width)
        store_vector(target, target_at + offset, flip_signs(value, width) if signed else value, width)

    if count < VECTOR_BYTES:
        for offset, width in pieces(count, VECTOR_BYTES):
            copy(offset, width)
        return
    repeat(count // VECTOR_BYTES, lambda index: copy(index * VECTOR_BYTES, VECTOR_BYTES))
    if count % VECTOR_BYTES:
        copy(count - VECTOR_BYTES, VECTOR_BYTES)


def fill_row(target: Any, at: Any, value: Any, count: int) -> None:
    """Set `count` bytes to a u8 value."""

    def fill(offset: Any, width: int) -> None:
        store_vector(target, at + offset, T.broadcast(value, width) if width > 1 else value, width)

    whole = count // VECTOR_BYTES
    repeat(whole, lambda index: fill(index * VECTOR_BYTES, VECTOR_BYTES))
    for offset, width in pieces(count % VECTOR_BYTES, VECTOR_BYTES):
        fill(whole * VECTOR_BYTES + offset, width)


def load_bytes(source: Any, at: Any, width: int) -> Any:
    """`width` bytes of a buffer, of its own type."""
    return source.vload([at], f"{source.dtype}x{width}") if width > 1 else source[at]


def pieces(count: int, largest: int) -> Iterator[tuple[int, int]]:
    """(offset, width) of the powers of two, up to `largest`, that cover `count` values."""
    offset = 0
    while offset < count:
        width = min(largest, 1 << int(math.log2(count - offset)))
        yield offset, width
        offset += width


def store_vector(buffer: Any, at: Any, value: Any, width: int) -> None:
    """Store `width` values, one after the other."""
    T.buffer_store(buffer, value, [T.ramp(at, 1, width) if width > 1 else at])


def divided(index: Any, divisor: int) -> tuple[Any, Any]:
    """Quotient and remainder of an index that is not negative."""
    if isinstance(index, int):
        return divmod(index, divisor)
    # Python's operators round down, for which there is no instruction: TVM has to prove that it need not.
    return T.Bind(T.truncdiv(index, divisor)), T.Bind(T.truncmod(index, divisor))


def repeat(count: Any, body: Callable[[Any], None]) -> None:
    """Emit a loop, or its body where there is no more than one turn."""
    if not isinstance(count, int) or count > 1:
        with T.serial(0, count) as index:
            body(index)
    elif count == 1:
        body(0)


def share(count: int, threads: int, body: Callable[[Any], None]) -> None:
    """Emit a loop whose turns are shared among threads, each taking neighbours (TVM's runtime has the threads)."""
    if threads == 1 or count < 2:
        repeat(count, body)
        return
    with T.parallel(0, count) as index:
        body(index)


def _type(width: int) -> str:
    return f"uint8x{width}" if width > 1 else "uint8"

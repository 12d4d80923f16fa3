"""Arrays in `.npy` files, mapped into memory. This module loads no numpy: devices of bundles have none."""

from __future__ import annotations

import ast
import itertools
import math
import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

UNSIGNED: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""By the size of an item, how `memoryview` calls its bits as a number."""

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000
_MOST_AXES = 64
_FIELDS = {"descr", "fortran_order", "shape"}
# One byte has no order; both architectures of boards have the little end first.
_NUMBERS = re.compile(r"[|<=]([biuf])([1248])")


class CaseError(Exception):
    """A case's file is missing or holds something else than one array of numbers."""


@dataclass(frozen=True, slots=True)
class Values:
    """An array's numbers.

    Attributes:
        dtype: as numpy writes it, such as `|i1` or `<f4`.
        content: their bytes row by row, read-only, and read from disk as they are used.
    """

    dtype: str
    shape: tuple[int, ...]
    content: memoryview

    @property
    def kind(self) -> str:
        """`b`, `i`, `u` or `f`."""
        return self.dtype[1]

    @property
    def itemsize(self) -> int:
        return int(self.dtype[2])


def read_npy(path: str) -> Values:
    """The array of a file.

    Raises:
        CaseError: the file can't be read, or holds something else.
    """
    try:
        with Path(path).open("rb") as file:
            # It lives as long as something looks into it.
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise CaseError(f"case file can't be read: {path}: {error}") from error
    try:
        return _parsed(whole)
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise CaseError(f"case file must hold one array of numbers: {path}") from error


def _parsed(whole: memoryview) -> Values:
    """Raises: ValueError, or another error of what is no such file."""
    if whole[:6] != _MAGIC or len(whole) < 12:
        raise ValueError("no .npy file")
    size_bytes = 2 if whole[6] == 1 else 4
    start = 8 + size_bytes
    length = int.from_bytes(whole[8:start], "little")
    if length > _LONGEST_HEADER:
        raise ValueError("a header that is too long")
    header = ast.literal_eval(bytes(whole[start : start + length]).decode("latin-1"))
    numbers = _NUMBERS.fullmatch(header["descr"])
    shape = header["shape"]
    if set(header) != _FIELDS or numbers is None or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("no array of numbers")
    if not isinstance(shape, tuple) or len(shape) > _MOST_AXES:
        raise ValueError("no shape, or one of too many axes")
    content = whole[start + length :]
    if len(content) != math.prod(shape) * int(numbers[2]):
        raise ValueError("too few bytes, or too many")
    if header["fortran_order"] and len(shape) > 1 and content:
        content = _row_by_row(content, shape, int(numbers[2]))
    return Values(header["descr"], tuple(shape), content)


def _row_by_row(content: memoryview, shape: tuple[int, ...], itemsize: int) -> memoryview:
    """The values of an array that was kept column by column."""
    flat = content.cast(UNSIGNED[itemsize])
    strides = [math.prod(shape[:axis]) for axis in range(len(shape))]
    outer = itertools.product(*(range(size) for size in shape[:-1]))
    starts = (sum(i * stride for i, stride in zip(index, strides, strict=False)) for index in outer)
    rows = [flat[start :: strides[-1]][: shape[-1]].tobytes() for start in starts]
    return memoryview(b"".join(rows))

"""The arrays of a program's cases, mapped from their `.npy` files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpc.request import Case, Program

Array = NDArray[Any]


class CaseError(Exception):
    """A case's file is missing or holds something else than one array of numbers."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """What a case's files hold; read-only, and read from disk as they are used."""

    inputs: tuple[Array, ...]
    expected: Array


def open_cases(program: Program) -> tuple[Arrays, ...]:
    return tuple(_open_case(case) for case in program.cases)


def _open_case(case: Case) -> Arrays:
    return Arrays(inputs=tuple(_open_array(path) for path in case.inputs), expected=_open_array(case.expected))


def _open_array(path: str) -> Array:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CaseError(f"case file can't be read: {path}: {error}") from error
    if not isinstance(array, np.ndarray) or not _is_of_numbers(array.dtype):
        raise CaseError(f"case file must hold one array of numbers: {path}")
    return np.asarray(array, order="C")


def _is_of_numbers(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative

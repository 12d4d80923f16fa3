"""The arrays of a program's cases, as numpy has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from int8tune.rpc.request import Case, Program
from int8tune.rpc.wire.npy import read_npy

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Arrays:
    """What a case's files hold; read-only, and read from disk as they are used."""

    inputs: tuple[Array, ...]
    expected: Array


def open_cases(program: Program) -> tuple[Arrays, ...]:
    """Raises: CaseError: a file is missing, or holds something else."""
    return tuple(_open_case(case) for case in program.cases)


def _open_case(case: Case) -> Arrays:
    return Arrays(inputs=tuple(_open_array(path) for path in case.inputs), expected=_open_array(case.expected))


def _open_array(path: str) -> Array:
    values = read_npy(path)
    return np.ndarray(values.shape, values.dtype, values.content)

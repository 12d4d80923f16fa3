"""The cases of programs as a board gets them: known by the sha256 of their bytes, sent once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rpc.cases import Array, Arrays, CaseError, open_cases
from rpc.request import Case, Program

# DLPack's type codes (dlpack.h) of numpy's kinds.
_TYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


@dataclass(frozen=True, slots=True)
class BoardCase:
    """A case with the digests of its arrays' bytes.

    Attributes:
        description: the arrays in the agent's words.
    """

    arrays: Arrays
    inputs: tuple[bytes, ...]
    expected: bytes
    description: str


class BoardCases:
    """Reads cases, and remembers the digests of files that have not changed since."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, int, int, int], bytes] = {}

    def read(self, program: Program) -> tuple[BoardCase, ...]:
        """The cases of a program.

        Raises:
            CaseError: one of their files can't be read.
        """
        arrays = open_cases(program)
        return tuple(self._case(case, opened) for case, opened in zip(program.cases, arrays, strict=True))

    def _case(self, case: Case, arrays: Arrays) -> BoardCase:
        inputs = tuple(self._digest(path, array) for path, array in zip(case.inputs, arrays.inputs, strict=True))
        words = [_described(array, digest) for array, digest in zip(arrays.inputs, inputs, strict=True)]
        # The board does not know what it must compute.
        words.append(_described(arrays.expected, b""))
        return BoardCase(arrays, inputs, self._digest(case.expected, arrays.expected), " ".join(words))

    def _digest(self, path: str, array: Array) -> bytes:
        try:
            status = Path(path).stat()
        except OSError as error:
            raise CaseError(f"case file can't be read: {path}: {error}") from error
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._digests:
            self._digests[key] = hashlib.sha256(content(array)).digest()
        return self._digests[key]


def content(array: Array) -> bytes:
    """An array's values in memory, row by row."""
    return np.ascontiguousarray(array).tobytes()


def _described(array: Array, digest: bytes) -> str:
    numbers = (_TYPE_CODES[array.dtype.kind], 8 * array.dtype.itemsize, array.ndim, *array.shape)
    return f"{digest.hex() or '-'} {' '.join(map(str, numbers))}"

"""The cases of programs as a board gets them: known by the sha256 of their bytes, sent once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.request import Case, Program
from int8tune.rpc.wire.npy import CaseError, Values, read_npy

# DLPack's type codes (dlpack.h) of numpy's kinds.
_TYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


@dataclass(frozen=True, slots=True)
class BoardCase:
    """A case: its inputs by the digests of their bytes, and what must come out, which has one, too.

    Attributes:
        description: the arrays in the agent's words.
    """

    inputs: tuple[tuple[bytes, Values], ...]
    expected: Values
    expected_digest: bytes
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
        return tuple(map(self._case, program.cases))

    def _case(self, case: Case) -> BoardCase:
        inputs = [(path, read_npy(path)) for path in case.inputs]
        expected = read_npy(case.expected)
        known = tuple((self._digest(path, values), values) for path, values in inputs)
        # The board does not know what it must compute.
        words = [*(_described(values, digest) for digest, values in known), _described(expected, b"")]
        return BoardCase(known, expected, self._digest(case.expected, expected), " ".join(words))

    def _digest(self, path: str, values: Values) -> bytes:
        try:
            status = Path(path).stat()
        except OSError as error:
            raise CaseError(f"case file can't be read: {path}: {error}") from error
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._digests:
            self._digests[key] = hashlib.sha256(values.content).digest()
        return self._digests[key]


def _described(values: Values, digest: bytes) -> str:
    numbers = (_TYPE_CODES[values.kind], 8 * values.itemsize, len(values.shape), *values.shape)
    return f"{digest.hex() or '-'} {' '.join(map(str, numbers))}"

"""Exact products of matrices of small integers, by the binary32 of BLAS.

A sum of products in binary32 is exact in whatever order it is added, fused or not, as long as the magnitudes of its
products add up to at most 2^24: every partial sum is an integer that binary32 has. So the depth is cut into pieces that
keep this bound for the largest magnitudes of both matrices, and the sums of the pieces are added as int64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SingleArray = npt.NDArray[np.float32]
LongArray = npt.NDArray[np.int64]

# The largest magnitude up to which binary32 has every integer.
MOST_EXACT = 1 << 24


class Columns:
    """The columns of a matrix that rows are multiplied by. Those that are the same are multiplied once.

    Of the adversarial cases half have one or two different columns.

    Attributes:
        depth: of a piece.
    """

    def __init__(self, columns: SingleArray, largest: int) -> None:
        """`columns`: [N, K] integers. `largest`: the largest magnitude of the values of rows.

        Raises:
            ValueError: a single product may be more than `MOST_EXACT`.
        """
        self.depth = MOST_EXACT // max(1, largest * largest_magnitude(columns))
        if self.depth == 0:
            raise ValueError(f"products must be at most {MOST_EXACT}: {largest} x {largest_magnitude(columns)}")
        different, self._places = _different(columns)
        self._matrix = np.ascontiguousarray(different.T)

    def product(self, rows: SingleArray) -> LongArray:
        """The products of [M, K] integers with each column, [M, N]."""
        sums = (rows[:, : self.depth] @ self._matrix[: self.depth]).astype(np.int64)
        for start in range(self.depth, len(self._matrix), self.depth):
            piece = slice(start, start + self.depth)
            np.add(sums, rows[:, piece] @ self._matrix[piece], out=sums, casting="unsafe")
        return sums if self._places is None else sums[:, self._places]


def largest_magnitude(values: SingleArray) -> int:
    """The largest magnitude of integers, 0 of none."""
    return int(max(values.max(initial=0), -values.min(initial=0)))


def _different(columns: SingleArray) -> tuple[SingleArray, LongArray | None]:
    """The columns that differ, and which of them each one is; None where all differ."""
    first: dict[bytes, int] = {}
    places = np.array([first.setdefault(column.tobytes(), len(first)) for column in columns], np.int64)
    if len(first) == len(columns):
        return columns, None
    return columns[np.unique(places, return_index=True)[1]], places

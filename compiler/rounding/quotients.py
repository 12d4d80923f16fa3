"""Quotients by a constant, as a multiplication and a fused multiplication and addition in binary32.

Source: N. Brisebarre, J.-M. Muller, "Correctly rounded multiplication by arbitrary precision constants", IEEE
Transactions on Computers 57(2), 2008: `x * low` rounded, then `x * high` plus that, rounded once. That is the rounded
quotient but for a few divisors. Both are monotonic, so integers that are made of both are the same if the quotients
next to each half are, which is checked for every one.
"""

from __future__ import annotations

import numpy as np

from int8tune.schedules.oracle.binary32 import multiply_add

# Within these, neither what is multiplied nor what comes out is too small for all of its 24 bits.
LEAST_DIVISOR, LARGEST_DIVISOR = 2.0**-60, 2.0**60
# Numbers on either side of a half, in units in the last place, that are looked at.
NEAR = 4


def reciprocal(divisor: np.float32, most: int) -> tuple[np.float32, np.float32] | None:
    """The high and the low part of what numbers are multiplied by, in place of a division.

    Args:
        most: the largest magnitude of integers that matters: those beyond are all the same.

    Returns:
        None where a quotient next to a half would be another one.
    """
    if not LEAST_DIVISOR <= divisor <= LARGEST_DIVISOR:
        return None
    high = np.float32(1 / np.float64(divisor))
    low = np.float32((1 - np.float64(divisor) * np.float64(high)) / np.float64(divisor))
    halves = np.arange(-most, most, dtype=np.float64)[:, None] + 0.5
    bits = (halves * np.float64(divisor)).astype(np.float32).view(np.int32) + np.arange(-NEAR, NEAR + 1, dtype=np.int32)
    numbers = bits.view(np.float32)
    quotients = numbers / divisor
    is_around = (quotients.min(axis=1) < halves[:, 0]) & (quotients.max(axis=1) > halves[:, 0])
    made = multiply_add(numbers, high, numbers * low)
    return (high, low) if is_around.all() and np.array_equal(made, quotients) else None

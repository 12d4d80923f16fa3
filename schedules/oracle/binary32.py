"""What processors compute in one step and numpy does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from int8tune.schedules.operands import FloatArray

_DoubleArray = npt.NDArray[np.float64]


def multiply_add(left: FloatArray, right: FloatArray | np.float32, addend: FloatArray) -> FloatArray:
    """`left * right + addend` rounded once: the sum in binary64 to odd, from which binary32 is right.

    Neither the product nor the sum may be subnormal or infinite in binary64.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57(4),
    2008.
    """
    product, other = np.multiply(left, right, dtype=np.float64), addend.astype(np.float64)
    total = product + other
    rest = _rest(product, other, total)
    bits = total.view(np.int64)
    is_inexact_and_even = (rest != 0) & (bits % 2 == 0)
    odd = bits + np.where(is_inexact_and_even, np.where((rest > 0) == (total > 0), 1, -1), 0)
    rounded: FloatArray = odd.view(np.float64).astype(np.float32)
    return rounded


def _rest(one: _DoubleArray, other: _DoubleArray, total: _DoubleArray) -> _DoubleArray:
    """What the sum's rounding took off (Knuth's TwoSum)."""
    of_other = total - one
    rest: _DoubleArray = (one - (total - of_other)) + (other - of_other)
    return rest

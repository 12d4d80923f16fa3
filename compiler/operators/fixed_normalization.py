"""Layer normalization of an integer LSTM's gates: each row gets a mean of 0 and a deviation of 1, in fixed point.

Sources: PortableApplyLayerNorm in reference/portable_tensor_utils.cc and GetInvSqrtQuantizedMultiplierExp in
internal/common.h of TensorFlow Lite, with fixedpoint/fixedpoint.h of gemmlowp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.compiler.operators.base import LongArray
from int8tune.compiler.operators.fixed_gates import HIGH, LOW, divided, rescaled
from int8tune.compiler.operators.fixed_softmax import INT32, high_product

# Means and normalized values have ten bits behind their points, variances of them twenty more.
MEAN_BITS, VARIANCE_BITS = 10, 20
# What a variance is brought to, times powers of four, and how far its root is to be shifted where none are taken.
LEAST_VARIANCE, MOST_VARIANCE, ROOT_SHIFT = 1 << 27, 1 << 29, 11
# 1 and 3/2 as Q3, and half of the root of 2 as Q0.
ONE, HALF_THREE, HALF_ROOT_2 = 1 << 28, (1 << 28) + (1 << 27), 1518500250
REFINEMENTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Normalizations:
    """The normalization of each gate.

    Attributes:
        weight: int16 [gates, cells].
        bias: int32 [gates, cells].
        scales: the multiplier and shift that make numbers as Q3 of a gate's.
        guards: what a variance of 0 is taken for.
    """

    weight: npt.NDArray[np.int16]
    bias: npt.NDArray[np.int32]
    scales: tuple[tuple[int, int], ...]
    guards: tuple[int, ...]


def normalized(norms: Normalizations, gate: int, rows: LongArray) -> LongArray:
    """Numbers of 16 bits as Q3, of rows [batch, cells] of them in any scale."""
    cells = rows.shape[1]
    mean = truncated(rows.sum(axis=1) << MEAN_BITS, cells)
    squares = (rows * rows).sum(axis=1) * ((1 << VARIANCE_BITS) // cells)
    variance = truncated(squares - mean * mean, 1 << VARIANCE_BITS)
    root, shift = inverse_roots(np.where(variance < 1, norms.guards[gate], variance))
    centred = (rows << MEAN_BITS) - mean[:, None]
    scaled = high_product(centred, root[:, None])
    steps = np.stack([divided(row, -int(bits)) for row, bits in zip(scaled, shift, strict=True)])
    # LiteRT's source has 32 bits here; its releases for x86 have 64.
    weighted = steps * norms.weight[gate] + norms.bias[gate]
    half = 1 << (MEAN_BITS - 1)
    whole = truncated(weighted + np.where(weighted > 0, half, -half), 1 << MEAN_BITS)
    return np.clip(rescaled(whole, norms.scales[gate]), LOW, HIGH)


def inverse_roots(variances: LongArray) -> tuple[LongArray, LongArray]:
    """The reciprocals of square roots of integers, as Q0, and by how many bits they are to be shifted to the left."""
    value = np.where(variances >= MOST_VARIANCE, variances >> 2, variances)
    shift = np.where(variances >= MOST_VARIANCE, ROOT_SHIFT + 1, ROOT_SHIFT)
    while (value < LEAST_VARIANCE).any():
        is_small = value < LEAST_VARIANCE
        value, shift = np.where(is_small, value << 2, value), shift - is_small
    half = divided(value >> 1, 1)
    root = np.full_like(value, ONE)
    for _ in range(REFINEMENTS):
        cube = _raised(high_product(high_product(root, root), root), 6)
        root = _raised(high_product(root, np.int64(HALF_THREE)) - high_product(half, cube), 3)
    root = high_product(root, np.int64(HALF_ROOT_2))
    root = np.where(shift < 0, root << np.maximum(-shift, 0), root)
    shift = np.maximum(shift, 0)
    # 1 has no digits to begin with.
    return np.where(variances <= 1, INT32.max, root), np.where(variances <= 1, 0, -shift)


def truncated(values: LongArray, divisor: int) -> LongArray:
    """Divided, towards zero."""
    made: LongArray = np.sign(values) * (np.abs(values) // divisor)
    return made


def _raised(values: LongArray, bits: int) -> LongArray:
    """Times a power of two, saturated."""
    made: LongArray = np.clip(values << bits, INT32.min, INT32.max)
    return made

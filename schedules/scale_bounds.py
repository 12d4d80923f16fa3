"""Scales of the float rule that keep every product within int32.

A sum times its scale is converted to int32, and a product that does not fit would become the lowest value: kernels
bound each product by an instruction of its own. Where sums are of few products, none is needed: a scale that carries
any of a channel's sums beyond int32 saturates all of them but zero, and so does the largest scale that doesn't.
"""

from __future__ import annotations

import numpy as np

from int8tune.schedules.operands import FloatArray, IntArray
from int8tune.schedules.workload import Workload

# Magnitudes of one value minus its zero point.
DATA_MAGNITUDE, WEIGHT_MAGNITUDE = 255, {"u8": 255, "s8": 128}
# A product of this magnitude saturates whatever the zero point.
SATURATED = 255
# Products stay below 2^31 by more than binary32 rounds a sum, a scale and their product.
LARGEST_PRODUCT = 2.0**31 * (1 - 2.0**-20)


def bounds_scales(workload: Workload) -> bool:
    """Whether scales of a layer can be bounded so that no product leaves int32, and no output changes."""
    requantize = workload.numerics.requantize
    if requantize is None or requantize.rule != "float" or not requantize.per_channel:
        return False
    # The least scale that a channel is bounded to belongs to a bias that takes its smallest sum to zero, or near it.
    return SATURATED * (2 * _largest_sum(workload) + 1) <= LARGEST_PRODUCT


def bounded_scales(workload: Workload, scale: FloatArray, bias: IntArray) -> FloatArray:
    """The scales [OC], with those bounded that could carry a sum beyond int32; as they are where none can be."""
    if not bounds_scales(workload):
        return scale
    magnitude = np.minimum(np.abs(bias.astype(np.int64)) + _largest_sum(workload), 1 << 31)
    bounded: FloatArray = np.minimum(scale, (LARGEST_PRODUCT / magnitude).astype(np.float32))
    return bounded


def _largest_sum(workload: Workload) -> int:
    """What a sum without bias can be at most."""
    numerics = workload.numerics
    weight = 255 if numerics.weight_zero_point else WEIGHT_MAGNITUDE[numerics.weight]
    return workload.reduction * DATA_MAGNITUDE * weight

"""Sums that test one step of a rounding rule each, for `schedules.adversarial` to aim at."""

from __future__ import annotations

from schedules.numerics import RANGES, RoundingRule

INT32_MIN, INT32_MAX = RANGES["s32"]

# Factors and the sums that they are applied to. With the float rule: ties; both clamp bounds, values that fit no int32
# and the finest steps; ties that only appear when the sum is rounded to 24 bits, or when the product is.
FLOAT_DRILLS: tuple[tuple[float, tuple[int, ...]], ...] = (
    (0.5, (1, -1, 5, -5, 3, -3)),
    (2.0, (500, INT32_MAX, 1, -500, INT32_MIN, -1, INT32_MAX)),
    (2.0**-24, (5 * 2**23 + 1, -5 * 2**23 - 1, 7 * 2**23 - 1, -7 * 2**23 + 1)),
    (0.1, (5, -5, 25, -25, 45, -45)),
)
# With the fixed rule: ties of the high product; a left shift, also to values that fit no int16; sums that round twice;
# ties of a long right shift.
FIXED_DRILLS: tuple[tuple[float, tuple[int, ...]], ...] = (
    (0.5, (-1, 1, -3, 3, -5, 5)),
    (8.0, (50, 2**20, 1, -50, -(2**20), -1, 2**20)),
    (0.25, (1, -2, 2, -1, 6, -6, 5, -5)),
    ((2**31 - 1) * 2.0**-55, (5 * 2**23, -5 * 2**23, 5 * 2**23 - 1, -5 * 2**23 + 1)),
)
# With the fused rule, factors and offsets: ties, and saturation; ties that only an offset of the sum's sign makes; ties
# that only appear when the sum is rounded to 24 bits, or that disappear when the product is.
FUSED_DRILLS: tuple[tuple[float, float, tuple[int, ...]], ...] = (
    (0.5, 0.0, (1, -1, INT32_MAX, 3, -3, INT32_MIN, 5)),
    (0.25, 0.75, (0, -1, 3, -3, 7, -7, 1)),
    (2.0**-24, 0.5 + 2.0**-24, (2**25 + 2, -(2**25) - 2, 2**26 + 4, -(2**26) - 4)),
    (0.1, 0.5 + 2.0**-22, (40, -40, 60, -60)),
)
DRILLS: dict[RoundingRule, tuple[tuple[float, float, tuple[int, ...]], ...]] = {
    "float": tuple((factor, 0.0, sums) for factor, sums in FLOAT_DRILLS),
    "fixed": tuple((factor, 0.0, sums) for factor, sums in FIXED_DRILLS),
    "fused": FUSED_DRILLS,
}
"""Factors, offsets and sums of each rule; offsets of the fused rule only."""
# Distances of the fused rule's exceptions from sums that occur.
EXCEPTIONS = (0, 1, 0, -1, 0)

"""Sums that test one step of a rounding rule each, for `schedules.oracle.adversarial` to aim at."""

from __future__ import annotations

from dataclasses import dataclass

from int8tune.schedules.numerics import RANGES, RoundingRule

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
# A number of binary32, and one half a step below it: what is behind the point is on different sides of a half, if sums
# are five to fifteen times as large and more.
_SINGLE = float.fromhex("0x1.99999ap-4")
# With the fine rule: ties, and saturation; offsets of the sum's sign; a rest that decides; sums that lose bits.
FINE_DRILLS: tuple[tuple[float, float, tuple[int, ...]], ...] = (
    (0.5, 0.0, (1, -1, INT32_MAX, 3, -3, INT32_MIN, 5)),
    (0.25, 0.75, (0, -1, 3, -3, 7, -7, 1)),
    (_SINGLE - 3.3e-9, 0.0, (95, -95, 115, -115)),
    (2.0**-24, 0.5, (2**25 + 2, -(2**25) - 2, 2**26 + 4, -(2**26) - 4)),
)
DRILLS: dict[RoundingRule, tuple[tuple[float, float, tuple[int, ...]], ...]] = {
    "float": tuple((factor, 0.0, sums) for factor, sums in FLOAT_DRILLS),
    "fixed": tuple((factor, 0.0, sums) for factor, sums in FIXED_DRILLS),
    "fused": FUSED_DRILLS,
    "fine": FINE_DRILLS,
}
"""Factors, offsets and sums of each rule; offsets of the fused and the fine rule only."""
# Distances of the fused rule's exceptions from sums that occur.
EXCEPTIONS = (0, 1, 0, -1, 0)


@dataclass(frozen=True, slots=True)
class Ties:
    """Sums that are ties of a rounding rule, one for each channel in turn: no two rules agree on all of them.

    Attributes:
        offset: of the fused and the fine rule, for these sums.
        exception: distance of the exceptions from the sums' magnitudes; 0: these sums are the exceptions.
        other_offset: of the fused rule for what is an exception where these sums are none, or the other way round.
    """

    factor: float
    sums: tuple[int, ...]
    offset: float = 0.0
    exception: int = 0
    other_offset: float = 0.0


# Signs, whole outputs, and what their sums lose to 24 bits.
_TOWARDS_ZERO = (
    *((1, 2, 1), (1, 4, 2), (-1, 2, 1), (-1, 4, 2)),
    *((1, 8, 4), (1, 18, 8), (-1, 8, 4), (-1, 18, 8)),
)
_AWAY_FROM_ZERO = (
    *((1, 5, 2), (1, 9, 4), (-1, 5, 2), (-1, 9, 4)),
    *((1, 13, 4), (1, 17, 8), (-1, 13, 4), (-1, 17, 8)),
)

# With the float rule: ties towards zero, of sums that lose half a step to 24 bits and products that are above the tie
# in binary64; ties away from zero, of products that are below the tie in binary64. With the fixed rule: sums that round
# up twice, and negative ties of the right shift, each where the other set has the other. With the fused rule: ties away
# from zero that any step which is not rounded would miss, beside exceptions; ties towards zero that miss a product
# which is rounded, and have the exceptions' offset. With the fine rule: what the rest has just below a half, and what
# the offset has just above; binary32 has no such numbers.
TIES: dict[RoundingRule, tuple[Ties, Ties]] = {
    "float": (
        Ties(0.1 * 2.0**-20, tuple(sign * ((10 * whole + 5 << 20) + lost) for sign, whole, lost in _TOWARDS_ZERO)),
        Ties(0.7, (5, 25, -5, -25, 45, 65, -45, -65)),
    ),
    "fixed": (
        Ties(0.25, (13, 29, -14, -30, 33, 81, -34, -82)),
        Ties(0.25, (-14, -30, 13, 29, -34, -82, 33, 81)),
    ),
    "fused": (
        Ties(
            2.0**-24,
            tuple(sign * ((whole << 23) - lost) for sign, whole, lost in _AWAY_FROM_ZERO),
            offset=1 - 2.0**-24,
            exception=-1,
            other_offset=0.0,
        ),
        Ties(0.1, (336, 356, -336, -356, 376, 396, -376, -396), offset=0.9, other_offset=1.0),
    ),
    "fine": (
        Ties(_SINGLE - 3.3e-9, (55, 75, -55, -75, 95, 115, -95, -115)),
        Ties(_SINGLE - 2.0e-9, (125, 145, -125, -145, 165, 185, -165, -185), offset=2.0**-22),
    ),
}
"""Two sets of each rule, which tell every other way of rounding from it, in every channel, both together."""

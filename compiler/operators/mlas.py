"""Functions of binary32 numbers as ONNX Runtime approximates them on x86 with FMA, bit for bit (MLAS).

Each is a polynomial, or a quotient of two, whose steps are fused multiplications and additions. Sources: erf.cpp,
logistic.cpp and tanh.cpp of MLAS, whose constants these are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.operators.base import FloatArray

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)

ERF_BOUND, ERF_SPLIT = np.float32(3.925), np.float32(0.921875)
ERF_SMALL = (-5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
ERF_LARGE = (1.72948930e-5, -3.83208680e-4, 3.88393435e-3, -2.42545605e-2, 1.06777847e-1, 6.34846687e-1, 1.28717512e-1)
EXP_LEAST, EXP_ROUNDER = np.float32(-88.3762626647949), np.float32(1.25829120e7)
LOG2_RECIPROCAL, LOG2_HIGH, LOG2_LOW = np.float32(1.44269504088896341), np.float32(-6.93145752e-1), -1.42860677e-6
# Of the exponential that is a part of `erf`, and of the one that is a function of its own.
ERF_EXP = (1.38319808e-3, 8.37550033e-3, 4.16689515e-2, 1.66664466e-1, 4.99999851e-1, 1.0, 1.0)
EXP_RANGE = np.float32(-103.9720840454), np.float32(88.7762626647950)
EXP = tuple(
    map(float.fromhex, ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0"))
)
# Powers of two that a binary32 number has as its exponent.
POWERS = -126, 127

LOGISTIC_BOUND = np.float32(18)
LOGISTIC_ABOVE = (
    4.37031012579801e-11,
    1.15627324459942e-07,
    6.08574864600143e-05,
    8.51377133304701e-03,
    2.48287947061529e-01,
)
LOGISTIC_BELOW = (
    6.10247389755681e-13,
    5.76102136993427e-09,
    6.29106785017040e-06,
    1.70198817374094e-03,
    1.16817656904453e-01,
    9.93151921023180e-01,
)

TANH_BOUND = np.float32(9)
TANH_ABOVE = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
TANH_BELOW = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def erf(values: FloatArray) -> FloatArray:
    """The error function."""
    magnitude = np.minimum(np.abs(values), ERF_BOUND)
    small = _fused(_polynomial(ERF_SMALL, magnitude * magnitude), magnitude, magnitude)
    large = _fused(_polynomial(ERF_LARGE, magnitude), magnitude, magnitude)
    return np.copysign(np.where(magnitude >= ERF_SPLIT, ONE - _exponential(-large), small), values)


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + e^-x)."""
    bounded = np.clip(values, -LOGISTIC_BOUND, LOGISTIC_BOUND)
    square = bounded * bounded
    made = _polynomial(LOGISTIC_ABOVE, square) * bounded / _polynomial(LOGISTIC_BELOW, square) + HALF
    bounded_share: FloatArray = np.clip(made, ZERO, ONE)
    return bounded_share


def tanh(values: FloatArray) -> FloatArray:
    """The hyperbolic tangent."""
    bounded = np.clip(values, -TANH_BOUND, TANH_BOUND)
    square = bounded * bounded
    return _polynomial(TANH_ABOVE, square) * bounded / _polynomial(TANH_BELOW, square)


def exponential(values: FloatArray) -> FloatArray:
    """e^x: 2 to a whole power, in two factors where it is beyond an exponent, times a polynomial of the rest."""
    bounded = np.clip(values, *EXP_RANGE)
    power, rest = _reduced(bounded)
    normal = np.clip(power, *POWERS)
    normal_factor, factor = (np.ldexp(ONE, each.astype(np.int32)) for each in (normal, power - normal))
    return _fused(_polynomial(EXP, rest), rest * factor, factor) * normal_factor


def _exponential(values: FloatArray) -> FloatArray:
    """e^x as a part of `erf` has it: 2 to a whole power times a polynomial of the rest."""
    power, rest = _reduced(np.maximum(values, EXP_LEAST))
    return np.ldexp(_polynomial(ERF_EXP, rest), power.astype(np.int32)).astype(np.float32)


def _reduced(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A whole number of times the logarithm of 2, and the rest."""
    power = _fused(np.full_like(values, LOG2_RECIPROCAL), values, EXP_ROUNDER) - EXP_ROUNDER
    return power, _fused(power, np.float32(LOG2_LOW), _fused(power, LOG2_HIGH, values))


def _polynomial(coefficients: Sequence[float], values: FloatArray) -> FloatArray:
    """The coefficient of the highest power is the first one."""
    made = np.full_like(values, coefficients[0])
    for coefficient in coefficients[1:]:
        made = _fused(made, values, np.float32(coefficient))
    return made


def _fused(one: FloatArray, other: FloatArray | np.float32, addend: FloatArray | np.float32) -> FloatArray:
    """A product and a sum, rounded once; binary64 holds the product whole."""
    made: FloatArray = (one.astype(np.float64) * other + addend).astype(np.float32)
    return made

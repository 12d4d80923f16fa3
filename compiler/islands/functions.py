"""Functions of binary32 that LLVM vectorizes: polynomials, with errors of up to four units in the last place.

libm takes one value at a time. Sources: exp and log of Cephes (S. Moshier); tanh of Eigen; erf of N. Juffa, which ONNX
Runtime has, too. NaN gives NaN; beyond the range of exp, values saturate to 0 and infinity as they should. This module
imports TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

Float = Callable[[Any], Any]

# Where 2^n is a normal number; a little beyond, results are 0 and infinity.
_LEAST_EXPONENT, _MOST_EXPONENT = -104.0, 89.0
# Its power of two has an exponent of 0, as zero has.
_LEAST_ONE_FACTOR = -88.0
# 1.5 * 2^23: numbers around it are whole.
_SHIFT = 12582912.0
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
# From there on tanh(log(1 + e^x)) is 1, and the square of e^x far from infinite.
_TANGENT_IS_ONE = 20.0
# The bits of the root of a half: where the exponents of numbers from there to the root of 2 begin.
_ROOT_OF_HALF = 0x3F3504F3
_LEAST_NORMAL, _TO_NORMAL = 2.0**-126, 23
_ERF_NEAR = (-5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
_ERF_FAR = (
    -1.72948930e-5,
    3.83208680e-4,
    -3.88393435e-3,
    2.42545605e-2,
    -1.06777847e-1,
    -6.34846687e-1,
    -1.28717512e-1,
)
_TANH_ABOVE = (
    *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-8),
    *(1.48572235717979e-5, 6.37261928875436e-4, 4.89352455891786e-3),
)
_TANH_BELOW = (1.19825839466702e-6, 1.18534705686654e-4, 2.26843463243900e-3, 4.89352518554385e-3)


def number(value: float) -> Any:
    """A constant of binary32."""
    return tirx.const(value, "float32")


def bound(value: Any, body: Float) -> Any:
    """An expression in which a value is computed once."""
    name = tirx.Var("x", "float32")
    return tirx.Let(name, value, body(name))


def exponential(value: Any) -> Any:
    return bound(value, _exponential)


def power_of_most_one(value: Any) -> Any:
    """e^x of a value that is not above 0, in fewer steps; from -87.7 on it is 0."""
    return bound(tirx.max(number(_LEAST_ONE_FACTOR), value), lambda at: _in_steps(at, _power_of_one_factor))


def _power_of_one_factor(at: Any, shifted: Any) -> Any:
    return _series(_remainder(at, shifted - number(_SHIFT))) * _power_of_two(shifted)


def _exponential(x: Any) -> Any:
    """e^x = 2^n e^r, where r is within half of log 2; 2^n is made of two factors, as n goes beyond one exponent."""
    # In this order NaN, which is neither more nor less, stays.
    least, most = number(_LEAST_EXPONENT), number(_MOST_EXPONENT)
    clipped = tirx.Select(x > most, most, tirx.Select(x < least, least, x))
    return bound(clipped, lambda at: _in_steps(at, _power_of_two_factors))


def _power_of_two_factors(at: Any, shifted: Any) -> Any:
    def of_steps(n: Any) -> Any:
        half = tirx.floor(n * number(0.5))
        factors = (_power_of_two(number(_SHIFT) + each) for each in (half, n - half))
        return _series(_remainder(at, n)) * next(factors) * next(factors)

    return bound(shifted - number(_SHIFT), of_steps)


def _in_steps(at: Any, body: Callable[[Any, Any], Any]) -> Any:
    """A body that is given x, and `_SHIFT` more than x / log 2 rounded to the nearest whole number n.

    The sum has no bits for a fraction, and n is in its last ones.
    """
    return bound(at * number(1.44269504088896341) + number(_SHIFT), lambda shifted: body(at, shifted))


def _remainder(x: Any, n: Any) -> Any:
    """x without n times log 2, which is taken in two parts."""
    return x - n * number(0.693359375) - n * number(-2.12194440e-4)


def _series(r: Any) -> Any:
    """e^r within half of log 2."""
    return bound(r, lambda r: polynomial(r, (*_EXP, 1.0, 1.0)))


def _power_of_two(shifted: Any) -> Any:
    """2^n of a number that is `_SHIFT` more than n; 0 of -127."""
    bits = tirx.reinterpret("int32", shifted) << tirx.const(23, "int32")
    return tirx.reinterpret("float32", bits + tirx.const(127 << 23, "int32"))


def logarithm(value: Any) -> Any:
    return bound(value, _logarithm)


def _logarithm(x: Any) -> Any:
    """A polynomial between the roots of a half and of 2, and n log 2; of numbers that have none, what libm gives."""
    infinity, zero = number(math.inf), number(0.0)
    is_small = x < number(_LEAST_NORMAL)
    normal = tirx.Select(is_small, x * number(2.0**_TO_NORMAL), x)
    moved = tirx.Select(is_small, number(float(_TO_NORMAL)), zero)
    finite = bound(normal, lambda at: _logarithm_of_normal(at, moved))
    return tirx.Select(
        x > zero, tirx.Select(x == infinity, x, finite), tirx.Select(x == zero, -infinity, number(math.nan))
    )


def _logarithm_of_normal(x: Any, moved: Any) -> Any:
    """That of x / 2^moved."""
    bits = tirx.reinterpret("int32", x)
    whole = (bits - tirx.const(_ROOT_OF_HALF, "int32")) >> tirx.const(23, "int32")
    rest = tirx.reinterpret("float32", bits - (whole << tirx.const(23, "int32"))) - number(1.0)

    def added(r: Any, n: Any) -> Any:
        small = polynomial(r, _LOG) * r * r * r + n * number(-2.12194440e-4) - number(0.5) * r * r
        return r + small + n * number(0.693359375)

    return bound(rest, lambda r: bound(whole.astype("float32") - moved, lambda n: added(r, n)))


def error_function(value: Any) -> Any:
    return bound(value, _error_function)


def _error_function(x: Any) -> Any:
    """A polynomial near 0, else 1 without a power of e."""
    magnitude, square = tirx.abs(x), x * x
    near = polynomial(square, _ERF_NEAR) * x + x
    far = number(1.0) - power_of_most_one(polynomial(magnitude, _ERF_FAR) * magnitude - magnitude)
    return tirx.Select(magnitude > number(0.921875), _signed(far, x), near)


def _signed(magnitude: Any, sign: Any) -> Any:
    return tirx.call_llvm_pure_intrin("float32", "llvm.copysign", magnitude, sign)


def hyperbolic_tangent(value: Any) -> Any:
    return bound(value, _hyperbolic_tangent)


def _hyperbolic_tangent(x: Any) -> Any:
    """A quotient of polynomials; beyond 7.9, where binary32 has no other value, 1 of either sign."""
    most = number(7.90531110763549805)
    clipped = tirx.Select(x > most, most, tirx.Select(x < -most, -most, x))

    def quotient(at: Any) -> Any:
        return bound(at * at, lambda s: at * polynomial(s, _TANH_ABOVE) / polynomial(s, _TANH_BELOW))

    return bound(clipped, quotient)


def power_of_half(value: Any) -> Any:
    """x^0.5: the root, but for zeros, which lose their sign, and minus infinity, which does, too."""

    def made(x: Any) -> Any:
        infinity, zero = number(math.inf), number(0.0)
        return tirx.Select(x == zero, zero, tirx.Select(x == -infinity, infinity, tirx.sqrt(x)))

    return bound(value, made)


def softplus(value: Any) -> Any:
    """log(1 + e^x), as the larger of x and 0 and log(1 + e^-|x|), whose sum is between 1 and 2."""

    def made(x: Any) -> Any:
        total = number(1.0) + power_of_most_one(-tirx.abs(x))
        small = bound(total, lambda at: _logarithm_of_normal(at, number(0.0)))
        # NaN is not less than 0, and stays.
        return tirx.Select(x < number(0.0), number(0.0), x) + small

    return bound(value, made)


def tangent_of_softplus(value: Any) -> Any:
    """tanh(log(1 + e^x)), a quotient of sums of e^x; 1 where nothing else is nearest."""

    def made(x: Any) -> Any:
        most = number(_TANGENT_IS_ONE)
        power = exponential(tirx.Select(x > most, most, x))
        return bound(power, lambda e: bound(e * (e + number(2.0)), lambda n: n / (n + number(2.0))))

    return bound(value, made)


def sigmoid(value: Any) -> Any:
    return bound(value, lambda x: number(1.0) / (exponential(-x) + number(1.0)))


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The coefficient of the highest power is the first."""
    total = number(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + number(coefficient)
    return total

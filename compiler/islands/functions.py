"""Functions of binary32 that LLVM vectorizes: polynomials, with errors of up to four units in the last place.

libm takes one value at a time. Sources: exp of Cephes (S. Moshier); tanh of Eigen; erf of N. Juffa, which ONNX Runtime
has, too. NaN gives NaN; beyond the range of exp, values saturate to 0 and infinity as they should. This module imports
TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

Float = Callable[[Any], Any]

# Where 2^n is a normal number; a little beyond, results are 0 and infinity.
_LEAST_EXPONENT, _MOST_EXPONENT = -104.0, 89.0
# Of the powers that are normal numbers.
_LEAST_NORMAL = -87.0
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_ERF_NEAR = (-5.99104969e-4, 4.99339588e-3, -2.67667342e-2, 1.12818025e-1, -3.76124859e-1, 1.28379151e-1)
_ERF_FAR = (1.72948930e-5, -3.83208680e-4, 3.88393435e-3, -2.42545605e-2, 1.06777847e-1, 6.34846687e-1, 1.28717512e-1)
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
    """e^x of a value that is not above 0, in fewer steps; what is below the normal numbers is 0."""

    def of_value(x: Any) -> Any:
        least = number(_LEAST_NORMAL)
        return tirx.Select(x < least, number(0.0), bound(tirx.max(least, x), of_clipped))

    def of_clipped(at: Any) -> Any:
        return bound(tirx.nearbyint(at * number(1.44269504088896341)), lambda n: of_steps(at, n))

    def of_steps(at: Any, n: Any) -> Any:
        return bound(_remainder(at, n), lambda r: _series(r) * _power_of_two(n))

    return bound(value, of_value)


def _exponential(x: Any) -> Any:
    """e^x = 2^n e^r, where r is within half of log 2; 2^n is made of two factors, as n goes beyond one exponent."""
    # In this order NaN, which is neither more nor less, stays.
    least, most = number(_LEAST_EXPONENT), number(_MOST_EXPONENT)
    clipped = tirx.Select(x > most, most, tirx.Select(x < least, least, x))

    def of_clipped(at: Any) -> Any:
        return bound(tirx.nearbyint(at * number(1.44269504088896341)), lambda n: of_steps(at, n))

    def of_steps(at: Any, n: Any) -> Any:
        half = tirx.floor(n * number(0.5))
        return bound(_remainder(at, n), lambda r: _series(r) * _power_of_two(half) * _power_of_two(n - half))

    return bound(clipped, of_clipped)


def _remainder(x: Any, n: Any) -> Any:
    """x without n times log 2, which is taken in two parts."""
    return x - n * number(0.693359375) - n * number(-2.12194440e-4)


def _series(r: Any) -> Any:
    """e^r within half of log 2."""
    return _polynomial(r, _EXP) * r * r + r + number(1.0)


def _power_of_two(exponent: Any) -> Any:
    bits = (exponent.astype("int32") + tirx.const(127, "int32")) << tirx.const(23, "int32")
    return tirx.reinterpret("float32", bits)


def error_function(value: Any) -> Any:
    return bound(value, _error_function)


def _error_function(x: Any) -> Any:
    magnitude, square = tirx.abs(x), x * x
    near = _polynomial(square, _ERF_NEAR) * x + x
    far = number(1.0) - exponential(-(_polynomial(magnitude, _ERF_FAR) * magnitude + magnitude))
    return tirx.Select(magnitude > number(0.921875), _signed(far, x), near)


def _signed(magnitude: Any, sign: Any) -> Any:
    return bound(magnitude, lambda value: tirx.Select(sign < number(0.0), -value, value))


def hyperbolic_tangent(value: Any) -> Any:
    return bound(value, _hyperbolic_tangent)


def _hyperbolic_tangent(x: Any) -> Any:
    """A quotient of polynomials; beyond 7.9, where binary32 has no other value, 1 of either sign."""
    most = number(7.90531110763549805)
    clipped = tirx.Select(x > most, most, tirx.Select(x < -most, -most, x))

    def quotient(at: Any) -> Any:
        return bound(at * at, lambda s: at * _polynomial(s, _TANH_ABOVE) / _polynomial(s, _TANH_BELOW))

    return bound(clipped, quotient)


def sigmoid(value: Any) -> Any:
    return bound(value, lambda x: number(1.0) / (exponential(-x) + number(1.0)))


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    total = number(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + number(coefficient)
    return total

"""Functions of numbers that ONNX has operators for, in binary32 where a rounding could show.

`compiler.operators.mlas` has ONNX Runtime's own approximations. Of Elu, the exponential is computed in binary64 and
rounded once, which differs in the last bits of binary32: no table of 8-bit values shows that but at a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from int8tune.compiler.operators import mlas
from int8tune.compiler.operators.base import FloatArray

ZERO, ONE = np.float32(0), np.float32(1)
SIXTH = np.float32(1 / 6)
HALF = np.float32(0.5)
ROOT_OF_HALF = np.float32(np.sqrt(0.5))
# sqrt(2 / pi), and that times 0.044715.
FACTOR, CUBE_FACTOR = np.float32(0.7978845608028654), np.float32(0.035677408136300125)


def clipped_to(values: FloatArray, low: np.float32, high: np.float32) -> FloatArray:
    """Where the bounds cross, the upper one is what ONNX makes of every value."""
    bounded: FloatArray = np.minimum(np.maximum(values, low), high)
    return bounded


def relu(values: FloatArray) -> FloatArray:
    return np.maximum(values, ZERO)


def leaky_relu(values: FloatArray, alpha: np.float32) -> FloatArray:
    return np.where(values >= 0, values, values * alpha)


def hard_sigmoid(values: FloatArray, alpha: np.float32, beta: np.float32) -> FloatArray:
    return clipped_to(alpha * values + beta, ZERO, ONE)


def hard_swish(values: FloatArray) -> FloatArray:
    return values * hard_sigmoid(values, SIXTH, HALF)


def elu(values: FloatArray, alpha: np.float32) -> FloatArray:
    below = _rounded(np.expm1(np.minimum(values, 0).astype(np.float64)))
    return np.where(values >= 0, values, alpha * below)


def gelu(values: FloatArray) -> FloatArray:
    return HALF * values * (ONE + mlas.erf(values * ROOT_OF_HALF))


def gelu_tanh(values: FloatArray) -> FloatArray:
    return HALF * values * (ONE + mlas.tanh((CUBE_FACTOR * values * values + FACTOR) * values))


def reciprocal(values: FloatArray) -> FloatArray:
    return ONE / values


def softsign(values: FloatArray) -> FloatArray:
    return values * (ONE / (ONE + np.abs(values)))


def thresholded_relu(values: FloatArray, alpha: np.float32) -> FloatArray:
    return np.where(values > alpha, values, ZERO)


def _rounded(values: Any) -> FloatArray:
    single: FloatArray = values.astype(np.float32)
    return single


# By operator: the function and the names of its attributes, each with its default.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "Relu": (relu,),
    "LeakyRelu": (leaky_relu, ("alpha", 0.01)),
    "HardSigmoid": (hard_sigmoid, ("alpha", 0.2), ("beta", 0.5)),
    "HardSwish": (hard_swish,),
    "Elu": (elu, ("alpha", 1.0)),
    "Sigmoid": (mlas.sigmoid,),
    "Tanh": (mlas.tanh,),
    "Exp": (mlas.exponential,),
    "Erf": (mlas.erf,),
    "Sqrt": (np.sqrt,),
    "Reciprocal": (reciprocal,),
    "Floor": (np.floor,),
    "Ceil": (np.ceil,),
    "Round": (np.rint,),
    "Sign": (np.sign,),
    "Softsign": (softsign,),
    "ThresholdedRelu": (thresholded_relu, ("alpha", 1.0)),
    "Abs": (np.abs,),
    "Neg": (np.negative,),
}

Function = Callable[..., FloatArray]

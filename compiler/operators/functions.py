"""Functions of numbers that ONNX has operators for, in binary32 where a rounding could show.

What is beyond +, *, and comparisons is computed in binary64 and rounded once. ONNX Runtime's own approximations (MLAS,
logistic.cpp and tanh.cpp) differ in the last bits of binary32, which no table of 8-bit values shows but at a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from int8tune.compiler.operators.base import FloatArray

ZERO, ONE = np.float32(0), np.float32(1)
SIXTH = np.float32(1 / 6)
HALF = np.float32(0.5)


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


def sigmoid(values: FloatArray) -> FloatArray:
    return _rounded(1 / (1 + np.exp(-values.astype(np.float64))))


def tanh(values: FloatArray) -> FloatArray:
    return _rounded(np.tanh(values.astype(np.float64)))


def exponential(values: FloatArray) -> FloatArray:
    return _rounded(np.exp(values.astype(np.float64)))


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
    "Sigmoid": (sigmoid,),
    "Tanh": (tanh,),
    "Exp": (exponential,),
    "Abs": (np.abs,),
    "Neg": (np.negative,),
}

Function = Callable[..., FloatArray]

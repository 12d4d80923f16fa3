"""TFLite operators that make sums of rows, or choose among them, as ONNX nodes.

Sources: the reference kernels of TensorFlow Lite of the same names.
"""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.tflite_reader.blocks import BlockQuantization
from int8tune.compiler.tflite_reader.floats.hybrid import (
    asymmetric,
    is_hybrid,
    quantized,
    require_symmetric,
    stored_weight,
    weight_scale,
)
from int8tune.compiler.tflite_reader.floats.hybrid_products import hybrid_product
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader

# Of the length of a row in an L2_NORMALIZATION.
LEAST_LENGTH = 1e-6


def _dense(at: Nodes) -> str:
    at.require_types("f32")
    options = at.options("FullyConnected")
    at.require(len(at) in (2, 3) and len(at.shape(1)) == 2, "it must have data and weights of two axes")
    at.require(not options.WeightsFormat(), "shuffled weights are not supported")
    features, size = at.shape(1)[1], math.prod(at.shape(0))
    at.require(size % features == 0, f"data {at.shape(0)} are no rows of {features} values")
    rows = at.shaped(at.input(0), (size // features, features))
    if is_hybrid(at):
        name = _hybrid_dense(at, rows)
        return at.shaped(at.activated(name, options.FusedActivationFunction()), at.outputs[0].shape)
    if at.value(1).constant is None:
        weight = at.transposed(at.input(1), (1, 0))
    else:
        weight = at.constant(np.ascontiguousarray(at.numbers(1).T))
    name = at.biased(at.apply("MatMul", rows, weight))
    return at.shaped(at.activated(name, options.FusedActivationFunction()), at.outputs[0].shape)


def _hybrid_dense(at: Nodes, rows: str) -> str:
    """Rows that are quantized at run time."""
    require_symmetric(at)
    quantization = at.value(1).quantization
    if isinstance(quantization, BlockQuantization):
        # Each block's sum is exact, and so is a weight times its scale, of 11 bits.
        found = asymmetric(at, rows)
        sums = at.apply("MatMul", found.steps(at), at.constant(np.ascontiguousarray(at.numbers(1).T)))
        return at.biased(at.apply("Mul", sums, found.scale))
    found, weight = quantized(at, rows), stored_weight(at)
    sums = at.apply("MatMul", found.steps(at), at.constant(np.ascontiguousarray(weight.T)))
    scale = at.apply("Mul", found.scale, at.constant(weight_scale(at.value(1), len(weight))))
    return at.biased(at.apply("Mul", sums, scale))


def _batch_product(at: Nodes) -> str:
    at.require_types("f32")
    options = at.options("BatchMatMul")
    at.require(len(at) == 2 and min(len(at.shape(0)), len(at.shape(1))) >= 2, "it must have two matrices")
    turns = bool(options.AdjX()), bool(options.AdjY())
    if is_hybrid(at):
        return hybrid_product(at, _turned(at, 0, turns[0]), *turns, bool(options.AsymmetricQuantizeInputs()))
    return at.apply("MatMul", *(_turned(at, index, is_turned) for index, is_turned in enumerate(turns)))


def _turned(at: Nodes, index: int, is_turned: bool) -> str:
    """An input with its last two axes exchanged, or as it is."""
    *batches, row, column = range(len(at.shape(index)))
    return at.transposed(at.input(index), (*batches, column, row)) if is_turned else at.input(index)


def _softmax(at: Nodes) -> str:
    at.require_types("f32")
    beta = float(at.options("Softmax").Beta())
    data = at.input(0)
    return at.apply("Softmax", data if beta == 1 else at.apply("Mul", data, at.number(beta)), axis=-1)


def _log_softmax(at: Nodes) -> str:
    at.require_types("f32")
    return at.apply("LogSoftmax", at.input(0), axis=-1)


def _l2_normalization(at: Nodes) -> str:
    at.require_types("f32")
    at.require(not at.options("L2Norm").FusedActivationFunction(), "fused activations are not supported")
    data = at.input(0)
    length = at.apply("Sqrt", at.apply("ReduceSum", at.apply("Mul", data, data), at.places([-1]), keepdims=1))
    return at.apply("Div", data, at.apply("Max", length, at.number(LEAST_LENGTH)))


def _reduction(operator: str) -> Reader:
    def read(at: Nodes) -> str:
        at.require_types("f32")
        return at.apply(operator, at.input(0), at.places(_axes(at)), keepdims=int(at.options("Reducer").KeepDims()))

    return read


def _axes(at: Nodes) -> list[int]:
    rank = len(at.shape(0))
    axes = sorted({at.axis(axis, rank) for axis in at.integers(1, "axes")})
    at.require(bool(axes), "it must have an axis")
    return axes


def _truth(operator: str) -> Reader:
    """Whether any or all are true, by the largest or least of 0 and 1."""

    def read(at: Nodes) -> str:
        at.require_types("bool")
        kept = int(at.options("Reducer").KeepDims())
        numbers = at.apply("Cast", at.input(0), to=6)
        return at.like(at.apply(operator, numbers, at.places(_axes(at)), keepdims=kept))

    return read


def _argument(operator: str) -> Reader:
    def read(at: Nodes) -> str:
        at.require_types("f32")
        axes = at.integers(1, "axis")
        at.require(len(axes) == 1, f"it must have one axis: {len(axes)}")
        axis = at.axis(axes[0], len(at.shape(0)))
        return at.like(at.apply(operator, at.input(0), axis=axis, keepdims=0))

    return read


def _running_sum(at: Nodes) -> str:
    at.require_types("f32")
    axes, options = at.integers(1, "axis"), at.options("Cumsum")
    at.require(len(axes) == 1, f"it must have one axis: {len(axes)}")
    axis = at.constant(at.axis(axes[0], len(at.shape(0))), np.int64)
    how = {"exclusive": int(options.Exclusive()), "reverse": int(options.Reverse())}
    return at.apply("CumSum", at.input(0), axis, **how)


def _largest(at: Nodes) -> list[str]:
    at.require_types("f32")
    counts, length = at.integers(1, "count"), (*at.shape(0), 0)[-2]
    at.require(len(counts) == 1 and 1 <= counts[0] <= length, f"it must take 1 to {length} values: {counts[:4]}")
    at.require(len(at.outputs) == 2, "it must make values and places")
    name = at.apply("TopK", at.input(0), at.places(counts), outputs=2, axis=-1)
    return [name, at.like(f"{name}.1", 1)]


READERS: dict[str, Reader] = {
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _batch_product,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _log_softmax,
    "L2_NORMALIZATION": _l2_normalization,
    "MEAN": _reduction("ReduceMean"),
    "SUM": _reduction("ReduceSum"),
    "REDUCE_MAX": _reduction("ReduceMax"),
    "REDUCE_MIN": _reduction("ReduceMin"),
    "REDUCE_PROD": _reduction("ReduceProd"),
    "REDUCE_ANY": _truth("ReduceMax"),
    "REDUCE_ALL": _truth("ReduceMin"),
    "ARG_MAX": _argument("ArgMax"),
    "ARG_MIN": _argument("ArgMin"),
    "CUMSUM": _running_sum,
    "TOPK_V2": _largest,
}

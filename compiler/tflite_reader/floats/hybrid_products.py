"""Products of rows that are quantized at run time with constant matrices of 8-bit weights: BATCH_MATMUL.

Sources: kernels/batch_matmul.cc and reference/batch_matmul.h of TensorFlow Lite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from int8tune.compiler.tflite_reader.floats.hybrid import (
    asymmetric,
    require_symmetric,
    stored_weight,
    symmetric,
    weight_scale,
)
from int8tune.compiler.tflite_reader.floats.nodes import Nodes

# LiteRT's kernel has five axes, and sums of weights, which zero points are multiplied by, of the last four.
MOST_AXES = 5


def hybrid_product(at: Nodes, data: str, is_data_turned: bool, is_weight_turned: bool, is_asymmetric: bool) -> str:
    """Matrices of numbers, whose rows are along the last axis of `data`, times weights.

    Args:
        is_data_turned: the file has columns of the data where `data` has rows.
        is_weight_turned: the file has columns of the weights where the product needs rows.
    """
    require_symmetric(at)
    weight = stored_weight(at)
    weight = np.ascontiguousarray(np.swapaxes(weight, -1, -2)) if is_weight_turned else weight
    shape = at.shape(0)
    shape = (*shape[:-2], shape[-1], shape[-2]) if is_data_turned else shape
    _require_batches(at, shape, weight.shape, is_data_turned, is_asymmetric)
    rows = at.shaped(data, (math.prod(shape[:-1]), shape[-1]))
    found = asymmetric(at, rows) if is_asymmetric else symmetric(at, rows)
    sums = at.apply("MatMul", at.shaped(found.steps(at), shape), at.constant(weight))
    scales = weight_scale(at.value(1), weight.shape[-1])
    factor = at.apply("Mul", at.shaped(found.scale, (*shape[:-1], 1)), at.constant(scales))
    return at.apply("Mul", sums, factor)


def _require_batches(
    at: Nodes, data: Sequence[int], weight: Sequence[int], is_data_turned: bool, is_asymmetric: bool
) -> None:
    """Raise where LiteRT takes the scale of another row, or another matrix's sums: it counts batches of one axis."""
    quantization = at.value(1).quantization
    assert quantization is not None
    at.require(quantization.scale.size in (1, weight[-1]), "its weights must have one scale, or one for each column")
    at.require(max(len(data), len(weight)) <= MOST_AXES, f"its matrices must have at most {MOST_AXES} axes")
    batches, matrices = list(data[:-2]), list(weight[:-2])
    if not is_data_turned and batches and matrices and matrices[-1] == 1:
        # The rows of all matrices of an axis are one matrix.
        batches, matrices = batches[:-1], matrices[:-1]
    for what, axes in (("data", batches), ("weights", matrices)):
        wide = [place for place, extent in enumerate(axes, 3 - len(axes)) if extent > 1]
        if what == "data" or is_asymmetric:
            at.require(len(wide) <= 1, f"its {what} must have matrices along one axis, as LiteRT counts them: {axes}")
            at.require(what == "data" or wide != [0], f"its weights must have at most 4 axes: {list(weight)}")

"""Weights rounded so that a layer's outputs stay where they were, rather than its weights.

GPTQ (Frantar et al., ICLR 2023): weights are rounded one input after the other, and what the rounding of one changed in
the outputs is taken from those that are still to come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Share of the mean square of all inputs that is added to that of each: against a lack of samples.
RIDGE = 1e-2
# Columns whose changes are added up before the others are changed.
BLOCK = 64


def moments_of(rows: Array, mean: Array | None) -> Array:
    """Second moments [inputs, inputs] of rows [rows, inputs], around a mean, or around zero."""
    around = rows.astype(np.float32) - (0 if mean is None else mean.astype(np.float32))
    return np.asarray(around.T @ around, np.float64) / len(rows)


def rounded(weights: Array, scales: Array, moments: Array, lowest: float, highest: float) -> Array:
    """Whole numbers [outputs, inputs] whose products with the scales have small errors of outputs.

    Args:
        weights: in float [outputs, inputs].
        scales: of each output.
        moments: of the inputs.
        lowest: of the numbers, without a zero point.
        highest: of the numbers.
    """
    size = len(moments)
    system = moments + np.eye(size) * max(RIDGE * np.trace(moments) / size, 1e-12)
    order = np.argsort(-np.diagonal(system), kind="stable")
    upper = np.linalg.cholesky(np.linalg.inv(system[np.ix_(order, order)])).T
    rest = weights[:, order] / scales[:, None]
    found = np.empty_like(rest)
    for first in range(0, size, BLOCK):
        end = min(first + BLOCK, size)
        errors = np.empty((len(rest), end - first))
        for column in range(first, end):
            found[:, column] = np.clip(np.rint(rest[:, column]), lowest, highest)
            errors[:, column - first] = (rest[:, column] - found[:, column]) / upper[column, column]
            rest[:, column + 1 : end] -= np.outer(errors[:, column - first], upper[column, column + 1 : end])
        rest[:, end:] -= errors @ upper[first:end, end:]
    result = np.empty_like(found)
    result[:, order] = found
    return result

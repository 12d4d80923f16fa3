"""Tables of TFLite's functions of two stored values, as its reference kernels compute each of the 65,536.

Source: SquaredDifference of kernels/squared_difference.cc of TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from int8tune.compiler.graph import DTYPES, Value
from int8tune.compiler.operators.base import STORED_RANGES, Array, scale_of, zero_point_of
from int8tune.compiler.operators.fixed_tables import centred_values, scaled
from int8tune.schedules.errors import OperandError

DIFFERENCE_SHIFT = 7


def squared_difference(inputs: Sequence[Value], output: Value) -> Array:
    """SQUARED_DIFFERENCE, int8 [256, 256].

    Raises:
        OperandError: one step of the larger scale, squared, is 2^14 steps of the output or more.
    """
    scales = [scale_of(value) for value in inputs]
    twice_larger = float(2 * max(scales))
    real = twice_larger**2 / ((1 << 2 * DIFFERENCE_SHIFT) * float(scale_of(output)))
    if not real < 1:
        raise OperandError(f"its output's scale must be above 2^-12 of its larger one, squared: {scale_of(output)}")
    one, other = (
        scaled(centred_values(value) << DIFFERENCE_SHIFT, float(scale) / twice_larger)
        for value, scale in zip(inputs, scales, strict=True)
    )
    made = scaled((one[:, None] - other) ** 2, real) + zero_point_of(output)
    table: Array = np.clip(made, *STORED_RANGES[output.type]).astype(DTYPES[output.type])
    return table

"""RESIZE_BILINEAR of 16-bit values as LiteRT computes it: places in 1024ths of a pixel, whole weights.

Sums of weighted values have at most 36 bits, so that binary64 has them exactly.
"""

from __future__ import annotations

import numpy as np

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.operators.base import is_same_quantization
from int8tune.compiler.operators.resize import UNIT_BITS, whole_axis
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, half_away


def is_wide_resize(at: Nodes) -> bool:
    """Whether an operator resizes images of 16 bits, whose scale stays what it is."""
    if at.step.plain.operator != "RESIZE_BILINEAR" or len(at.outputs) != 1:
        return False
    data, made = at.value(0), at.outputs[0]
    is_image = len(data.shape) == len(made.shape) == 4 and data.shape[::3] == made.shape[::3]
    is_stored = data.type == made.type == "s16" and at.is_stored(data) and is_same_quantization(data, made)
    return is_image and is_stored and data.constant is None


def wide_resize(at: Nodes) -> str:
    """Rows are blended before columns: sums are exact, so that their order does not matter."""
    options = at.options("ResizeBilinear")
    corners, centers = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    at.require(not (corners and centers), "corners can't be aligned where pixels have centres")
    name = at.apply("Cast", at.as_it_is(0), to=ELEMENTS["f64"])
    for axis in (1, 2):
        places = whole_axis(at.shape(0)[axis], at.outputs[0].shape[axis], corners, centers)
        share = places.share.reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        parts = (places.low, (1 << UNIT_BITS) - share), (places.high, share)
        low, high = (
            at.apply(
                "Mul", at.apply("Gather", name, at.places(each.tolist()), axis=axis), at.constant(part, np.float64)
            )
            for each, part in parts
        )
        name = at.apply("Add", low, high)
    whole = half_away(at, at.apply("Mul", name, at.constant(2.0 ** (-2 * UNIT_BITS), np.float64)), np.float64)
    at.is_finished = True
    return at.in_16_bits(whole)

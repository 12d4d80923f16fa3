"""Sums of weights, which the zero point of a layer's data is multiplied by where it is known only at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.operators.base import Array


def weights_met(weights: Array, image: Sequence[int], made: Sequence[int], attributes: Mapping[str, Any]) -> Array:
    """The sum of a filter's weights that are inside the image, at each place: [O, H, W]; [O] where these are all.

    Args:
        weights: [O, KH, KW, values], integers.
        image, made: heights and widths of data and outputs.
        attributes: `padding`, `stride` and `dilation` of the convolution.
    """
    each = weights.astype(np.int64).sum(axis=3)
    inside = [
        _inside(made[axis], image[axis], each.shape[1 + axis], *(attributes[name][axis] for name in _STEPS))
        for axis in (0, 1)
    ]
    if all(taps.all() for taps in inside):
        return np.asarray(each.sum(axis=(1, 2)).astype(np.int32))
    rows, columns = (taps.astype(np.int64) for taps in inside)
    return np.asarray(np.einsum("yk,okl,xl->oyx", rows, each, columns).astype(np.int32))


_STEPS = ("padding", "stride", "dilation")


def _inside(made: int, image: int, kernel: int, begin: int, stride: int, step: int) -> Array:
    """Which taps of a kernel are inside the image, [output, tap]."""
    places = np.arange(made)[:, None] * stride - begin + np.arange(kernel)[None, :] * step
    return np.asarray((places >= 0) & (places < image))

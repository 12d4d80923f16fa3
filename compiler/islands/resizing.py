"""Linear resizes of images in float: along rows first, then between rows. This module imports TVM.

TVM's own reads four values for each output, each from a place that it computes anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te

from int8tune.compiler.islands.functions import number

ACROSS = "across_rows"
"""The block of resized rows, of which each is read for several outputs."""

_MODES = ("half_pixel", "align_corners", "asymmetric")

Legalize = Callable[[Any, Any], Any]


def resize(builder: Any, call: Any, default: Legalize) -> Any:
    """A linear resize of images [N, C, H, W]; others are TVM's."""
    at, data = call.attrs, call.args[0]
    is_known = at.method == "linear" and at.layout == "NCHW" and at.coordinate_transformation_mode in _MODES
    if not is_known or data.ty.dtype.dtype != "float32":
        return default(builder, call)
    batch, channels, *size = (int(extent) for extent in data.ty.shape)
    made = [int(extent) for extent in call.ty.shape][2:]
    places = [_places(*each, at.coordinate_transformation_mode) for each in zip(size, made, strict=True)]

    def resized(image: Any, *known: Any) -> Any:
        (top, bottom, down), (left, right, along) = known[:3], known[3:]

        def across(n: Any, c: Any, y: Any, x: Any) -> Any:
            return image[n, c, y, left[x]] * (number(1.0) - along[x]) + image[n, c, y, right[x]] * along[x]

        rows = te.compute((batch, channels, size[0], made[1]), across, name=ACROSS)

        def between(n: Any, c: Any, y: Any, x: Any) -> Any:
            return rows[n, c, top[y], x] * (number(1.0) - down[y]) + rows[n, c, bottom[y], x] * down[y]

        return te.compute((batch, channels, *made), between, name="between_rows")

    known = [relax.const(each) for axis in places for each in axis]
    return builder.call_te(resized, data, *known, primfunc_name_hint="resize")


def _places(extent: int, made: int, mode: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """The input before each output along an axis, the one behind it, and its share of the latter."""
    one, half = np.float32(1), np.float32(0.5)
    at = np.arange(made, dtype=np.float32)
    if mode == "align_corners":
        at *= np.float32(extent - 1) / np.float32(max(made - 1, 1))
    else:
        scale = np.float32(extent) / np.float32(made)
        at = (at + half) * scale - half if mode == "half_pixel" else at * scale
    first = np.floor(at)
    before, behind = (np.clip(each, 0, extent - 1).astype(np.int32) for each in (first, first + one))
    return before, behind, at - first

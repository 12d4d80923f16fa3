"""Which taps of a window are inside the image: outputs near the border have fewer, and so a bias of their own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from int8tune.schedules.workload import Window

BorderClasses = tuple[tuple[int, ...], npt.NDArray[np.bool_]]
"""For each output row or column its class, and for each class which taps are inside the image."""


@lru_cache(maxsize=1024)
def axis_classes(window: Window, axis: int, extent: int, outputs: int) -> BorderClasses:
    """The classes along an axis: 0 for rows, 1 for columns. Forms of a space ask for the same ones many times.

    Args:
        extent: of the image, without its border.
        outputs: along this axis.
    """
    first = np.arange(outputs) * window.stride[axis] - window.padding[axis]
    taps = first[:, None] + np.arange(window.kernel[axis]) * window.dilation[axis]
    classes = classes_of((taps >= 0) & (taps < extent))
    classes[1].flags.writeable = False
    return classes


def classes_of(inside: npt.NDArray[np.bool_]) -> BorderClasses:
    """Neighbours with the same taps inside share a class; inside: [outputs, taps]."""
    changes = np.r_[False, (inside[1:] != inside[:-1]).any(axis=1)]
    return tuple(np.cumsum(changes).tolist()), inside[np.r_[True, changes[1:]]]


def taps_of_both(rows: npt.NDArray[np.bool_], columns: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The taps of each pair of a row's and a column's class: [row classes * column classes, taps]."""
    both = rows[:, None, :, None] & columns[None, :, None, :]
    return both.reshape(len(rows) * len(columns), -1)

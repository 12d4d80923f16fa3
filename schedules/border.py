"""Which taps of a window are inside the image: outputs near the border have fewer, and so a bias of their own."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from int8tune.schedules.workload import Window


@dataclass(frozen=True, slots=True)
class Classes:
    """The class of each output row or column: they are runs of neighbours, however many outputs there are.

    Attributes:
        starts: the first output of each class, ascending from 0.
        outputs: how many there are.
    """

    starts: tuple[int, ...]
    outputs: int

    @property
    def changes(self) -> tuple[int, ...]:
        """The outputs whose class is not that of the one before."""
        return self.starts[1:]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many outputs each class has."""
        return tuple(np.diff([*self.starts, self.outputs]).tolist())

    def at(self, output: int) -> int:
        """The class of one."""
        return bisect_right(self.starts, output) - 1

    def of(self, first: int, count: int) -> tuple[int, ...]:
        """Those of so many neighbours."""
        return tuple(self.at(output) for output in range(first, first + count))


BorderClasses = tuple[Classes, npt.NDArray[np.bool_]]
"""The classes of output rows or columns, and for each class which taps are inside the image."""


@lru_cache(maxsize=1024)
def axis_classes(window: Window, axis: int, extent: int, outputs: int) -> BorderClasses:
    """The classes along an axis: 0 for rows, 1 for columns. Forms of a space ask for the same ones many times.

    Args:
        extent: of the image, without its border.
        outputs: along this axis.
    """
    stride, before = window.stride[axis], window.padding[axis]
    taps = np.arange(window.kernel[axis]) * window.dilation[axis] - before
    # The first outputs whose tap is inside the image, and behind it.
    firsts = np.concatenate([[0], -(taps // stride), -((taps - extent) // stride)])
    starts = np.unique(firsts[(firsts >= 0) & (firsts < outputs)])
    places = starts[:, None] * stride + taps
    inside = (places >= 0) & (places < extent)
    is_change = np.r_[True, (inside[1:] != inside[:-1]).any(axis=1)]
    return _classes(tuple(starts[is_change].tolist()), outputs, inside[is_change])


@lru_cache(maxsize=64)
def one_class(taps: int, outputs: int) -> BorderClasses:
    """All taps of all outputs are inside."""
    return _classes((0,), outputs, np.ones((1, taps), np.bool_))


def _classes(starts: tuple[int, ...], outputs: int, inside: npt.NDArray[np.bool_]) -> BorderClasses:
    inside.flags.writeable = False
    return Classes(starts, outputs), inside


def taps_of_both(rows: npt.NDArray[np.bool_], columns: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The taps of each pair of a row's and a column's class: [row classes * column classes, taps]."""
    both = rows[:, None, :, None] & columns[None, :, None, :]
    return both.reshape(len(rows) * len(columns), -1)

"""An operand layout that changes nothing: what forms share."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from int8tune.schedules.image import Image
from int8tune.schedules.workload import DepthwiseConv2d


class PlainLayout:
    """Data and weights keep their values, channels their order; the border is filled, so all taps are multiplied.

    The rest of `schedules.template.OperandLayout` is how a form packs its weights.
    """

    __slots__ = ()

    data_offset: ClassVar[int] = 0

    @property
    def problem(self) -> Image | DepthwiseConv2d:
        """What has the layer's window and output channels."""
        raise NotImplementedError

    @property
    def channels(self) -> npt.NDArray[np.int64]:
        return np.arange(self.problem.out_channels)

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]:
        return np.ones((1, math.prod(self.problem.window.kernel)), bool)

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:  # noqa: ARG002
        return zero_point

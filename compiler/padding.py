"""The border that makes as many outputs as an axis has strides: TensorFlow's SAME, ONNX's SAME_UPPER and SAME_LOWER."""

from __future__ import annotations

import math


def same_padding(extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The two sides of an axis, the narrower one first."""
    total = max(0, (math.ceil(extent / stride) - 1) * stride + (kernel - 1) * dilation + 1 - extent)
    return total // 2, total - total // 2

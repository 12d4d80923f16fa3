"""Classes of layers on a GPU: what fills it, and what is launched and over."""

from __future__ import annotations

from enum import StrEnum

from int8tune.schedules.workload import Dense, DepthwiseConv2d, Workload

# Products of M x N x K, from which on a layer is large.
LARGE_MACS = 1 << 31
_FEWEST_CHANNELS = 16


class GpuLayerClass(StrEnum):
    """Layers that the same thing limits, as tables name them. A layer with 2^31 multiply-adds is large."""

    DENSE_LARGE = "dense, large"
    POINTWISE_LARGE = "conv 1x1, large"
    SPATIAL_LARGE = "conv KxK, large"
    DENSE = "dense"
    POINTWISE = "conv 1x1"
    SPATIAL = "conv KxK"
    FIRST = "first conv"
    DEPTHWISE = "depthwise"

    @property
    def short(self) -> str:
        """As it is typed."""
        return self.name.lower().replace("_", "-")


def gpu_class_of(workload: Workload) -> GpuLayerClass:
    is_large = workload.macs >= LARGE_MACS
    if isinstance(workload, Dense):
        return GpuLayerClass.DENSE_LARGE if is_large else GpuLayerClass.DENSE
    if isinstance(workload, DepthwiseConv2d):
        return GpuLayerClass.DEPTHWISE
    if workload.in_channels < _FEWEST_CHANNELS:
        return GpuLayerClass.FIRST
    if workload.window.kernel == (1, 1):
        return GpuLayerClass.POINTWISE_LARGE if is_large else GpuLayerClass.POINTWISE
    return GpuLayerClass.SPATIAL_LARGE if is_large else GpuLayerClass.SPATIAL

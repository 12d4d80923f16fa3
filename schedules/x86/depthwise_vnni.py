"""Depthwise convolution by `vpdpbusd` on 512-bit registers, over vertical taps."""

from __future__ import annotations

from collections.abc import Mapping

from schedules.depthwise import DepthwiseForm, depthwise_kernel, depthwise_space
from schedules.space import ConfigSpace, Value
from schedules.target import Target
from schedules.template import Kernel, Rejection
from schedules.workload import DepthwiseConv2d, Workload
from schedules.x86.offsets import vnni_offsets

LANES, TAPS = 16, 4


class DepthwiseVnni:
    """Four vertical neighbours of a channel are packed into one word; a packed column serves all outputs around it."""

    name = "x86.depthwise_vnni"
    version = 1

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile != "x86-avx512vnni":
            return Rejection(f"needs target x86-avx512vnni, this one is {target.name}")
        if not isinstance(workload, DepthwiseConv2d):
            return Rejection(f"takes dwconv2d, not {workload.op}")
        if workload.out_channels < LANES:
            return Rejection(f"needs at least {LANES} output channels, the layer has {workload.out_channels}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, DepthwiseConv2d)
        return depthwise_space(workload, LANES, target.vector_registers, lambda config: _form(workload, config))

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, DepthwiseConv2d)
        from schedules.depthwise_schedule import schedule_depthwise
        from schedules.intrinsics.x86_vnni import register_dot_16x4_packed

        self.space(workload, target).check(config)
        form = _form(workload, config)
        return depthwise_kernel(form, schedule_depthwise(form, config, register_dot_16x4_packed()))


def _form(workload: DepthwiseConv2d, config: Mapping[str, Value]) -> DepthwiseForm:
    columns, blocks = int(config["tile_columns"]), int(config["tile_blocks"])
    return DepthwiseForm(workload, LANES, TAPS, columns, blocks, *vnni_offsets(workload))

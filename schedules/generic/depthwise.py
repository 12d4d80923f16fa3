"""Depthwise convolution by widening multiply-adds, on any CPU."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.schedules.generic.depthwise_form import DepthwiseForm, depthwise_kernel, depthwise_space
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection, Scheduled
from int8tune.schedules.tiles import filled_lanes
from int8tune.schedules.workload import DepthwiseConv2d, Workload


class DepthwiseGeneric:
    """A register tile of output columns and blocks of as many channels as a vector holds, one tap at a time."""

    name = "generic.depthwise"
    version = 1

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.gpu is not None:
            return Rejection(f"needs a CPU, not {target.name}")
        if not isinstance(workload, DepthwiseConv2d):
            return Rejection(f"takes dwconv2d, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, DepthwiseConv2d)
        lanes = filled_lanes(target.vector_lanes, workload.out_channels)
        registers = target.vector_registers
        return depthwise_space(workload, lanes, registers, lambda config: _form(workload, lanes, config))

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, DepthwiseConv2d)
        config = self.space(workload, target).check(config)
        form = _form(workload, filled_lanes(target.vector_lanes, workload.out_channels), config)
        return depthwise_kernel(form, self.scheduled(workload, target, config).function)

    def scheduled(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Scheduled:
        assert isinstance(workload, DepthwiseConv2d)
        from int8tune.schedules.generic.depthwise_schedule import schedule_depthwise

        config = self.space(workload, target).check(config)
        form = _form(workload, filled_lanes(target.vector_lanes, workload.out_channels), config)
        return schedule_depthwise(form, config, target.threads)


def _form(workload: DepthwiseConv2d, lanes: int, config: Mapping[str, Value]) -> DepthwiseForm:
    return DepthwiseForm(workload, lanes, int(config["tile_columns"]), int(config["tile_blocks"]))

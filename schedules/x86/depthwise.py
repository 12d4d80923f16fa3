"""Depthwise convolution by int8 dot products on x86 vector registers, over vertical taps."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import DepthwiseConv2d, Workload
from int8tune.schedules.x86.depthwise_form import depthwise_form
from int8tune.schedules.x86.depthwise_space import depthwise_space, estimated_cycles
from int8tune.schedules.x86.registers import REGISTERS
from int8tune.schedules.x86.threads import threaded_space, threads_of


class DepthwiseX86:
    """Four vertical neighbours of a channel are one word; the words of an input column serve all outputs around it."""

    name = "x86.depthwise"
    version = 2

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile not in REGISTERS:
            return Rejection(f"needs target {' or '.join(REGISTERS)}, this one is {target.name}")
        if not isinstance(workload, DepthwiseConv2d):
            return Rejection(f"takes dwconv2d, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, DepthwiseConv2d)
        registers = REGISTERS[target.profile]

        def cycles(config: Mapping[str, Value], threads: int) -> float:
            return estimated_cycles(depthwise_form(workload, registers, config, threads))

        return threaded_space(lambda threads: depthwise_space(workload, registers, threads), cycles, target.threads)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, DepthwiseConv2d)
        from int8tune.schedules.intrinsics.x86_vectors import VECTORS
        from int8tune.schedules.x86.depthwise_kernel import write_depthwise

        config = self.space(workload, target).check(config)
        form = depthwise_form(workload, REGISTERS[target.profile], config, threads_of(config))
        function = write_depthwise(form, VECTORS[target.profile])
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

"""Depthwise convolution by int8 dot products on x86 vector registers, over vertical taps."""

from __future__ import annotations

import math
from collections.abc import Mapping

from schedules.space import ConfigSpace, Value
from schedules.target import Target
from schedules.template import Kernel, Rejection
from schedules.workload import DepthwiseConv2d, Workload
from schedules.x86.depthwise_form import depthwise_form
from schedules.x86.depthwise_space import depthwise_space, estimated_cycles
from schedules.x86.registers import REGISTERS
from schedules.x86.threads import threaded_space, threads_of


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
        from schedules.intrinsics.x86_vectors import VECTORS
        from schedules.x86.depthwise_kernel import write_depthwise

        self.space(workload, target).check(config)
        form = depthwise_form(workload, REGISTERS[target.profile], config, threads_of(config))
        function = write_depthwise(form, VECTORS[target.profile])
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

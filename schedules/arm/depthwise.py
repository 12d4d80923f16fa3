"""Depthwise convolution on ARM vector registers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.arm.conv import PROFILES
from int8tune.schedules.arm.depthwise_form import depthwise_form
from int8tune.schedules.arm.depthwise_space import depthwise_space
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import DepthwiseConv2d, Workload


class DepthwiseArm:
    """A register tile of output columns and channels, one channel a lane; two taps' products share 16 bits."""

    name = "arm.depthwise"
    version = 1

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile not in PROFILES:
            return Rejection(f"needs target {' or '.join(PROFILES)}, this one is {target.name}")
        if not isinstance(workload, DepthwiseConv2d):
            return Rejection(f"takes dwconv2d, not {workload.op}")
        if workload.multiplier > 1:
            return Rejection(f"takes one output channel for each channel, not {workload.multiplier}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, DepthwiseConv2d)
        return depthwise_space(workload, target.threads)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, DepthwiseConv2d)
        from int8tune.schedules.arm.depthwise_kernel import write_depthwise

        config = self.space(workload, target).check(config)
        form = depthwise_form(workload, config, target.threads)
        function = write_depthwise(form)
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

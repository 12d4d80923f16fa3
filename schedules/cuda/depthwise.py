"""Depthwise convolutions on NVIDIA's GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.cuda.depthwise_form import depthwise_form
from int8tune.schedules.cuda.depthwise_space import depthwise_space
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import DepthwiseConv2d, Workload


class DepthwiseCuda:
    """A tile of outputs in each thread, which may go down the image; rows become words, multiplied by DP4A."""

    name = "cuda.depthwise"
    version = 4

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.gpu is None:
            return Rejection(f"needs target {' or '.join(GPU_PROFILES)}, this one is {target.name}")
        if not isinstance(workload, DepthwiseConv2d):
            return Rejection(f"takes dwconv2d, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, DepthwiseConv2d)
        assert target.gpu is not None
        return depthwise_space(workload, target.gpu)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, DepthwiseConv2d)
        assert target.gpu is not None
        from int8tune.schedules.cuda.depthwise_kernel import write_depthwise
        from int8tune.schedules.cuda.depthwise_walk_kernel import write_depthwise_walk

        config = self.space(workload, target).check(config)
        form = depthwise_form(workload, config)
        write = write_depthwise_walk if form.walks else write_depthwise
        function = write(workload, form, target.gpu)
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

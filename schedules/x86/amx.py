"""conv2d and dense by products of AMX tile registers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Conv2d, Dense, Workload
from int8tune.schedules.x86.amx_form import LANES
from int8tune.schedules.x86.amx_space import amx_form, amx_space, estimated_cycles
from int8tune.schedules.x86.threads import threaded_space, threads_of

PROFILE = "x86-amx"


class AmxX86:
    """Blocks of 16 x 16 sums, 64 taps of a run an instruction, in each of the four combinations of signs."""

    name = "x86.amx"
    version = 2

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile != PROFILE:
            return Rejection(f"needs target {PROFILE}, this one is {target.name}")
        if not isinstance(workload, Conv2d | Dense):
            return Rejection(f"takes conv2d and dense, not {workload.op}")
        image = image_of(workload)
        if image.groups > 1:
            return Rejection(f"takes one group of channels, this layer has {image.groups}")
        if image.batch * math.prod(image.output) == 1:
            return Rejection("takes layers whose weights are used more than once, this one has one output a channel")
        if image.out_channels < LANES // 2:
            return Rejection(f"takes at least {LANES // 2} output channels, this layer has {image.out_channels}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d | Dense)
        image = image_of(workload)

        def cycles(config: Mapping[str, Value], threads: int) -> float:
            return estimated_cycles(amx_form(image, config, threads))

        # Kernels of several threads became faster before there was a knob for them.
        return threaded_space(
            lambda threads: amx_space(image, threads), cycles, target.threads, old_records_apply=False
        )

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        from int8tune.schedules.intrinsics.x86_vectors import VECTORS
        from int8tune.schedules.x86.amx_kernel import write_amx

        config = self.space(workload, target).check(config)
        form = amx_form(image_of(workload), config, threads_of(config))
        function = write_amx(workload, form, VECTORS[target.profile])
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

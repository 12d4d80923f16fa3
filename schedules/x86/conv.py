"""conv2d and dense by int8 dot products on x86 vector registers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Conv2d, Dense, Workload
from int8tune.schedules.x86.conv_form import conv_form
from int8tune.schedules.x86.conv_space import conv_space, estimated_cycles
from int8tune.schedules.x86.offsets import dot_offsets
from int8tune.schedules.x86.registers import REGISTERS
from int8tune.schedules.x86.threads import threaded_space, threads_of


class ConvX86:
    """A register tile of output columns and registers of output channels, four taps of a run an instruction.

    The dot product multiplies u8 data by s8 weights: s8 data is shifted up by 128, u8 weights down.
    """

    name = "x86.conv"
    version = 3

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile not in REGISTERS:
            return Rejection(f"needs target {' or '.join(REGISTERS)}, this one is {target.name}")
        if not isinstance(workload, Conv2d | Dense):
            return Rejection(f"takes conv2d and dense, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d | Dense)
        image, registers, offsets = image_of(workload), REGISTERS[target.profile], dot_offsets(workload)

        def cycles(config: Mapping[str, Value], threads: int) -> float:
            return estimated_cycles(conv_form(image, registers, config, offsets, threads))

        return threaded_space(lambda threads: conv_space(image, registers, offsets, threads), cycles, target.threads)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        from int8tune.schedules.intrinsics.x86_vectors import VECTORS
        from int8tune.schedules.x86.conv_kernel import write_conv

        config = self.space(workload, target).check(config)
        registers, offsets = REGISTERS[target.profile], dot_offsets(workload)
        form = conv_form(image_of(workload), registers, config, offsets, threads_of(config))
        function = write_conv(workload, form, VECTORS[target.profile])
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

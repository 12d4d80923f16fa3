"""conv2d with narrow groups by int8 dot products on x86 vector registers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Conv2d, Workload
from int8tune.schedules.x86.grouped_form import group_words, grouped_form
from int8tune.schedules.x86.grouped_space import MAX_DOTS, estimated_cycles, grouped_space
from int8tune.schedules.x86.offsets import dot_offsets
from int8tune.schedules.x86.registers import REGISTERS
from int8tune.schedules.x86.threads import threaded_space, threads_of

# Wider groups fill the registers of a tile on their own, and broadcasting their data from memory is as fast.
MAX_GROUP_OUTPUTS = 32


class GroupedX86:
    """Lanes run over the output channels of several groups; a pixel's words are permuted to the lanes of their group.

    The dot product multiplies u8 data by s8 weights: s8 data is shifted up by 128, u8 weights down.
    """

    name = "x86.grouped"
    version = 3

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile not in REGISTERS:
            return Rejection(f"needs target {' or '.join(REGISTERS)}, this one is {target.name}")
        if not isinstance(workload, Conv2d):
            return Rejection(f"takes conv2d with several groups, not {workload.op}")
        if workload.groups == 1:
            return Rejection("takes conv2d with several groups, the layer has one")
        lanes = REGISTERS[target.profile].lanes
        inputs, outputs = workload.in_channels // workload.groups, workload.out_channels // workload.groups
        if outputs > MAX_GROUP_OUTPUTS:
            return Rejection(f"takes at most {MAX_GROUP_OUTPUTS} output channels per group, the layer has {outputs}")
        most = most_inputs(outputs, lanes)
        if inputs > most:
            return Rejection(
                f"takes at most {most} input channels for {outputs} outputs per group, the layer has {inputs}"
            )
        words = group_words(inputs, workload.window.kernel[1])
        dots = words.count * words.steps * math.ceil(outputs / lanes)
        if dots > MAX_DOTS:
            return Rejection(f"takes kernel rows of at most {MAX_DOTS} dot products, the layer's have {dots}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d)
        image, registers, offsets = image_of(workload), REGISTERS[target.profile], dot_offsets(workload)

        def cycles(config: Mapping[str, Value], threads: int) -> float:
            return estimated_cycles(grouped_form(image, registers, config, offsets, threads))

        return threaded_space(lambda threads: grouped_space(image, registers, offsets, threads), cycles, target.threads)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d)
        from int8tune.schedules.intrinsics.x86_vectors import VECTORS
        from int8tune.schedules.x86.grouped_kernel import write_grouped

        config = self.space(workload, target).check(config)
        registers, offsets = REGISTERS[target.profile], dot_offsets(workload)
        form = grouped_form(image_of(workload), registers, config, offsets, threads_of(config))
        function = write_grouped(workload, form, VECTORS[target.profile])
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))


def most_inputs(outputs: int, lanes: int) -> int:
    """Input channels per group up to which permuting them is faster than leaving lanes empty (`x86.conv`), as measured.

    The fewer lanes a group would fill on its own, the more a tile may span.
    """
    if 2 * outputs <= lanes:
        return min(64, 16 * outputs)
    return 32 if outputs < lanes else min(32, 2 * outputs)

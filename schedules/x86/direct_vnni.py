"""conv2d and dense by `vpdpbusd` on 512-bit registers."""

from __future__ import annotations

from collections.abc import Mapping

from schedules.direct import DirectForm, direct_form, direct_kernel, direct_space, image_of
from schedules.space import ConfigSpace, Value
from schedules.target import Target
from schedules.template import Kernel, Rejection
from schedules.workload import Conv2d, Dense, Workload
from schedules.x86.offsets import vnni_offsets

LANES, TAPS = 16, 4


class DirectVnni:
    """A register tile of output columns and blocks of 16 output channels, four taps an instruction.

    `vpdpbusd` multiplies u8 data by s8 weights: s8 data is shifted up by 128, u8 weights down.
    """

    name = "x86.direct_vnni"
    version = 1

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile != "x86-avx512vnni":
            return Rejection(f"needs target x86-avx512vnni, this one is {target.name}")
        if not isinstance(workload, Conv2d | Dense):
            return Rejection(f"takes conv2d and dense, not {workload.op}")
        outputs = image_of(workload).group_outputs
        if outputs < LANES:
            return Rejection(f"needs at least {LANES} output channels a group, the layer has {outputs}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d | Dense)
        _, weight_offset = vnni_offsets(workload)
        return direct_space(image_of(workload), LANES, TAPS, target.vector_registers, weight_offset)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        from schedules.direct_schedule import schedule_direct
        from schedules.intrinsics.x86_vnni import register_dot_16x4

        self.space(workload, target).check(config)
        form = _form(workload, config)
        return direct_kernel(form, schedule_direct(form, config, register_dot_16x4()))


def _form(workload: Conv2d | Dense, config: Mapping[str, Value]) -> DirectForm:
    return direct_form(image_of(workload), LANES, TAPS, config, *vnni_offsets(workload))

"""conv2d and dense by widening multiply-adds, on any CPU."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.schedules.generic.direct_form import direct_form, direct_kernel, direct_space
from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection, Scheduled
from int8tune.schedules.tiles import filled_lanes
from int8tune.schedules.workload import Conv2d, Dense, Workload


class DirectGeneric:
    """A register tile of output columns and blocks of as many output channels as a vector holds, one tap at a time."""

    name = "generic.direct"
    version = 1

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.gpu is not None:
            return Rejection(f"needs a CPU, not {target.name}")
        if not isinstance(workload, Conv2d | Dense):
            return Rejection(f"takes conv2d and dense, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d | Dense)
        return direct_space(image_of(workload), _lanes(workload, target), target.vector_registers)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        config = self.space(workload, target).check(config)
        form = direct_form(image_of(workload), _lanes(workload, target), config)
        return direct_kernel(form, self.scheduled(workload, target, config).function)

    def scheduled(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Scheduled:
        assert isinstance(workload, Conv2d | Dense)
        from int8tune.schedules.generic.direct_schedule import schedule_direct

        config = self.space(workload, target).check(config)
        form = direct_form(image_of(workload), _lanes(workload, target), config)
        return schedule_direct(form, config, target.threads)


def _lanes(workload: Conv2d | Dense, target: Target) -> int:
    return filled_lanes(target.vector_lanes, image_of(workload).group_outputs)

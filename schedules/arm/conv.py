"""conv2d and dense on ARM vector registers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.arm.blocked_form import BlockedForm
from int8tune.schedules.arm.conv_form import conv_form
from int8tune.schedules.arm.conv_space import conv_space
from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Conv2d, Dense, Workload

# The profiles, and whether they have dot products.
PROFILES = {"arm-neon": False, "arm-dotprod": True}


class ConvArm:
    """A register tile of output columns and channels; bytes are multiplied in 16 bits, widened, or as dot products."""

    name = "arm.conv"
    version = 2

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.profile not in PROFILES:
            return Rejection(f"needs target {' or '.join(PROFILES)}, this one is {target.name}")
        if not isinstance(workload, Conv2d | Dense):
            return Rejection(f"takes conv2d and dense, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d | Dense)
        return conv_space(image_of(workload), PROFILES[target.profile], target.threads)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        from int8tune.schedules.arm.blocked_kernel import write_blocked
        from int8tune.schedules.arm.conv_kernel import write_conv

        config = self.space(workload, target).check(config)
        form = conv_form(image_of(workload), config, target.threads)
        function = write_blocked(workload, form) if isinstance(form, BlockedForm) else write_conv(workload, form)
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

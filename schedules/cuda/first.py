"""First layers on NVIDIA's GPUs: windows of few channels, taken out of the image in shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

from int8tune.schedules.cuda.first_form import SHARING
from int8tune.schedules.cuda.first_space import first_space
from int8tune.schedules.gpus import GPU_PROFILES, WORD_BYTES
from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Conv2d, Workload

# With fewer channels most products would be of nothing; pixels of more bytes than that are copied in units of eight.
FEWEST_OUTPUTS, UNIT_BYTES = 16, 8
# Rows of a window for four lanes: of fewer most lanes would have nothing to do.
FEWEST_ROWS = 2
MOST_WORDS = 28


class FirstCuda:
    """A lane takes rows of windows from the image in shared memory, and tensor cores multiply its registers."""

    name = "cuda.first"
    version = 2

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.gpu is None:
            return Rejection(f"needs target {' or '.join(GPU_PROFILES)}, this one is {target.name}")
        if not isinstance(workload, Conv2d):
            return Rejection(f"takes conv2d, not {workload.op}")
        window = workload.window
        if workload.groups > 1 or window.dilation[1] > 1:
            return Rejection("takes windows whose rows are one run of bytes: no groups, no dilated columns")
        if workload.in_channels % UNIT_BYTES == 0 or window.kernel[0] < FEWEST_ROWS:
            return Rejection(
                f"takes windows of {FEWEST_ROWS} rows or more, of channels that are no multiple of {UNIT_BYTES}"
            )
        words = math.ceil(window.kernel[0] / SHARING) * math.ceil(window.kernel[1] * workload.in_channels / WORD_BYTES)
        if words > MOST_WORDS:
            return Rejection(f"takes windows of at most {MOST_WORDS} words for each lane, this has {words}")
        if workload.numerics.weight_zero_point:
            return Rejection("takes weights without a zero point: data is not summed")
        if workload.out_channels < FEWEST_OUTPUTS:
            return Rejection(f"needs {FEWEST_OUTPUTS} output channels or more, this has {workload.out_channels}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d)
        assert target.gpu is not None
        return first_space(image_of(workload), target.gpu)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d)
        assert target.gpu is not None
        from int8tune.schedules.cuda.first_form import first_form
        from int8tune.schedules.cuda.first_kernel import write_first

        config = self.space(workload, target).check(config)
        form = first_form(image_of(workload), config)
        function = write_first(workload, form, target.gpu)
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))

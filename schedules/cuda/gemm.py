"""conv2d and dense on NVIDIA's GPUs, as products of matrices that are read from the image in place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from int8tune.schedules.cuda.gemm_form import gemm_form
from int8tune.schedules.cuda.gemm_space import gemm_space
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.image import image_of
from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Conv2d, Dense, Workload

# Of the smallest matrix of weights: with fewer channels than that most products would be of nothing.
MATRIX_COLUMNS = 8
# The same for four warps, and of their rows: with fewer than a quarter of a matrix's a warp alone does it.
GROUP_COLUMNS = 16


class _Gemm:
    """What both templates share; `products` is how they multiply."""

    products: ClassVar[str]

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.gpu is None:
            return Rejection(f"needs target {' or '.join(GPU_PROFILES)}, this one is {target.name}")
        if not isinstance(workload, Conv2d | Dense):
            return Rejection(f"takes conv2d and dense, not {workload.op}")
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        assert isinstance(workload, Conv2d | Dense)
        assert target.gpu is not None
        return gemm_space(image_of(workload), self.products, target.gpu)

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        assert target.gpu is not None
        from int8tune.schedules.cuda.gemm_kernel import GemmWriter
        from int8tune.schedules.cuda.gemm_roles import RolesWriter

        config = self.space(workload, target).check(config)
        form = gemm_form(image_of(workload), self.products, config)
        function = (RolesWriter if form.has_roles else GemmWriter)(workload, form, target.gpu).function()
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))


class MatricesCuda(_Gemm):
    """Tensor cores (`mma.sync`): the warps of a block multiply matrices of 16 x 32 and 32 x 8 bytes."""

    name = "cuda.mma"
    version = 4
    products = "mma"

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if rejection := super().rejects(workload, target):
            return rejection
        assert isinstance(workload, Conv2d | Dense)
        outputs = image_of(workload).group_outputs
        if outputs < MATRIX_COLUMNS:
            return Rejection(f"needs groups of {MATRIX_COLUMNS} output channels or more, these have {outputs}")
        return None


class GroupsCuda(_Gemm):
    """Hopper's tensor cores (`wgmma`): four warps multiply matrices of 64 x 32 bytes and up to 256 columns at once."""

    name = "cuda.wgmma"
    version = 6
    products = "wgmma"

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        if target.gpu is None or not target.gpu.has_group_products:
            return Rejection(f"needs target cuda-sm90, this one is {target.name}")
        if rejection := super().rejects(workload, target):
            return rejection
        assert isinstance(workload, Conv2d | Dense)
        image = image_of(workload)
        if workload.numerics.weight_zero_point:
            return Rejection("takes weights without a zero point: sums of data have no matrix of their own")
        if image.group_outputs < GROUP_COLUMNS or image.batch * math.prod(image.output) < GROUP_COLUMNS:
            return Rejection(f"needs {GROUP_COLUMNS} outputs or more, of {GROUP_COLUMNS} channels a group or more")
        return None


class WordsCuda(_Gemm):
    """DP4A: each thread multiplies words of four bytes. For layers that are too small for tensor cores."""

    name = "cuda.dp4a"
    version = 4
    products = "dp4a"

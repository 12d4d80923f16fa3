"""PyTorch's int8 product, `torch._int_mm`: int32 sums by cuBLASLt, and the algorithm that this thinks best."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.gpu.cuda import Cuda
from int8tune.tuner.bench.gpu.peers.matrices import is_product, matrices_of, product_form
from int8tune.tuner.bench.peers.base import Array, LoadedLayer
from int8tune.tuner.bench.peers.registry import missing_distributions

# What `_int_mm_out_cuda` of PyTorch checks (aten/src/ATen/native/cuda/Blas.cpp).
FEWEST_ROWS, MULTIPLE = 17, 8


class TorchProduct:
    """Dense layers and convolutions 1x1 of more than 16 rows; sums are kept as int32."""

    name = "torch"
    requires = ("torch",)

    def form(self, workload: Workload) -> Workload | Rejection:
        form = product_form(workload, "s32")
        if isinstance(form, Rejection):
            return form
        if not is_product(workload):
            return Rejection("is no product as its data lies")
        rows = int(np.prod(form.output_shape[:-1]))
        if rows < FEWEST_ROWS:
            return Rejection(f"needs {FEWEST_ROWS} rows or more: {rows}")
        if form.reduction % MULTIPLE:
            return Rejection(f"input channels must be a multiple of {MULTIPLE}: {form.reduction}")
        return form

    def is_installed(self) -> bool:
        return not missing_distributions(self.requires)

    def version(self) -> str:
        import torch

        return str(torch.__version__)

    def load(self, workload: Workload, operands: Operands, cuda: Cuda) -> LoadedLayer:
        return _Layer(workload, operands, cuda)


class _Layer:
    """Both factors on the GPU, and the stream on which torch is to work."""

    def __init__(self, workload: Workload, operands: Operands, cuda: Cuda) -> None:
        import torch

        device = torch.device("cuda", cuda.number)
        matrices = matrices_of(workload, operands)
        self._shape, self._channels = workload.output_shape, matrices.channels
        self._data: Any = torch.from_numpy(matrices.data).to(device)
        self._weight: Any = torch.from_numpy(matrices.weight).to(device).t()
        self._out: Any = torch.empty((matrices.rows, matrices.columns), dtype=torch.int32, device=device)
        self._stream: Any = torch.cuda.ExternalStream(cuda.stream.value, device=device)
        self._within = torch.cuda.stream
        self._product = torch._int_mm
        self._wait = torch.cuda.synchronize
        self._wait(device)

    def run(self) -> None:
        with self._within(self._stream):
            self._product(self._data, self._weight, out=self._out)

    def output(self) -> Array:
        self._wait()
        return np.ascontiguousarray(self._out.cpu().numpy()[:, : self._channels]).reshape(self._shape)

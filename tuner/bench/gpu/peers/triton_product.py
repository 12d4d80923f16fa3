"""A product with its requantization in one kernel of Triton: what a user of PyTorch writes, or has compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.schedules.numerics import Numerics, Requantize
from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.gpu.cuda import Cuda
from int8tune.tuner.bench.gpu.peers.matrices import ALIGNMENT, is_product, matrices_of, product_form
from int8tune.tuner.bench.peers.base import Array, LoadedLayer
from int8tune.tuner.bench.peers.registry import missing_distributions

# Fewer rows than a tensor core's matrix has are no job for such a kernel.
FEWEST_ROWS = 16


class TritonProduct:
    """Dense layers and convolutions 1x1, with a bias and a scale for each channel, to s8."""

    name = "triton"
    requires = ("triton", "torch")

    def form(self, workload: Workload) -> Workload | Rejection:
        form = product_form(workload, "s8")
        if isinstance(form, Rejection):
            return form
        if not is_product(workload):
            return Rejection("is no product as its data lies")
        rows = int(np.prod(form.output_shape[:-1]))
        if rows < FEWEST_ROWS:
            return Rejection(f"needs {FEWEST_ROWS} rows or more: {rows}")
        if form.reduction % ALIGNMENT:
            return Rejection(f"input channels must be a multiple of {ALIGNMENT}: {form.reduction}")
        return replace(form, numerics=Numerics("s8", "s8", "s8", Requantize("float", per_channel=True)))

    def is_installed(self) -> bool:
        return not missing_distributions(self.requires)

    def version(self) -> str:
        import triton

        return str(triton.__version__)

    def load(self, workload: Workload, operands: Operands, cuda: Cuda) -> LoadedLayer:
        return _Layer(workload, operands, cuda)


class _Layer:
    """The operands on the GPU, and the stream on which the kernel is to work."""

    def __init__(self, workload: Workload, operands: Operands, cuda: Cuda) -> None:
        import torch

        from int8tune.tuner.bench.gpu.peers.triton_kernel import multiply

        device = torch.device("cuda", cuda.number)
        matrices = matrices_of(workload, operands)
        missing = matrices.columns - matrices.channels
        factors = (np.pad(operands.bias, (0, missing)), np.pad(operands.scale.astype(np.float32), (0, missing)))
        given = (matrices.data, matrices.weight, *factors)
        self._given: tuple[Any, ...] = tuple(torch.from_numpy(array).to(device) for array in given)
        self._shape, self._channels = workload.output_shape, matrices.channels
        self._out: Any = torch.empty((matrices.rows, matrices.columns), dtype=torch.int8, device=device)
        self._stream: Any = torch.cuda.ExternalStream(cuda.stream.value, device=device)
        self._within, self._wait = torch.cuda.stream, torch.cuda.synchronize
        self._multiply: Callable[..., None] = multiply
        self._wait(device)
        # Tiles are tried now, not while a graph of calls is made.
        self.run()
        self._wait(device)

    def run(self) -> None:
        with self._within(self._stream):
            self._multiply(*self._given, self._out)

    def output(self) -> Array:
        self._wait()
        return np.ascontiguousarray(self._out.cpu().numpy()[:, : self._channels]).reshape(self._shape)

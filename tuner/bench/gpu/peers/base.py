"""The contract of a peer on a GPU: another library that computes int8 layers, or a part of them, there."""

from __future__ import annotations

from typing import Protocol

from int8tune.schedules.operands import Operands
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.gpu.cuda import Cuda
from int8tune.tuner.bench.peers.base import LoadedLayer, PeerForm


class GpuPeer(PeerForm, Protocol):
    """A library with kernels of its own. Its `form` has no zero points and no bias: `matrices.product_operands`."""

    def is_installed(self) -> bool:
        """Whether the library is here; a driver or a GPU need not be."""

    def version(self) -> str:
        """The library's version, as it says itself."""

    def load(self, workload: Workload, operands: Operands, cuda: Cuda) -> LoadedLayer:
        """Prepare a workload that `form` returned. Its `run` enqueues the layer on `cuda.stream` and does not wait.

        Raises:
            PeerError: the library refuses it.
            CudaError: there is no memory left.
        """

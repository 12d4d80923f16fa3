"""cuBLASLt's int8 products: dense layers and convolutions 1x1, and products of the same size for other convolutions.

What it can't do is left out: zero points, bias, and a scale for each channel. Its output is int32 sums, or sums scaled
by one number and rounded to int8, which takes one step more than none and as many bytes to write as a layer's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from int8tune.rpc.agent.cuda_libraries import find_library
from int8tune.rpc.session.timing import calls_that_fill
from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.gpu.cuda import Clock, Cuda
from int8tune.tuner.bench.gpu.libraries import CUBLASLT
from int8tune.tuner.bench.gpu.peers.lt import DataType, Layout, Lt, Places, Product
from int8tune.tuner.bench.gpu.peers.matrices import Matrices, ProductOutput, is_product, matrices_of, product_form
from int8tune.tuner.bench.peers.base import Array, LoadedLayer, PeerError

# https://docs.nvidia.com/cuda/cublas/ on `cublasLtMatmul`, what int8 kernels require: "Leading dimensions of matrices
# A, B, C must be multiples of 4", "Dimensions m and k must be multiples of 4".
MULTIPLE = 4
# https://docs.nvidia.com/cuda/cublas/ on `cublasSetWorkspace`: 32 MiB for Hopper, 4 MiB for older ones.
WORKSPACE_BYTES = 32 << 20
# What the heuristic offers is timed, and the fastest taken: so many algorithms, in so many turns of so long each.
ALGORITHMS, TURNS, TURN_S = 16, 3, 0.001


@dataclass(frozen=True, slots=True)
class CublasLt:
    """Products by the fastest of the algorithms that cuBLASLt's heuristic offers.

    Attributes:
        name: as the command line and records have it.
        output: what the product is written as.
        is_prepared: whether it takes convolutions that are no product as their data lies in memory, whose matrix was
            made before anything is timed; it takes those and no others, or else it takes all others.
    """

    name: str
    output: ProductOutput
    is_prepared: bool

    @property
    def requires(self) -> tuple[str, ...]:
        return ("nvidia-cublas",)

    def form(self, workload: Workload) -> Workload | Rejection:
        form = product_form(workload, self.output)
        if isinstance(form, Rejection):
            return form
        if is_product(workload) is self.is_prepared:
            return Rejection("is a product as its data lies" if self.is_prepared else "is no product as its data lies")
        if not self.is_prepared and form.reduction % MULTIPLE:
            return Rejection(f"input channels must be a multiple of {MULTIPLE}: {form.reduction}")
        return form

    def is_installed(self) -> bool:
        return find_library(CUBLASLT) is not None

    def version(self) -> str:
        return _library().version

    def load(self, workload: Workload, operands: Operands, cuda: Cuda) -> LoadedLayer:
        scale = float(operands.scale[0]) if self.output == "s8" else 1.0
        return _Layer(cuda, workload.output_shape, matrices_of(workload, operands), self.output, scale)


CUBLASLT_PEERS = (
    CublasLt("cublaslt", "s8", is_prepared=False),
    CublasLt("cublaslt-s32", "s32", is_prepared=False),
    CublasLt("cublaslt-gemm", "s8", is_prepared=True),
    CublasLt("cublaslt-gemm-s32", "s32", is_prepared=True),
)


class _Layer:
    """A product with the fastest algorithm, and matrices on the GPU."""

    def __init__(
        self, cuda: Cuda, shape: tuple[int, ...], matrices: Matrices, output: ProductOutput, scale: float
    ) -> None:
        self._cuda, self._shape, self._channels = cuda, shape, matrices.channels
        element, kind = (DataType.CUDA_R_8I, np.int8) if output == "s8" else (DataType.CUDA_R_32I, np.int32)
        rows, columns, depth = matrices.rows, matrices.columns, matrices.depth
        self._out: Array = np.zeros((rows, columns), kind)
        self._places = Places(
            first=cuda.upload(matrices.weight),
            second=cuda.upload(matrices.data),
            product=cuda.upload(self._out),
            workspace=cuda.allocate(WORKSPACE_BYTES),
        )
        # Rows that follow each other are the columns of cuBLASLt's matrices.
        factors = (
            Layout(DataType.CUDA_R_8I, depth, columns, depth),
            Layout(DataType.CUDA_R_8I, depth, rows, depth),
        )
        self._product = Product(_library(), factors, Layout(element, columns, rows, columns), scale, cuda.stream)
        self._algorithm = self._fastest(self._product.algorithms(ALGORITHMS, WORKSPACE_BYTES))

    def run(self) -> None:
        self._product.enqueue(self._algorithm, self._places)

    def output(self) -> Array:
        self._cuda.download(self._places.product, self._out)
        return np.ascontiguousarray(self._out[:, : self._channels]).reshape(self._shape)

    def _fastest(self, algorithms: Any) -> Any:
        """By its best turn. An algorithm that is named and does not run is passed over."""
        taken_s: list[tuple[float, Any]] = []
        refusals = []
        for algorithm in algorithms:
            try:
                taken_s.append((self._turn_s(algorithm), algorithm))
            except PeerError as error:
                refusals.append(str(error))
        if not taken_s:
            raise PeerError(f"none of cuBLASLt's {len(refusals)} algorithms runs: {refusals[0]}")
        return min(taken_s, key=lambda one: one[0])[1]

    def _turn_s(self, algorithm: Any) -> float:
        call = partial(self._product.enqueue, algorithm, self._places)
        call()
        self._cuda.synchronize()
        timed = _Timed(self._cuda, call)
        calls = calls_that_fill(timed, TURN_S)
        best_s = min(timed.mean_s(calls) for _ in range(TURNS))
        timed.close()
        return best_s


class _Timed:
    def __init__(self, cuda: Cuda, call: Any) -> None:
        self._clock = Clock(cuda)
        self._call = call

    def mean_s(self, calls: int) -> float:
        return self._clock.mean_s(self._call, calls)

    def close(self) -> None:
        self._clock.forget()


def _library() -> Lt:
    path = find_library(CUBLASLT)
    if path is None:
        raise PeerError(f"none of these libraries is here: {', '.join(CUBLASLT)}")
    return Lt(path)

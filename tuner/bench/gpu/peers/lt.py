"""As much of cuBLASLt's C API as a product of int8 matrices needs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from int8tune.tuner.bench.peers.base import PeerError

Handle = ctypes.c_void_p
Algorithm = ctypes.c_uint64 * 8
"""`cublasLtMatmulAlgo_t` of cublasLt.h."""


class _Result(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t` of cublasLt.h."""

    _fields_ = (
        ("algorithm", Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class DataType(IntEnum):
    """`cudaDataType_t` of library_types.h."""

    CUDA_R_32F = 0
    CUDA_R_8I = 3
    CUDA_R_32I = 10


# cublas_api.h of cuBLAS 13.0
CUBLAS_COMPUTE_32I = 72
CUBLAS_OP_N, CUBLAS_OP_T = 0, 1
CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_NOT_SUPPORTED = 0, 1, 15
# cublasLt.h of cuBLAS 13.0
CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB = 3, 4
CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1

_NUMBER, _PLACE, _BYTES = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
_PLACE_OUT = ctypes.POINTER(_PLACE)
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "cublasLtCreate": (_PLACE_OUT,),
    "cublasLtMatmulDescCreate": (_PLACE_OUT, _NUMBER, _NUMBER),
    "cublasLtMatmulDescSetAttribute": (_PLACE, _NUMBER, _PLACE, _BYTES),
    "cublasLtMatmulDescDestroy": (_PLACE,),
    "cublasLtMatrixLayoutCreate": (_PLACE_OUT, _NUMBER, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    "cublasLtMatrixLayoutDestroy": (_PLACE,),
    "cublasLtMatmulPreferenceCreate": (_PLACE_OUT,),
    "cublasLtMatmulPreferenceSetAttribute": (_PLACE, _NUMBER, _PLACE, _BYTES),
    "cublasLtMatmulPreferenceDestroy": (_PLACE,),
    "cublasLtMatmulAlgoGetHeuristic": (*[_PLACE] * 7, _NUMBER, ctypes.POINTER(_Result), ctypes.POINTER(_NUMBER)),
    "cublasLtMatmul": (*[_PLACE] * 14, _BYTES, _PLACE),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A matrix, column after column."""

    element: DataType
    rows: int
    columns: int
    leading: int


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses on the GPU of both factors, the product and memory that an algorithm may use."""

    first: int
    second: int
    product: int
    workspace: int


class Lt:
    """cuBLASLt's library, without a handle."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        for name, arguments in _FUNCTIONS.items():
            getattr(self._library, name).argtypes = arguments
        self._library.cublasLtGetVersion.restype = ctypes.c_size_t
        self._library.cublasLtGetStatusName.restype = ctypes.c_char_p

    @property
    def version(self) -> str:
        number = self._library.cublasLtGetVersion()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def handle(self) -> Handle:
        """Needs a GPU, which the thread uses already; it lives as long as the process."""
        return self.make("cublasLtCreate")

    def make(self, function: str, *arguments: Any) -> Handle:
        """Call a function that puts a new object where its first argument points."""
        made = Handle()
        self.call(function, ctypes.byref(made), *arguments)
        return made

    def call(self, function: str, *arguments: Any) -> None:
        """Raises: PeerError: the function says that it failed."""
        if status := getattr(self._library, function)(*arguments):
            raise PeerError(f"{function}: {self._library.cublasLtGetStatusName(status).decode()}")

    def set(self, function: str, described: Handle, attribute: int, value: Any) -> None:
        """Set an attribute to a ctypes value of the attribute's own size."""
        self.call(function, described, attribute, ctypes.byref(value), ctypes.sizeof(value))


class Product:
    """first^T * second, scaled: int8 matrices whose columns are the depth ("TN"), and int8 or int32 out of it.

    https://docs.nvidia.com/cuda/cublas/ on `cublasLtMatmul`: with int32 out, factors are int32 and sums are kept; with
    int8 out, they are float, and the scaled sum is rounded and saturated.
    """

    def __init__(self, lt: Lt, factors: tuple[Layout, Layout], product: Layout, scale: float, stream: Handle) -> None:
        self._lt, self._stream = lt, stream
        self._handle = lt.handle()
        is_kept = product.element is DataType.CUDA_R_32I
        self._alpha = ctypes.c_int32(1) if is_kept else ctypes.c_float(scale)
        self._beta = ctypes.c_int32(0) if is_kept else ctypes.c_float(0)
        self._described = lt.make(
            "cublasLtMatmulDescCreate",
            CUBLAS_COMPUTE_32I,
            DataType.CUDA_R_32I if is_kept else DataType.CUDA_R_32F,
        )
        for attribute, value in (
            (CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T),
            (CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N),
        ):
            lt.set("cublasLtMatmulDescSetAttribute", self._described, attribute, ctypes.c_int32(value))
        self._first, self._second, self._product = map(self._layout, (*factors, product))

    def algorithms(self, most: int, workspace_bytes: int) -> Sequence[Any]:
        """The algorithms that cuBLASLt thinks best, first the best one.

        Raises:
            PeerError: it has none.
        """
        found = (_Result * most)()
        count = ctypes.c_int()
        preference = self._lt.make("cublasLtMatmulPreferenceCreate")
        limit = ctypes.c_uint64(workspace_bytes)
        self._lt.set(
            "cublasLtMatmulPreferenceSetAttribute", preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limit
        )
        layouts = (self._first, self._second, self._product, self._product)
        self._lt.call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            self._described,
            *layouts,
            preference,
            most,
            found,
            ctypes.byref(count),
        )
        self._lt.call("cublasLtMatmulPreferenceDestroy", preference)
        able = [result for result in found[: count.value] if result.state == CUBLAS_STATUS_SUCCESS]
        if not able:
            raise PeerError(f"cuBLASLt has no algorithm for it, of {count.value} that it named")
        return able

    def enqueue(self, algorithm: Any, places: Places) -> None:
        """Enqueue the product by an algorithm that `algorithms` returned."""
        self._lt.call(
            "cublasLtMatmul",
            self._handle,
            self._described,
            ctypes.byref(self._alpha),
            places.first,
            self._first,
            places.second,
            self._second,
            ctypes.byref(self._beta),
            places.product,
            self._product,
            places.product,
            self._product,
            ctypes.byref(algorithm.algorithm),
            places.workspace,
            algorithm.workspace_bytes,
            self._stream,
        )

    def _layout(self, layout: Layout) -> Handle:
        return self._lt.make("cublasLtMatrixLayoutCreate", layout.element, layout.rows, layout.columns, layout.leading)

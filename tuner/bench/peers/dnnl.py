"""As much of oneDNN's C API as one int8 layer needs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from int8tune.tuner.bench.peers.base import Array, PeerError

Handle = ctypes.c_void_p
Memories = Sequence[tuple[int, Handle]]

# https://github.com/uxlfoundation/oneDNN, include/oneapi/dnnl/dnnl_types.h and dnnl_common_types.h
SOURCE, TARGET, WEIGHTS, BIAS = 1, 17, 33, 41
SCALES, ZERO_POINTS = 4096, 8192
F32, S32, S8, U8 = 3, 4, 5, 6
_ELEMENTS = {"float32": F32, "int32": S32, "int8": S8, "uint8": U8}
_CPU, _IN_ORDER = 1, 1
_ANY_LAYOUT = 1
_INFERENCE, _DIRECT = 96, 1
_QUERY_WEIGHTS_LAYOUT = 131
_NOTHING = Handle()


@dataclass(frozen=True, slots=True)
class Tensor:
    """Logical shape and element type, and the strides in elements of where it lies; without strides, oneDNN chooses."""

    shape: tuple[int, ...]
    element: int
    strides: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution, each part as (height, width); oneDNN counts dilation from 0."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]


class Dnnl:
    """A CPU engine and its stream. What is made of it lives as long as the process."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._engine = self._make("dnnl_engine_create", ctypes.c_int(_CPU), ctypes.c_size_t(0))
        self._stream = self._make("dnnl_stream_create", self._engine, ctypes.c_uint(_IN_ORDER))

    @property
    def version(self) -> str:
        self._library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
        return ".".join(map(str, self._library.dnnl_version().contents))

    def attributes(self, scales_mask: int, zero_points: Sequence[int]) -> Handle:
        """Weights with a scale for each index of the dimensions in the mask; one zero point for each given tensor."""
        made = self._make("dnnl_primitive_attr_create")
        self._call("dnnl_primitive_attr_set_scales_mask", made, ctypes.c_int(WEIGHTS), ctypes.c_int(scales_mask))
        for tensor in zero_points:
            self._call("dnnl_primitive_attr_set_zero_points_mask", made, ctypes.c_int(tensor), ctypes.c_int(0))
        return made

    def convolution(
        self, source: Tensor, weights: Tensor, bias: Tensor, target: Tensor, window: Window, attributes: Handle
    ) -> Handle:
        """A description of a convolution, for `primitive`."""
        extents = (window.stride, window.dilation, window.before, window.after)
        return self._make(
            "dnnl_convolution_forward_primitive_desc_create",
            self._engine,
            ctypes.c_int(_INFERENCE),
            ctypes.c_int(_DIRECT),
            *map(self._layout, (source, weights, bias, target)),
            *map(_extents, extents),
            attributes,
        )

    def inner_product(
        self, source: Tensor, weights: Tensor, bias: Tensor, target: Tensor, attributes: Handle
    ) -> Handle:
        """A description of a matrix product with transposed weights, for `primitive`."""
        return self._make(
            "dnnl_inner_product_forward_primitive_desc_create",
            self._engine,
            ctypes.c_int(_INFERENCE),
            *map(self._layout, (source, weights, bias, target)),
            attributes,
        )

    def memory(self, tensor: Tensor, array: Array) -> Handle:
        """A memory object on an array, which must stay where it is."""
        return self._make("dnnl_memory_create", self._layout(tensor), self._engine, Handle(array.ctypes.data))

    def vector(self, array: Array) -> Handle:
        return self.memory(Tensor(array.shape, _ELEMENTS[str(array.dtype)], (1,)), array)

    def packed(self, weights: Handle, description: Handle) -> Handle:
        """A copy of the memory object `weights` in the layout that a description chose."""
        query = self._library.dnnl_primitive_desc_query_md
        query.restype = Handle
        chosen = Handle(query(description, ctypes.c_int(_QUERY_WEIGHTS_LAYOUT), ctypes.c_int(0)))
        plain = Handle()
        self._call("dnnl_memory_get_memory_desc", weights, ctypes.byref(plain))
        how = self._make("dnnl_reorder_primitive_desc_create", plain, self._engine, chosen, self._engine, _NOTHING)
        # Minus one: memory of the library's own.
        copy = self._make("dnnl_memory_create", chosen, self._engine, Handle(-1))
        self.execution(how, [(SOURCE, weights), (TARGET, copy)])()
        return copy

    def execution(self, description: Handle, memories: Memories) -> Callable[[], None]:
        """The primitive of a description, ready to be executed on these memory objects."""
        primitive = self._make("dnnl_primitive_create", description)
        arguments = (_Argument * len(memories))(*(_Argument(*memory) for memory in memories))
        execute, stream, count = self._library.dnnl_primitive_execute, self._stream, ctypes.c_int(len(memories))

        def run() -> None:
            if execute(primitive, stream, count, arguments):
                raise PeerError("dnnl_primitive_execute failed")

        return run

    def _layout(self, tensor: Tensor) -> Handle:
        head = ctypes.c_int(len(tensor.shape)), _extents(tensor.shape), ctypes.c_int(tensor.element)
        if tensor.strides:
            return self._make("dnnl_memory_desc_create_with_strides", *head, _extents(tensor.strides))
        return self._make("dnnl_memory_desc_create_with_tag", *head, ctypes.c_int(_ANY_LAYOUT))

    def _make(self, function: str, *arguments: Any) -> Handle:
        """Call a function that puts a new object where its first argument points."""
        made = Handle()
        self._call(function, ctypes.byref(made), *arguments)
        return made

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            raise PeerError(f"{function} returned status {status}")


class _Argument(ctypes.Structure):
    _fields_ = (("position", ctypes.c_int), ("memory", Handle))


def _extents(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)

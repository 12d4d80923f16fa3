"""CUDA's driver by ctypes: memory, machine code, launches and events, with nothing but Python's standard library.

Run as a program it holds a context until its standard input ends: without one the driver begins anew for each process.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

PLACES = ("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
_DYNAMIC_SHARED_BYTES = 8


class CudaError(Exception):
    """The driver said no; the text has its word for it."""


class Gpu:
    """The first GPU, with a context."""

    def __init__(self) -> None:
        """Raises: CudaError: there is no driver, or no GPU."""
        self._library = _load()
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(200)
        self.call("cuDeviceGetName", name, 200, device)
        self.name = name.value.decode(errors="replace")

    def call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(f"{function}: {(text.value or b'?').decode()} ({code})")

    def allocate(self, content: bytes) -> int:
        """Memory with this content."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(len(content)))
        self.write(pointer.value, content)
        return pointer.value

    def write(self, pointer: int, content: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), content, ctypes.c_size_t(len(content)))

    def read(self, pointer: int, count: int) -> bytes:
        content = ctypes.create_string_buffer(count)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(pointer), ctypes.c_size_t(count))
        return content.raw

    def free(self, pointers: Sequence[int]) -> None:
        for pointer in pointers:
            self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def wait(self) -> None:
        self.call("cuCtxSynchronize")

    @contextmanager
    def function(self, cubin: bytes, name: str, shared_bytes: int) -> Iterator[ctypes.c_void_p]:
        """A kernel of some machine code."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        try:
            self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self.call("cuFuncSetAttribute", function, _DYNAMIC_SHARED_BYTES, shared_bytes)
            yield function
        finally:
            self.call("cuModuleUnload", module)

    def launch(
        self, function: ctypes.c_void_p, grid: Sequence[int], threads: int, shared_bytes: int, arguments: Sequence[int]
    ) -> None:
        values = (ctypes.c_uint64 * len(arguments))(*arguments)
        size = ctypes.sizeof(ctypes.c_uint64)
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(values) + i * size for i in range(len(values))))
        sizes = [*grid, *(1,) * (3 - len(grid)), threads, 1, 1]
        self.call("cuLaunchKernel", function, *sizes, shared_bytes, None, places, None)

    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def elapsed_s(self, begun: ctypes.c_void_p, done: ctypes.c_void_p) -> float:
        """Seconds between two events that were recorded."""
        taken_ms = ctypes.c_float()
        self.call("cuEventSynchronize", done)
        self.call("cuEventElapsedTime", ctypes.byref(taken_ms), begun, done)
        return taken_ms.value / 1e3


def _load() -> ctypes.CDLL:
    failed = ""
    for place in PLACES:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            failed = str(error)
    raise CudaError(f"no driver of NVIDIA's: {failed}")


if __name__ == "__main__":
    try:
        print(f"a context is held on {Gpu().name}", flush=True)
    except CudaError as error:
        print(f"no context is held: {error}", flush=True)
    sys.stdin.read()

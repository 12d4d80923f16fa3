"""As much of CUDA's runtime as a comparison needs: memory, a stream, and calls timed as nodes of a graph.

What `rpc/agent/gpu.cc` does, in Python: both time a repeat's calls as one graph between two events, because a launch
takes the host longer than many a kernel takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_NUMBER, _PLACE, _BYTES = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
_NUMBER_OUT, _PLACE_OUT, _BYTES_OUT = map(ctypes.POINTER, (_NUMBER, _PLACE, _BYTES))
# https://docs.nvidia.com/cuda/cuda-runtime-api/, cuda_runtime_api.h of CUDA 13.0; 12 has the same.
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "cudaGetDeviceCount": (_NUMBER_OUT,),
    "cudaSetDevice": (_NUMBER,),
    "cudaMalloc": (_PLACE_OUT, _BYTES),
    "cudaFree": (_PLACE,),
    "cudaMemGetInfo": (_BYTES_OUT, _BYTES_OUT),
    "cudaMemcpyAsync": (_PLACE, _PLACE, _BYTES, _NUMBER, _PLACE),
    "cudaDriverGetVersion": (_NUMBER_OUT,),
    "cudaRuntimeGetVersion": (_NUMBER_OUT,),
    "cudaGetLastError": (),
    "cudaGetErrorName": (_NUMBER,),
    "cudaGetErrorString": (_NUMBER,),
    "cudaStreamCreateWithFlags": (_PLACE_OUT, ctypes.c_uint),
    "cudaStreamSynchronize": (_PLACE,),
    "cudaStreamBeginCapture": (_PLACE, _NUMBER),
    "cudaStreamEndCapture": (_PLACE, _PLACE_OUT),
    "cudaGraphInstantiate": (_PLACE_OUT, _PLACE, ctypes.c_ulonglong),
    "cudaGraphLaunch": (_PLACE, _PLACE),
    "cudaGraphExecDestroy": (_PLACE,),
    "cudaGraphDestroy": (_PLACE,),
    "cudaEventCreate": (_PLACE_OUT,),
    "cudaEventRecord": (_PLACE, _PLACE),
    "cudaEventSynchronize": (_PLACE,),
    "cudaEventElapsedTime": (ctypes.POINTER(ctypes.c_float), _PLACE, _PLACE),
}
# driver_types.h of CUDA 13.0: cudaErrorMemoryAllocation, cudaErrorInsufficientDriver, cudaErrorNoDevice
_OUT_OF_MEMORY, _OLD_DRIVER, _NO_DEVICE = 2, 35, 100
# cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaStreamNonBlocking, cudaStreamCaptureModeRelaxed
_TO_DEVICE, _TO_HOST, _NON_BLOCKING, _RELAXED = 1, 2, 0x01, 2


class CudaError(Exception):
    """CUDA did not do what it was asked; the text is one line."""


class Cuda:
    """A GPU with a stream of this process.

    Attributes:
        number: of the GPU, as CUDA counts.
        stream: everything is to be enqueued there.
    """

    def __init__(self, number: int, runtime: Path) -> None:
        """`runtime` is CUDA's runtime library.

        Raises:
            CudaError: there is no driver, or it is too old, or there is no such GPU.
        """
        self._library = ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
        for name, arguments in _FUNCTIONS.items():
            getattr(self._library, name).argtypes = arguments
        for name in ("cudaGetErrorName", "cudaGetErrorString"):
            getattr(self._library, name).restype = ctypes.c_char_p
        self.number = number
        self._find_device()
        self._begin("cudaSetDevice", number)
        self._begin("cudaFree", None)  # makes the context
        self.stream = ctypes.c_void_p()
        self._begin("cudaStreamCreateWithFlags", ctypes.byref(self.stream), _NON_BLOCKING)
        self._begun, self._done = self._event(), self._event()
        self._memory: list[int] = []

    def allocate(self, size_bytes: int) -> int:
        """The address of memory, which `free_all` gives back.

        Raises:
            CudaError: so much is not left.
        """
        place = ctypes.c_void_p()
        error = self._library.cudaMalloc(ctypes.byref(place), max(size_bytes, 1))
        if error == _OUT_OF_MEMORY:
            raise CudaError(self._no_memory(size_bytes))
        self._check(error)
        assert place.value is not None
        self._memory.append(place.value)
        return place.value

    def upload(self, array: Array) -> int:
        """The address of memory with a copy of an array."""
        source = np.ascontiguousarray(array)
        place = self.allocate(source.nbytes)
        self._copy(place, source.ctypes.data, source.nbytes, _TO_DEVICE)
        return place

    def download(self, place: int, into: Array) -> None:
        """Copy memory into an array."""
        self._copy(into.ctypes.data, place, into.nbytes, _TO_HOST)

    def free_all(self) -> None:
        """Give all memory back."""
        while self._memory:
            self._library.cudaFree(self._memory.pop())

    def synchronize(self) -> None:
        """Until all that was enqueued is done.

        Raises:
            CudaError: some of it failed; nothing else works in this process then.
        """
        self._call("cudaStreamSynchronize", self.stream)

    def is_broken(self) -> bool:
        """Whether a kernel failed in such a way that this process can use no GPU any more."""
        return bool(self._library.cudaStreamSynchronize(self.stream))

    def capture(self, calls: Callable[[], None]) -> Graph:
        """What `calls` enqueues, as a graph."""
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cudaStreamBeginCapture", self.stream, _RELAXED)
        try:
            calls()
        except BaseException:
            self._library.cudaStreamEndCapture(self.stream, ctypes.byref(graph))
            raise
        self._call("cudaStreamEndCapture", self.stream, ctypes.byref(graph))
        try:
            self._call("cudaGraphInstantiate", ctypes.byref(ready), graph, 0)
        finally:
            self._library.cudaGraphDestroy(graph)
        return Graph(self, ready)

    def launch(self, ready: ctypes.c_void_p) -> None:
        """Run a graph to its end."""
        self._call("cudaGraphLaunch", ready, self.stream)
        self.synchronize()

    def seconds(self, ready: ctypes.c_void_p) -> float:
        """How long a graph takes, between two events."""
        taken_ms = ctypes.c_float()
        self._call("cudaEventRecord", self._begun, self.stream)
        self._call("cudaGraphLaunch", ready, self.stream)
        self._call("cudaEventRecord", self._done, self.stream)
        self._call("cudaEventSynchronize", self._done)
        self._call("cudaEventElapsedTime", ctypes.byref(taken_ms), self._begun, self._done)
        return taken_ms.value * 1e-3

    def forget(self, ready: ctypes.c_void_p) -> None:
        """Destroy a graph."""
        self._library.cudaGraphExecDestroy(ready)

    def _find_device(self) -> None:
        count = ctypes.c_int()
        self._begin("cudaGetDeviceCount", ctypes.byref(count))
        if not 0 <= self.number < count.value:
            raise CudaError(f"there is no GPU {self.number}, of {count.value} the last is {count.value - 1}")

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cudaEventCreate", ctypes.byref(event))
        return event

    def _copy(self, to: int, source: int, size_bytes: int, way: int) -> None:
        self._call("cudaMemcpyAsync", to, source, size_bytes, way, self.stream)
        self.synchronize()

    def _no_memory(self, size_bytes: int) -> str:
        free, everything = ctypes.c_size_t(), ctypes.c_size_t()
        self._library.cudaGetLastError()
        self._library.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(everything))
        return f"no memory left on the GPU for {size_bytes} bytes: {free.value} of {everything.value} are free"

    def _begin(self, function: str, *arguments: Any) -> None:
        """Call a function before any kernel ran: what fails there is the GPU's fault, or its driver's."""
        if not (error := getattr(self._library, function)(*arguments)):
            return
        driver, runtime = ctypes.c_int(), ctypes.c_int()
        self._library.cudaDriverGetVersion(ctypes.byref(driver))
        self._library.cudaRuntimeGetVersion(ctypes.byref(runtime))
        if driver.value == 0:
            raise CudaError("this machine has no driver of NVIDIA's")
        if error == _OLD_DRIVER:
            found, needed = version_text(driver.value), version_text(runtime.value)
            raise CudaError(f"its driver is too old: of CUDA {found}, needed {needed}")
        if error == _NO_DEVICE:
            raise CudaError("the driver finds no GPU")
        self._check(error)

    def _call(self, function: str, *arguments: Any) -> None:
        self._check(getattr(self._library, function)(*arguments))

    def _check(self, error: int) -> None:
        if error:
            name, text = self._library.cudaGetErrorName(error), self._library.cudaGetErrorString(error)
            raise CudaError(f"{name.decode()}: {text.decode()}")


class Graph:
    """Calls that are launched as one."""

    def __init__(self, cuda: Cuda, ready: ctypes.c_void_p) -> None:
        self._cuda = cuda
        self._ready = ready

    def run(self) -> None:
        self._cuda.launch(self._ready)

    def seconds(self) -> float:
        return self._cuda.seconds(self._ready)

    def close(self) -> None:
        self._cuda.forget(self._ready)


class Clock:
    """Times one function after another; the graph of the last one is kept, for its next turn."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._graph: Graph | None = None
        self._calls = 0

    def mean_s(self, call: Callable[[], None], calls: int) -> float:
        """Seconds per call of what `call` enqueues, averaged over `calls` calls after as many that are not counted."""
        if self._graph is None or calls != self._calls:
            self.forget()
            self._graph = self._cuda.capture(lambda: _repeat(call, calls))
            self._calls = calls
        self._graph.run()
        return self._graph.seconds() / calls

    def forget(self) -> None:
        """Make way for another function."""
        if self._graph:
            self._graph.close()
        self._graph = None


def version_text(version: int) -> str:
    """CUDA's 13000 as 13.0."""
    return f"{version // 1000}.{version // 10 % 100}"


def _repeat(call: Callable[[], None], calls: int) -> None:
    for _ in range(calls):
        call()

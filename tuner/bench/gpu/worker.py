"""The process of a contestant on a GPU: `python -m int8tune.tuner.bench.gpu.worker`, as `tuner.bench.worker`.

A turn's calls are one CUDA graph. A kernel that fails takes the GPU from its process for good, so that ends then.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from int8tune.rpc.agent.runtime_files import package_folder
from int8tune.rpc.local.cases import open_cases
from int8tune.rpc.protocol import program_from_json
from int8tune.rpc.wire.fields import Fields, text
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.gpu.cuda import Clock, Cuda
from int8tune.tuner.bench.gpu.libraries import cuda_runtime
from int8tune.tuner.bench.gpu.peers.base import GpuPeer
from int8tune.tuner.bench.gpu.peers.registry import GPU_PEERS
from int8tune.tuner.bench.peers.base import Array
from int8tune.tuner.bench.worker import Options, UnusableError, differences, run_contestant
from int8tune.tuner.verify import read_case


class GpuRunner:
    """What contestants on a GPU share: one layer at a time is there."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self._clock = Clock(cuda)
        self._call: Callable[[], None] | None = None

    def version(self) -> str:
        """The version of what it runs."""
        raise NotImplementedError

    def load(self, task: Mapping[str, object]) -> tuple[int, int]:
        self._clock.forget()
        self._call = None
        self.cuda.free_all()
        with self._noticing():
            call, output, expected = self.prepare(task)
            call()
            self.cuda.synchronize()
            self._call = call
            return differences(output(), expected)

    def prepare(self, task: Mapping[str, object]) -> tuple[Callable[[], None], Callable[[], Array], Array]:
        """What enqueues a layer, what returns its output after that, and what this should be."""
        raise NotImplementedError

    def mean_s(self, calls: int) -> float:
        assert self._call is not None
        with self._noticing():
            return self._clock.mean_s(self._call, calls)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.cuda.is_broken():
                raise UnusableError(f"{type(error).__name__}: {error}") from error
            raise


class GpuPeerRunner(GpuRunner):
    """Runs a peer's layers."""

    def __init__(self, peer: GpuPeer, cuda: Cuda) -> None:
        super().__init__(cuda)
        self._peer = peer

    def version(self) -> str:
        return self._peer.version()

    def prepare(self, task: Mapping[str, object]) -> tuple[Callable[[], None], Callable[[], Array], Array]:
        fields = Fields("", task, ("workload", "case"))
        workload = parse_workload(fields.read("workload", text))
        operands, expected = read_case(Path(fields.read("case", text)))
        layer = self._peer.load(workload, operands, self.cuda)
        return layer.run, layer.output, expected


class GpuKernelRunner(GpuRunner):
    """Runs kernels that this library built, through TVM's runtime."""

    def __init__(self, cuda: Cuda) -> None:
        super().__init__(cuda)
        import tvm_ffi
        from tvm import runtime

        self._ffi, self._runtime = tvm_ffi, runtime
        ctypes.CDLL(str(package_folder("tvm") / "lib" / "libtvm_runtime_cuda.so"), mode=ctypes.RTLD_GLOBAL)
        self._device: Any = runtime.device("cuda", cuda.number)
        self._arguments: list[Any] = []

    def version(self) -> str:
        return version("int8tune")

    def prepare(self, task: Mapping[str, object]) -> tuple[Callable[[], None], Callable[[], Array], Array]:
        program = program_from_json("", task)
        if hashlib.sha256(Path(program.library).read_bytes()).hexdigest() != program.sha256:
            raise ValueError(f"library is not the one that was built: {program.library}")
        self._arguments = []
        (case, *_) = open_cases(program)
        function = self._runtime.load_module(program.library)[program.entry]
        output = self._runtime.empty(case.expected.shape, str(case.expected.dtype), self._device)
        self._arguments = [*(self._runtime.tensor(array, self._device) for array in case.inputs), output]

        def call() -> None:
            function(*self._arguments)

        return self._on_stream(call), output.numpy, case.expected

    def mean_s(self, calls: int) -> float:
        with self._stream():
            return super().mean_s(calls)

    def _on_stream(self, call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            with self._stream():
                call()

        return run

    def _stream(self) -> Any:
        assert self.cuda.stream.value is not None
        return self._ffi.use_raw_stream(self._ffi.device("cuda", self.cuda.number), self.cuda.stream.value)


def main(peers: Sequence[GpuPeer] = GPU_PEERS) -> None:
    run_contestant(lambda options: _runner(options, peers))


def _runner(options: Options, peers: Sequence[GpuPeer]) -> GpuRunner:
    if options.gpu is None:
        raise ValueError("which GPU it is must be said: --gpu N")
    cuda = Cuda(options.gpu, cuda_runtime(for_tvm=options.peer is None))
    if options.peer is None:
        return GpuKernelRunner(cuda)
    return GpuPeerRunner(next(peer for peer in peers if peer.name == options.peer), cuda)


if __name__ == "__main__":
    main()

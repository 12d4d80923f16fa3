"""GPU kernels on machines without one: their CUDA C++, compiled for this CPU, behind TVM's own runtime.

The library that TVM loads is the one that a board would get, but for the machine code of the kernels: in its place is
the name of a library that g++ made of the same source (`tests/emulated_gpu`). TVM's runtime for CUDA calls NVIDIA's
driver and runtime libraries; here these are programs that have memory and run kernels thread by thread.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SOURCES = Path(__file__).parent / "emulated_gpu"
LIMIT_S = 100
MARK = b"int8tune emulated:"
# Aliased pointers are how TVM's CUDA code reinterprets values; nothing may be fused that is not written so.
OPTIONS = (
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-U_FORTIFY_SOURCE",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fwrapv",
)
_FUNCTION = re.compile(r"^__forceinline__ __device__ .*\bint8tune_\w+\(.*\n", re.MULTILINE)
_SHARED = re.compile(r"extern __shared__ __align__\(\d+\) ([\w ]+) (\w+)\[\];")
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(')


@dataclass(frozen=True, slots=True)
class Mode:
    """How an emulated GPU uses what is left open.

    Attributes:
        order: of a block's threads: 0 forwards, 1 backwards, 2 random.
        late: whether asynchronous copies arrive at the wait that covers them, and not at once.
        guarded: the side of an array on which memory can't be touched.
    """

    order: int = 0
    late: bool = True
    guarded: str = "behind"


MODES = (Mode(0, True, "behind"), Mode(1, False, "before"), Mode(2, True, "behind"))


@functools.cache
def missing() -> str | None:
    """What this machine lacks to emulate a GPU, or None."""
    if not shutil.which("g++"):
        return "needs g++"
    try:
        _load()
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        return f"no emulated GPU can be built: {error}"
    return None


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="int8tune-gpu-")


@functools.cache
def _load() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The driver and the runtime library, before TVM's own library looks for NVIDIA's."""
    import tvm

    folder = Path(_folder().name)
    names = {"driver.cc": "libcuda.so.1", "runtime.cc": "libcudart.so.13"}
    version = f"-Wl,--version-script={SOURCES / 'runtime.map'}"
    loaded = []
    for source, name in names.items():
        options = [*OPTIONS, "-O2", f"-Wl,-soname,{name}", *([version] if source == "runtime.cc" else [])]
        _compile([*options, "-o", str(folder / name), str(SOURCES / source)])
        loaded.append(ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL))
    ctypes.CDLL(str(Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"))
    driver, runtime = loaded
    return driver, runtime


def set_mode(mode: Mode, seed: int = 1) -> None:
    driver, runtime = _load()
    driver.int8tune_emulate(mode.order, int(mode.late), seed)
    runtime.int8tune_guard(int(mode.guarded == "behind"))


def compile_emulated(source: str) -> bytes:
    """What `cuModuleLoadData` of the emulated driver takes, in the place of machine code."""
    folder = Path(tempfile.mkdtemp(dir=_folder().name))
    text = _SHARED.sub(r"\1* \2 = (\1*)int8tune_shared();", _FUNCTION.sub("", source))
    names = dict.fromkeys(_KERNEL.findall(source))
    launches = "".join(
        f'extern "C" void {name}__launch(dim3 grid, dim3 block, size_t shared_bytes, void** arguments) '
        f"{{ int8tune_run({name}, grid, block, shared_bytes, arguments); }}\n"
        for name in names
    )
    (folder / "kernel.cc").write_text(text + launches)
    library = folder / "kernel.so"
    _compile([*OPTIONS, "-O1", "-w", f"-I{SOURCES}", "-o", str(library), str(folder / "kernel.cc")])
    return MARK + str(library).encode() + b"\0"


def _compile(arguments: Sequence[str]) -> None:
    done = subprocess.run(["g++", *arguments], timeout=LIMIT_S, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ failed: {done.stderr[-2000:]}")


def load_kernel(executable: Any) -> Any:
    """The kernel of an executable for a GPU, as TVM loads it from a library."""
    import tvm

    from compiler.gpu_library import link_gpu_module

    _load()
    library = Path(tempfile.mkdtemp(dir=_folder().name)) / "kernel.so"
    link_gpu_module(executable.mod, library, compile_emulated)
    return tvm.runtime.load_module(str(library))["main"]


def run_kernel(entry: Any, case: Sequence[Array]) -> Array:
    """The output of a kernel: the last argument, written over.

    Raises:
        RuntimeError: the kernel crashed, or its threads wait for ever (TVM's words for an error of the driver).
    """
    import tvm

    arguments = [tvm.runtime.tensor(np.ascontiguousarray(array), device=tvm.cuda(0)) for array in case]
    entry(*arguments)
    return np.asarray(arguments[-1].numpy())

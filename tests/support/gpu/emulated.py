"""GPU kernels on machines without one: their CUDA C++, compiled for this CPU, behind TVM's own runtime.

The library that TVM loads is the one that a board would get, but for the machine code of the kernels: in its place is
a library that g++ made of the same source (`emulated_gpu/`). TVM's runtime for CUDA, the agent and comparisons
call NVIDIA's driver and runtime libraries; here these have memory of this machine and run kernels thread by thread.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.run.made_once import made_once

Array = npt.NDArray[Any]

SOURCES = Path(__file__).parent / "emulated_gpu"
LIMIT_S = 100
LIBRARY, STUBS = "libcudart.so.13", ("libcuda.so.1", "libnvidia-ml.so.1")
BLOCK = "block.o"
SETTINGS, LOG = "emulated_gpu.conf", "emulated_gpu.log"
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
CHECKS = ("-Wall", "-Wextra", "-Werror")
_LAUNCH = """
extern "C" const int {0}__arguments = int8tune_arguments({0});
extern "C" void {0}__launch(const int8tune_Launch* launch, void** arguments) {{
  const unsigned *grid = launch->grid, *block = launch->block;
  int8tune_run({0}, {{grid[0], grid[1], grid[2]}}, {{block[0], block[1], block[2]}}, launch->shared_bytes, arguments);
}}
"""
_FUNCTION = re.compile(r"^__forceinline__ __device__ .*\bint8tune_\w+\(.*\n", re.MULTILINE)
_SHARED = re.compile(r"extern __shared__ __align__\(\d+\) ([\w ]+) (\w+)\[\];")
_KERNEL = re.compile(r'extern "C" __global__ void (?:__\w+__\([\d, ]+\) )*(\w+)\(')
_CLUSTER = re.compile(r"__cluster_dims__\(1, 1, (\d+)\)")


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


def install(folder: Path, **settings: int) -> None:
    """Put the GPU's libraries into a folder, with the settings of `emulated_gpu.conf`, see `gpu.cc`."""
    for name in (LIBRARY, *STUBS):
        (folder / name).unlink(missing_ok=True)
        shutil.copy(_parts() / name, folder / name)
    (folder / SETTINGS).write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


@functools.cache
def _parts() -> Path:
    """A folder with the GPU's libraries and what is linked to each kernel."""
    return made_once("emulated-gpu", _make_parts, Path(_folder().name))


def _make_parts(folder: Path) -> None:
    """All is in the first library. The others have their names, and need it."""
    version = f"-Wl,--version-script={SOURCES / 'runtime.map'}"
    source = str(SOURCES / "gpu.cc")
    _compile([*OPTIONS, *CHECKS, "-O2", version, f"-Wl,-soname,{LIBRARY}", "-o", str(folder / LIBRARY), source, "-ldl"])
    for name in STUBS:
        needs = ["-Wl,--no-as-needed", f"-L{folder}", f"-l:{LIBRARY}", "-Wl,-rpath,$ORIGIN", f"-Wl,-soname,{name}"]
        _compile(["-shared", "-o", str(folder / name), "-xc++", "/dev/null", "-xnone", *needs])
    block = ["-o", str(folder / BLOCK), str(SOURCES / "block.cc")]
    _compile([*OPTIONS[:1], *OPTIONS[2:], *CHECKS, "-O2", "-c", *block])


@functools.cache
def _load() -> ctypes.CDLL:
    """The GPU in this process, before TVM's own library looks for NVIDIA's."""
    import tvm

    names = (LIBRARY, *STUBS)
    gpu, *_ = [ctypes.CDLL(str(_parts() / name), mode=ctypes.RTLD_GLOBAL) for name in names]
    ctypes.CDLL(str(Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"))
    return gpu


def set_mode(mode: Mode, seed: int = 1) -> None:
    gpu = _load()
    gpu.int8tune_emulate(mode.order, int(mode.late), seed)
    gpu.int8tune_guard(int(mode.guarded == "behind"))


def compile_emulated(source: str) -> bytes:
    """What `cuModuleLoadData` of the emulated GPU takes, in the place of machine code."""
    with tempfile.TemporaryDirectory(dir=_folder().name) as made:
        folder = Path(made)
        text = _SHARED.sub(r"\1* \2 = (\1*)int8tune_shared();", _FUNCTION.sub("", source))
        clusters = [f"-DINT8TUNE_CLUSTER={found}" for found in dict.fromkeys(_CLUSTER.findall(source))]
        launches = "".join(map(_LAUNCH.format, dict.fromkeys(_KERNEL.findall(source))))
        (folder / "kernel.cc").write_text(text + launches)
        library, block = folder / "kernel.so", str(_parts() / BLOCK)
        source_file = str(folder / "kernel.cc")
        _compile([*OPTIONS, "-O0", "-w", "-s", *clusters, f"-I{SOURCES}", "-o", str(library), source_file, block])
        return library.read_bytes()


def _compile(arguments: Sequence[str]) -> None:
    done = subprocess.run(["g++", *arguments], timeout=LIMIT_S, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ failed: {done.stderr[-2000:]}")


def load_kernel(executable: Any) -> Any:
    """The kernel of an executable for a GPU, as TVM loads it from a library."""
    import tvm

    from int8tune.compiler.toolchain.gpu_library import link_gpu_module

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

    gpu = _load()
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(array), device=tvm.cuda(0)) for array in case]
    try:
        entry(*arguments)
        return np.asarray(arguments[-1].numpy())
    finally:
        gpu.int8tune_reset()  # TVM aborts where memory is given back to a context with an error


def compile_with_fault(monkeypatch: Any, pattern: str, other: str, count: int = 0) -> None:
    """Let kernels be compiled with something else in their source, in the first `count` places or in all."""
    compile_right = compile_emulated

    def compile_wrong(source: str) -> bytes:
        wrong = re.sub(pattern, other, source, count=count)
        assert wrong != source
        return compile_right(wrong)

    monkeypatch.setattr(sys.modules[__name__], "compile_emulated", compile_wrong)

"""TVM's C++ libraries without its Python package, which takes four times as long to load as all else of a session.

Sessions and compiled models need what lies in the runtime: modules, tensors, the machine that runs models and the
evaluator of times. LLVM's names of this machine are in the compiler.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm_ffi

Array = npt.NDArray[Any]

# `AllocatorType::kPooled` of TVM: what a run frees, the next one takes.
_POOLED = 2
# How often an idle thread of TVM's yields before it sleeps: 300,000 times if nobody says so. Where fourteen others want
# two cores, a process that has such a thread does not end in five minutes then, and in seven seconds so.
IDLE_YIELDS = "500"


def version() -> str:
    """TVM's version, as its package says it."""
    return str(_module("_version").version)


def llvm() -> tuple[str, str, str]:
    """LLVM's name of this CPU, the triple of this machine, and LLVM's major version."""
    _load("tvm_compiler", ctypes.RTLD_LOCAL)
    names = ("llvm_get_system_cpu", "llvm_get_system_triple", "llvm_version_major")
    cpu, triple, major = (str(tvm_ffi.get_global_func(f"target.{name}")()) for name in names)
    return cpu, triple, major


def load_module(library: str) -> Any:
    """A compiled library, whose kernels are its items."""
    _load("tvm_runtime", ctypes.RTLD_GLOBAL)
    # A name without a folder would be looked for among the system's libraries.
    return tvm_ffi.load_module(str(Path(library).resolve()))


def empty(shape: Sequence[int], dtype: npt.DTypeLike) -> Any:
    """A tensor in memory of TVM's own, aligned as kernels expect it."""
    _load("tvm_runtime", ctypes.RTLD_GLOBAL)
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    return allocate(tvm_ffi.Shape(tuple(shape)), tvm_ffi.dtype(np.dtype(dtype)), tvm_ffi.device("cpu"), None)


def tensor(values: Array) -> Any:
    """A copy of an array in memory of TVM's own."""
    made, whole = empty(values.shape, values.dtype), np.ascontiguousarray(values)
    copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyFromBytes")
    copy(made, whole.ctypes.data_as(ctypes.c_void_p), whole.nbytes)
    return made


def array(tensor: Any) -> Array:
    """A copy of a tensor."""
    return np.array(np.from_dlpack(tensor))


def address(tensor: Any) -> int:
    """Where a tensor's values begin."""
    return int(np.from_dlpack(tensor).ctypes.data)


def virtual_machine(module: Any) -> Any:
    """TVM's machine for a compiled model, whose functions are its items (as `tvm.relax.VirtualMachine` makes it)."""
    machine, cpu = module["vm_load_executable"](), tvm_ffi.device("cpu")
    machine["vm_initialization"](cpu.dlpack_device_type(), cpu.index, _POOLED)
    return machine


def set_threads(count: int) -> None:
    """How many threads the kernels of this process may use, of as many as it has cores.

    Kernels for one thread start none, so that TVM's are not begun for them: a process ends when these are asleep.
    """
    _load("tvm_runtime", ctypes.RTLD_GLOBAL)
    if count == 1:
        return
    # TVM has threads for half of a machine's processors otherwise, whatever it is told.
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", IDLE_YIELDS)
    tvm_ffi.get_global_func("runtime.config_threadpool")(1, count)


def time_evaluator(module: Any, entry: str, calls: int) -> Callable[..., float]:
    """Measures a kernel of a module with the arguments that it gets: the mean time of so many calls, in seconds."""
    cpu = tvm_ffi.device("cpu")
    evaluate = tvm_ffi.get_global_func("runtime.RPCTimeEvaluator")(
        module, entry, cpu.dlpack_device_type(), cpu.index, calls, 1, 0, 100, 0, 1, 0, ""
    )
    return lambda *arguments: float(struct.unpack("@d", evaluate(*arguments))[0])


@functools.cache
def _load(name: str, mode: int) -> ctypes.CDLL:
    if name == "tvm_compiler":
        _load("tvm_runtime", ctypes.RTLD_GLOBAL)
    folders: list[Path] = _module("libinfo").package_lib_paths()
    file = next((path for folder in folders if (path := folder / f"lib{name}.so").exists()), None)
    if file is None:
        raise ImportError(f"TVM has no lib{name}.so in {', '.join(map(str, folders))}")
    return ctypes.CDLL(str(file), mode)


def _module(name: str) -> ModuleType:
    """A module of TVM that needs no other one, without the package around it."""
    package = importlib.util.find_spec("tvm")
    if package is None or not package.submodule_search_locations:
        raise ImportError("TVM is not installed")
    file = Path(package.submodule_search_locations[0]) / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tvm_{name}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"TVM has no {file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

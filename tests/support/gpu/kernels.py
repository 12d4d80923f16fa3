"""Kernels for an emulated GPU (`emulated_gpus`): TVM's CUDA source and host code, compiled for this machine.

`output = input + 1` on 256 bytes, right and faulty, with the cases of `rpc_kernels`.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.toolchain.gpu_library import link_gpu_module
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.target import gpu_target
from tests.support.gpu import emulated as emulated_gpus
from tests.support.gpu.emulated import compile_emulated
from tests.support.kernels.rpc_kernels import SHAPE, Kernels, sha256_of, write_case

SIZE = math.prod(SHAPE)
THREADS = 64
CUBLASLT = emulated_gpus.SOURCES / "cublaslt.c"


def install_emulated_cublaslt(folder: Path) -> None:
    """Put a libcublasLt for the emulated GPU beside it."""
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-pedantic"]
    made = str(folder / "libcublasLt.so.13")
    subprocess.run(["cc", *options, "-o", made, str(CUBLASLT), "-ldl", "-lm"], check=True, timeout=60)


def build_gpu_kernels(folder: Path) -> Kernels:
    """The library of all kernels below, and three cases."""
    library = folder / "gpu_kernels.so"
    build_emulated_library(library, tvm.IRModule({name: _function(name, body) for name, body in _BODIES.items()}))
    return Kernels(library, sha256_of(library), tuple(write_case(folder, index) for index in range(3)))


def build_emulated_library(library: Path, module: Any) -> None:
    """A library of kernels for a GPU, as builds make it, but for its machine code."""
    link_gpu_module(compile_function(module, gpu_target("cuda-sm90")).mod, library, compile_emulated)


def place(at: Any) -> tuple[Any, Any, Any]:
    """The indices of a value, by its number."""
    return at // (SHAPE[1] * SHAPE[2]), at // SHAPE[2] % SHAPE[1], at % SHAPE[2]


def _increment(given: Any, made: Any, at: Any) -> None:
    T.buffer_store(made, given[place(at)] + T.uint8(1), place(at))


def _skip_last(given: Any, made: Any, at: Any) -> None:
    with T.If(at < SIZE - 1), T.Then():
        _increment(given, made, at)


def _past_end(given: Any, made: Any, at: Any) -> None:
    _increment(given, made, at)
    T.buffer_store(made, T.uint8(7), place(at + SIZE))


def _wild(given: Any, made: Any, at: Any) -> None:
    T.buffer_store(made, given[place(at)], place(at + (1 << 30)))


def _hang(given: Any, made: Any, at: Any) -> None:
    with T.While(given[place(at)] * T.uint8(2) != T.uint8(1)):
        _increment(given, made, at)


_BODIES: dict[str, Callable[[Any, Any, Any], None]] = {
    "increment": _increment,
    "skips_last": _skip_last,
    "past_end": _past_end,
    "wild": _wild,
    "hangs": _hang,
}


def _function(name: str, body: Callable[[Any, Any, Any], None]) -> Any:
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"global_symbol": name})
        given, made = (T.arg(label, T.buffer(SHAPE, "uint8")) for label in ("given", "made"))
        with T.launch_thread("blockIdx.x", SIZE // THREADS) as block, T.launch_thread("threadIdx.x", THREADS) as thread:
            body(given, made, block * THREADS + thread)
    return builder.get()

"""Kernels for a GPU that `played_gpu.c` plays: TVM's CUDA source and host code, compiled for this machine.

`output = input + 1` on 256 bytes, right and faulty, with the cases of `rpc_kernels`.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from rpc_kernels import SHAPE, Kernels, sha256_of, write_case
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

SIZE = math.prod(SHAPE)
THREADS = 64
DRIVER = Path(__file__).with_name("played_gpu.c")
CUBLASLT = Path(__file__).with_name("played_cublaslt.c")
DRIVER_NAMES = ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")
TARGET = {"kind": "cuda", "arch": "sm_90", "host": {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}}

_PAD = "/" * (1 << 17)
_POSTPROCESS = "tvm_callback_cuda_postproc"
_KERNEL = re.compile(r"__global__ void __launch_bounds__\(\d+\) (\w+)\(([^)]*)\) \{")
_PRELUDE = """#include <algorithm>
#include <cmath>
#include <cstdint>
using std::max;
using std::min;
#define uchar unsigned char
#define __restrict__
struct Index { unsigned x; };
static Index blockIdx, threadIdx;
"""
_LAUNCHER = """
extern "C" const int {name}_arguments = {count};
extern "C" void {name}(void** arguments, const unsigned* grid, const unsigned* block) {{
  for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x)
      {name}_body({arguments});
}}
"""


def install_played_gpu(folder: Path, **settings: int) -> None:
    """Put the driver into an agent's folder, in place of CUDA's, with the settings of `played_gpu.conf`."""
    versions = folder / "versions"
    versions.write_text("".join(f"{name} {{ global: *; }};\n" for name in DRIVER_NAMES[:1]))
    first = folder / DRIVER_NAMES[0]
    first.unlink(missing_ok=True)
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,--version-script={versions}"]
    subprocess.run(["cc", *options, "-o", str(first), str(DRIVER), "-ldl"], check=True, timeout=60)
    for name in DRIVER_NAMES[1:]:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(first)
    (folder / "played_gpu.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


def install_played_cublaslt(folder: Path) -> None:
    """Put a libcublasLt for that driver beside it."""
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-pedantic"]
    made = str(folder / "libcublasLt.so.13")
    subprocess.run(["cc", *options, "-o", made, str(CUBLASLT), "-ldl", "-lm"], check=True, timeout=60)


def build_gpu_kernels(folder: Path) -> Kernels:
    """The library of all kernels below, and three cases."""
    library = folder / "gpu_kernels.so"
    build_played_library(library, tvm.IRModule({name: _function(name, body) for name, body in _BODIES.items()}))
    return Kernels(library, sha256_of(library), tuple(write_case(folder, index) for index in range(3)))


def build_played_library(library: Path, module: Any) -> None:
    """A library of kernels for a GPU, of which this machine's code is in its folder first."""
    compiled = tvm.compile(module, target=TARGET)
    (device,) = compiled.mod.imports
    image = _compile_for_this_machine(library.parent, device.inspect_source())
    with _padded_source():
        tvm.compile(module, target=TARGET).export_library(str(library))
    library.write_bytes(_with_image(library.read_bytes(), image))


def place(at: Any) -> tuple[Any, Any, Any]:
    """Of a value, by its number."""
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


def _compile_for_this_machine(folder: Path, source: str) -> bytes:
    launchers = [_launcher(match[1], match[2].split(",")) for match in _KERNEL.finditer(source)]
    kernels = source[source.index('extern "C" __global__') :]
    kernels = re.sub(r"__launch_bounds__\(\d+\) (\w+)", r"\1_body", kernels).replace('extern "C" __global__', "static")
    written, image = folder / "kernels.cc", folder / "kernels.image"
    written.write_text(_PRELUDE + kernels + "".join(launchers))
    subprocess.run(["g++", "-shared", "-fPIC", "-O0", "-s", "-o", str(image), str(written)], check=True, timeout=60)
    return image.read_bytes()


def _launcher(name: str, parameters: list[str]) -> str:
    types = [parameter.split("*")[0].strip() for parameter in parameters]
    arguments = [f"*static_cast<{one}**>(arguments[{index}])" for index, one in enumerate(types)]
    return _LAUNCHER.format(name=name, count=len(types), arguments=", ".join(arguments))


@contextmanager
def _padded_source() -> Iterator[None]:
    """Leave room in a library for an image in place of its CUDA source."""
    tvm_ffi.register_global_func(_POSTPROCESS, lambda source, _: source + _PAD, override=True)
    try:
        yield
    finally:
        tvm_ffi.remove_global_func(_POSTPROCESS)


def _with_image(library: bytes, image: bytes) -> bytes:
    """A library whose CUDA module has an image in place of its source: of another format, and as long."""
    end = library.index(_PAD.encode()) + len(_PAD)
    head = (4).to_bytes(8, "little") + b"cuda"
    begin = library.rindex(head, 0, end)
    first = library.index(b"\n#ifdef __CUDACC_RTC__", begin)
    described, room = library[begin + len(head) : first - 8], end - first - 1
    assert int.from_bytes(library[first - 8 : first], "little") == end - first
    payload = image.ljust(room, b"\0")
    assert len(payload) == room
    made = (5).to_bytes(8, "little") + b"cubin" + described + room.to_bytes(8, "little") + payload
    return library[:begin] + made + library[end:]

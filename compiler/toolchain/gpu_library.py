"""Libraries of GPU kernels: the code that launches them, for the CPU, and their machine code, made here.

TVM would put CUDA C++ into the library and compile that where the library is loaded. Here the machine code has its
place, so that a kernel that does not compile fails where it is built, and a board needs TVM's runtime and a driver.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm_ffi

from int8tune.compiler.toolchain.linker import BLOB, link_objects
from int8tune.compiler.toolchain.object_file import data_object

# Kinds of modules, and of the code that they hold, as TVM names them.
_KERNEL, _CLUSTER = 'extern "C" __global__ void ', re.compile(r"int8tune_await_cluster_of_(\d+)\(\) {")
_HOST_KIND, _KIND, _SOURCE, _BINARY = b"_lib", b"cuda", b"cuda", b"cubin"


def cuda_source(module: Any) -> str:
    """The kernels of a compiled module, as CUDA C++.

    A kernel whose blocks use what `schedules.intrinsics.cuda` has for clusters is told how many make one: TVM has no
    word for that in a kernel that is launched the usual way.
    """
    source = _written_source(module)
    clusters = set(map(int, _CLUSTER.findall(source)))
    if not clusters:
        return source
    (blocks,) = clusters
    # The kernel is declared before it is defined; once is enough, and twice is an error.
    return source.replace(_KERNEL, f"{_KERNEL}__cluster_dims__(1, 1, {blocks}) ", 1)


def _written_source(module: Any) -> str:
    (device,) = (imported for imported in module.imports if imported.kind == "cuda")
    return str(device.inspect_source())


def link_gpu_module(module: Any, library: Path, compile_source: Callable[[str], bytes]) -> None:
    """Link a compiled module of TVM and its kernels into a shared library.

    Args:
        compile_source: makes machine code of the kernels' CUDA C++, such as `compiler.toolchain.nvrtc.compile_cubin`.

    Raises:
        RuntimeError: as `compiler.toolchain.linker.link_objects`.
        CudaCompileError: from `compile_source`.
    """
    source = _written_source(module)
    packed = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")(module).numpy().tobytes()
    blob = with_machine_code(packed, source.encode(), compile_source(cuda_source(module)))
    host, kernels = library.with_suffix(".o"), library.with_suffix(".gpu.o")
    module.write_to_file(str(host))
    kernels.write_bytes(data_object(BLOB, blob))
    link_objects(library, [host, kernels])
    host.unlink()
    kernels.unlink()


def with_machine_code(packed: bytes, source: bytes, code: bytes) -> bytes:
    """The modules of a library as TVM packs them, machine code in the place of CUDA C++.

    They are a number of bytes, two vectors that say who imports whom, and for each module its kind and, but for the
    host's own, its bytes; a module of kernels has a format, the kernels' arguments, and the code. Numbers have 64 bits.

    Raises:
        ValueError: it is packed otherwise.
    """
    at = 8
    for _ in range(2):
        (count,) = struct.unpack_from("<Q", packed, at)
        at += 8 + 8 * count
    head, parts = packed[8:at], []
    while at < len(packed):
        kind, at = _string(packed, at)
        parts.append(_packed(kind))
        if kind != _HOST_KIND:
            saved, at = _string(packed, at)
            parts.append(_packed(_of_machine_code(saved, source, code) if kind == _KIND else saved))
    if at != len(packed) or not any(_BINARY in part for part in parts):
        raise ValueError("TVM packs the modules of a library in an unknown way")
    body = head + b"".join(parts)
    return struct.pack("<Q", len(body)) + body


def _of_machine_code(saved: bytes, source: bytes, code: bytes) -> bytes:
    known_format, end = _packed(_SOURCE), _packed(source)
    if not saved.startswith(known_format) or not saved.endswith(end):
        raise ValueError("TVM saves a module of CUDA kernels in an unknown way")
    return _packed(_BINARY) + saved[len(known_format) : -len(end)] + _packed(code)


def _packed(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _string(packed: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<Q", packed, at)
    return packed[at + 8 : at + 8 + length], at + 8 + length

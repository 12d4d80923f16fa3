"""CUDA C++ compiled for a GPU that need not be there, by NVIDIA's NVRTC: a library of PyPI, no toolkit."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from int8tune.compiler.errors import CudaCompileError, NoCudaCompilerError
from int8tune.compiler.toolchain.wmma import MMA_H
from int8tune.rpc.agent.cuda_libraries import libraries

# Newest last: kernels of 12 run under the drivers of both, and what they are like is known (docs/cuda.md).
_NAMES = ("libnvrtc.so.12", "libnvrtc.so.13")
_HINT = "install the extra `cuda` (`pip install int8tune[cuda]`)"
# Products and sums are rounded one by one, as the rounding rules say: never fused, never flushed to zero.
OPTIONS = ("--std=c++17", "--fmad=false", "--ptxas-options=--register-usage-level=10")
# A thread may have the registers that it needs, as long as one block fits a multiprocessor. Without this, and the last
# of the options, some kernels keep values in memory so that more blocks do.
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)")
# Where matrices begin that are read from shared memory with the widest swizzle.
ALIGNMENT = 1024
# How ptxas, the part that makes machine code, tells what it did to a kernel that its author may not have wanted.
_ADVICE = re.compile(r"^ptxas \w+ *: *(\(C\d+\).*?)\s*$", re.MULTILINE)
_SHARED = re.compile(r"extern __shared__ __align__\(\d+\)")
# What TVM includes of NVIDIA's headers is some names of types; NVRTC knows the instructions without a header.
_HEADERS = {
    "sm_61_intrinsics.h": "",
    "mma.h": MMA_H,
    "cuda/std/cstdint": """namespace cuda { namespace std {
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
} }""",
    "cuda/std/type_traits": """namespace cuda { namespace std {
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class A> struct is_integral; template <class A> struct is_signed; template <class A> struct is_unsigned;
template <class A> struct is_floating_point; template <bool, class A = void> struct enable_if;
template <bool, class A, class B> struct conditional;
} }""",
}


def compile_cubin(source: str, arch: str, advise: Callable[[str], None] = lambda _: None) -> bytes:
    """The machine code of CUDA C++ for an architecture, such as `sm_80`.

    Args:
        advise: told what the compiler says of code that will be slow, line by line, such as `(C7515) Potential
            Performance Loss: wgmma.mma_async instructions are serialized due to ...`.

    Raises:
        NoCudaCompilerError: NVRTC is not installed.
        CudaCompileError: it refuses the source; the message is its first error.
    """
    library, source = _library(), _prepared(source)
    program = ctypes.c_void_p()
    count = len(_HEADERS)
    texts = (ctypes.c_char_p * count)(*(text.encode() for text in _HEADERS.values()))
    names = (ctypes.c_char_p * count)(*(name.encode() for name in _HEADERS))
    _check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", count, texts, names))
    try:
        options = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in OPTIONS)]
        result = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = _text(library, program, "ProgramLog").decode(errors="replace")
        if result:
            raise CudaCompileError(_first_error(log, arch))
        for line in _ADVICE.findall(log):
            advise(line)
        return _text(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _prepared(source: str) -> str:
    """TVM's source with what it has no words for."""
    return _BOUNDS.sub(r"__launch_bounds__(\1, 1)", _SHARED.sub(f"extern __shared__ __align__({ALIGNMENT})", source))


def missing() -> str | None:
    """Why nothing can be compiled here, or None."""
    try:
        _library()
    except NoCudaCompilerError as error:
        return str(error)
    return None


def version() -> tuple[int, int]:
    """NVRTC's version, such as 12.9: another one makes other machine code.

    Raises:
        NoCudaCompilerError: NVRTC is not installed.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


@functools.cache
def _library() -> ctypes.CDLL:
    """NVRTC, of which there may be several.

    Raises:
        NoCudaCompilerError: there is none that can be loaded.
    """
    failed = ""
    for path in _paths():
        try:
            return _loaded(path)
        except OSError as error:
            failed = f" ({error})"
    raise NoCudaCompilerError(f"no NVRTC to compile CUDA kernels with{failed}, {_HINT}")


def _paths() -> Iterator[Path]:
    for name in _NAMES:
        yield from libraries(name)


def _loaded(path: Path) -> ctypes.CDLL:
    """NVRTC opens its builtins by name. That of CUDA 13's wheel does not look in its own folder: load them before."""
    major = path.name.rpartition(".")[2]
    for builtins in sorted(path.parent.glob(f"libnvrtc-builtins.so.{major}.*")):
        ctypes.CDLL(str(builtins))
    return ctypes.CDLL(str(path))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(result: int) -> None:
    if result:
        raise CudaCompileError(f"NVRTC failed with code {result}")


def _first_error(log: str, arch: str) -> str:
    lines = [line.strip() for line in log.replace("\0", "").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line]
    return f"the kernel does not compile for {arch}: {(errors or lines or ['no reason given'])[0]}"

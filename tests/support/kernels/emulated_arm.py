"""ARM kernels on other machines: cross-compiled, and run by QEMU's user mode on an emulated CPU."""

from __future__ import annotations

import functools
import platform
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DRIVER = Path(__file__).parent / "emulated_kernel.c"
# A CPU that has what a profile needs, and no dot product where it doesn't.
CPUS = {"arm-neon": "cortex-a53", "arm-dotprod": "cortex-a76"}
COMPILER, SYSTEM_ROOT = "aarch64-linux-gnu-gcc", "/usr/aarch64-linux-gnu"
TYPE_CODES = {"i": 0, "u": 1, "f": 2}  # of DLPack
LIMIT_S = 60


class KernelDiedError(Exception):
    """The emulated process ended otherwise than with outputs; `code` is minus the signal's number, or an exit code."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"ended with {code}: {said}")
        self.code = code


def is_native() -> bool:
    return platform.machine() in ("aarch64", "arm64")


@functools.cache
def missing() -> str | None:
    """What this machine lacks to run ARM kernels, or None."""
    if not _emulator():
        return "needs QEMU's user mode for aarch64 (Debian: qemu-user-static)"
    if not shutil.which(COMPILER):
        return "needs a C compiler for aarch64 (Debian: gcc-aarch64-linux-gnu)"
    try:
        _run([str(driver())], "max")
    except KernelDiedError as error:
        return None if error.code == 2 else f"QEMU can't run a program for aarch64: {error}"
    except (OSError, subprocess.SubprocessError) as error:
        return f"no program for aarch64 can be built: {error}"
    return "QEMU does not run programs"


def _emulator() -> str | None:
    return shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="int8tune-arm-")


@functools.cache
def driver() -> Path:
    """The program that calls kernels."""
    import tvm_ffi.libinfo  # here, so that tests without TVM start fast

    program = Path(_folder().name) / "driver"
    headers = [f"-I{tvm_ffi.libinfo.find_include_path()}", f"-I{tvm_ffi.libinfo.find_dlpack_include_path()}"]
    command = [COMPILER, "-O1", "-Wall", "-Werror", *headers, str(DRIVER), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True, timeout=LIMIT_S, capture_output=True, text=True)
    return program


def run_kernel(executable: Any, cpu: str, cases: Sequence[Sequence[Array]]) -> list[Array]:
    """The outputs of a kernel that was compiled for aarch64: the last argument of each case, written over.

    Raises:
        KernelDiedError: the kernel did not come back, or returned an error.
    """
    with tempfile.TemporaryDirectory(dir=_folder().name) as name:
        folder = Path(name)
        executable.mod.write_to_file(str(folder / "kernel.o"))
        link = [COMPILER, "-shared", "-nostdlib", "-o", str(folder / "kernel.so"), str(folder / "kernel.o")]
        subprocess.run(link, check=True, timeout=LIMIT_S, capture_output=True, text=True)
        with (folder / "cases").open("wb") as file:
            file.write(struct.pack("<2i", len(cases), len(cases[0])))
            for array in (np.ascontiguousarray(array) for case in cases for array in case):
                code = TYPE_CODES[array.dtype.kind]
                file.write(struct.pack(f"<3i{array.ndim}q", code, 8 * array.itemsize, array.ndim, *array.shape))
                file.write(array.tobytes())
        files = [str(folder / part) for part in ("kernel.so", "cases", "outputs")]
        _run([str(driver()), *files], cpu)
        written = (folder / "outputs").read_bytes()
    outputs, at = [], 0
    for case in cases:
        last = case[-1]
        outputs.append(np.frombuffer(written, last.dtype, last.size, at).reshape(last.shape))
        at += last.nbytes
    return outputs


def _run(command: Sequence[str], cpu: str) -> None:
    whole = [str(_emulator()), "-cpu", cpu, "-L", SYSTEM_ROOT, *command]
    ended = subprocess.run(whole, timeout=LIMIT_S, capture_output=True, text=True)
    if ended.returncode:
        raise KernelDiedError(ended.returncode, ended.stderr.strip()[-200:])

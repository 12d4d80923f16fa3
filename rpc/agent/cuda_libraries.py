"""Where CUDA's libraries are on this machine: of a user's choice, of NVIDIA's wheels, of a toolkit, of the loader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

CUDA_RUNTIME = "libcudart.so.13"
DRIVER = "libcuda.so.1"
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
"""Where containers may have NVIDIA's driver, unknown to the loader."""

_TOOLKITS = Path("/usr/local")
# `nvidia-cuda-runtime` of CUDA 13 has its library in nvidia/cu13/lib, that of CUDA 12 in nvidia/cuda_runtime/lib.
_WHEELS = "nvidia/*/lib"
# In a toolkit's folder: as installed, as conda has it, and as NVIDIA's packages have it for several architectures.
_PARTS = ("lib64", "lib", "targets/*/lib")
_LDCONFIG = ("/sbin/ldconfig", "/usr/sbin/ldconfig")
_LDCONFIG_LIMIT_S = 10.0
# ELF: the magic number and the class; the machine.
_KIND, _MACHINE = slice(0, 6), slice(18, 20)


def _chosen() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder)


def _wheels() -> Iterator[Path]:
    for folder in filter(None, sys.path):
        yield from sorted(Path(folder).glob(_WHEELS))


def _named_toolkits() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if folder := os.environ.get(name):
            yield from _libraries_of(Path(folder))


def _toolkits() -> Iterator[Path]:
    """`cuda`, which is one of them, first, then the newest."""
    for folder in (_TOOLKITS / "cuda", *sorted(_TOOLKITS.glob("cuda-*"), reverse=True)):
        yield from _libraries_of(folder)


def _loaders() -> Iterator[Path]:
    """Folders of the loader's cache that have anything of CUDA."""
    program = next((name for name in _LDCONFIG if Path(name).exists()), None)
    if program is None:
        return
    try:
        done = subprocess.run([program, "-p"], capture_output=True, timeout=_LDCONFIG_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    lines = (line.partition(" => ") for line in done.stdout.decode(errors="replace").splitlines())
    found = (Path(path).parent for name, _, path in lines if path and name.strip().startswith(("libcu", "libnv")))
    yield from dict.fromkeys(found)


def _libraries_of(toolkit: Path) -> Iterator[Path]:
    for part in _PARTS:
        yield from sorted(toolkit.glob(part))


PLACES: tuple[tuple[str, Callable[[], Iterator[Path]]], ...] = (
    ("LD_LIBRARY_PATH", _chosen),
    ("NVIDIA's wheels", _wheels),
    ("CUDA_HOME", _named_toolkits),
    ("/usr/local/cuda*", _toolkits),
    ("the loader's folders", _loaders),
)
"""Folders, in the order in which they are searched."""


def library_path() -> str:
    """`LD_LIBRARY_PATH` for processes that use a GPU: this process's, and where a driver is that the loader misses."""
    own = os.environ.get("LD_LIBRARY_PATH", "")
    drivers = (folder for folder in DRIVER_FOLDERS if (Path(folder) / DRIVER).exists())
    return os.pathsep.join(filter(None, [own, *drivers]))


def find_library(names: Sequence[str]) -> Path | None:
    """The library of the first of these names that is here, for this machine; None where none is."""
    return next((path for name in names for path in libraries(name)), None)


def libraries(name: str) -> Iterator[Path]:
    """All libraries of a name that are here and for this machine."""
    for _, folders in PLACES:
        yield from (folder / name for folder in folders() if _is_for_this_machine(folder / name))


def _is_for_this_machine(path: Path) -> bool:
    """Whether it is a library of the machine's own kind: a toolkit has others, and scripts of the linker."""
    try:
        own, other = _header(Path(sys.executable)), _header(path)
    except OSError:
        return False
    return (own[_KIND], own[_MACHINE]) == (other[_KIND], other[_MACHINE])


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MACHINE.stop)

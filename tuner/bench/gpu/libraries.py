"""Where CUDA's libraries are: in `LD_LIBRARY_PATH`, in NVIDIA's wheels, in CUDA's own folders."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rpc.agent_bundle import default_cache
from rpc.runtime_files import CUDA_RUNTIME, runtime_files

CUBLASLT = ("libcublasLt.so.13", "libcublasLt.so.12")

_SYSTEM_FOLDERS = ("/usr/local/cuda/lib64", f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib")
# Of wheels: `nvidia-cublas` has its library in nvidia/cu13/lib, `nvidia-cublas-cu12` in nvidia/cublas/lib.
_WHEELS = "nvidia/*/lib"


def find_library(names: Sequence[str]) -> Path | None:
    """The library of the first of these names that is here; None where none is."""
    folders = list(_folders())
    return next((folder / name for name in names for folder in folders if (folder / name).is_file()), None)


def cuda_runtime() -> Path:
    """CUDA's runtime of this environment, else that of the bundle for agents on GPUs.

    Raises:
        ProvisionError: it is neither here nor can it be downloaded.
    """
    if found := find_library([CUDA_RUNTIME]):
        return found
    return runtime_files(platform.machine(), default_cache(), has_gpu=True)[CUDA_RUNTIME]


def _folders() -> Iterator[Path]:
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    for folder in sys.path:
        if folder:
            yield from sorted(Path(folder).glob(_WHEELS))
    yield from map(Path, _SYSTEM_FOLDERS)

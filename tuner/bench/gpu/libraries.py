"""Which of CUDA's libraries comparisons take."""

from __future__ import annotations

import platform
from pathlib import Path

from int8tune.results.user_cache import default_cache
from int8tune.rpc.agent.cuda_libraries import CUDA_RUNTIME, find_library
from int8tune.rpc.agent.runtime_files import is_kept, runtime_files

CUBLASLT = ("libcublasLt.so.13", "libcublasLt.so.12")
_OLDER_RUNTIME = "libcudart.so.12"


def cuda_runtime(*, for_tvm: bool) -> Path:
    """CUDA's runtime: this machine's, else that of the bundle for agents on GPUs.

    Args:
        for_tvm: TVM is linked with CUDA 13's; other libraries do with that of 12, too.

    Raises:
        ProvisionError: it is neither here nor can it be downloaded.
    """
    if found := find_library([CUDA_RUNTIME]):
        return found
    architecture, cache = platform.machine(), default_cache()
    if not for_tvm and not is_kept(architecture, cache) and (found := find_library([_OLDER_RUNTIME])):
        return found
    return runtime_files(architecture, cache, has_gpu=True)[CUDA_RUNTIME]

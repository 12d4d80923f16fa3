"""Kernels of programs as object files: those that are kept are taken, the others are compiled. Imports TVM.

Kernels are compiled one by one, as `schedules.lowering` has them compiled when they are tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm

from int8tune.compiler.toolchain.kernel_cache import KernelCache, KernelCounts
from int8tune.compiler.toolchain.kernel_key import names_in, object_key
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.target import Target


class KernelError(Exception):
    """TVM can't compile a kernel, and raised the cause."""

    def __init__(self, kernel: str, cause: Exception) -> None:
        super().__init__(f"{kernel}: {cause}")
        self.kernel, self.cause = kernel, cause


def kernel_objects(
    kernels: Mapping[str, tuple[Any, Target]],
    folder: Path,
    cache: KernelCache | None,
    report: Callable[[int, int], None],
) -> tuple[list[Any], KernelCounts]:
    """TVM's modules of the kernels' object files, in the kernels' order.

    Args:
        kernels: PrimFuncs, or modules of several, and the targets that they are compiled for, by their names, which
            have their digests.
        folder: where the object files are written.
        report: told how many kernels are compiled, of how many.

    Raises:
        KernelError: TVM can't compile one.
    """
    keys = {} if cache is None else {name: object_key(name, *kernel) for name, kernel in kernels.items()}
    missing = (
        [name for name, key in keys.items() if not _taken(cache, key, folder / f"{name}.o")] if cache else [*kernels]
    )
    for done, name in enumerate(missing):
        report(done, len(missing))
        compiled = folder / f"{name}.o"
        try:
            module = compile_function(*kernels[name]).mod
        except Exception as error:
            raise KernelError(name, error) from error
        module.write_to_file(str(compiled))
        if cache is not None:
            cache.keep(keys[name], compiled.read_bytes())
    report(len(missing), len(missing))
    if cache is not None and missing:
        cache.trim()
    modules = [
        tvm.runtime.load_static_library(str(folder / f"{name}.o"), names_in(name, function))
        for name, (function, _) in kernels.items()
    ]
    return modules, KernelCounts(len(missing), len(kernels) - len(missing))


def _taken(cache: KernelCache, key: str, path: Path) -> bool:
    """Whether an object file was kept; it is written."""
    content = cache.get(key)
    if content is not None:
        path.write_bytes(content)
    return content is not None

"""Kernels that the tests of one run share: each is compiled once, by the test and the process that need it first.

A kernel is kept under a digest of all that its code depends on, and a library has the same bytes with kept kernels as
without (`tests/compiler/test_kernels_kept.py`). They end with the run, so that each compiles with its own sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from int8tune.compiler.toolchain.kernel_cache import KernelCache

FOLDER = "INT8TUNE_KERNELS_OF_THE_RUN"


@pytest.fixture(scope="session", autouse=True)
def kernels_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each process has a folder in the run's
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder / "kernels-of-the-run"))
        yield


def kernel_cache() -> KernelCache | None:
    """Where this run keeps its kernels; None outside of a run."""
    folder = os.environ.get(FOLDER)
    return KernelCache(Path(folder)) if folder else None

"""Kernels that the tests of one run share: each is compiled once, by the test and the process that need it first.

A kernel is kept under a digest of all that its code depends on, and a library has the same bytes with kept kernels as
without (`tests/compiler/test_kernels_kept.py`). They end with the run, so that each compiles with its own sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from int8tune.compiler.toolchain.kernel_cache import KernelCache
from tests.support.run.made_once import FOLDER, folder_of_the_run


@pytest.fixture(scope="session", autouse=True)
def folder_named_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each process has a folder in the run's
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        yield


def kernel_cache() -> KernelCache | None:
    """Where this run keeps its kernels; None outside of a run."""
    folder = folder_of_the_run()
    return KernelCache(folder / "kernels-of-the-run") if folder else None

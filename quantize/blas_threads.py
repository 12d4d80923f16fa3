"""NumPy's linear algebra on one thread: on matrices as small as layers have, more of them wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the process's BLAS at one thread, where threadpoolctl is installed (extra `quantize`)."""
    try:
        import threadpoolctl
    except ImportError:
        yield
        return
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield

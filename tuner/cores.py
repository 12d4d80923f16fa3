"""Which cores of this machine measure, and which build."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from int8tune.tuner.errors import TooManyThreadsError


def measuring_and_build_cores(threads: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cores that measure, the last ones this process may use, and those that build whatever happens: the others.

    Raises:
        TooManyThreadsError: there are fewer cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= threads <= len(cores):
        raise TooManyThreadsError(f"threads must be 1 to {len(cores)}, the cores that this process may use: {threads}")
    return tuple(cores[-threads:]), tuple(cores[:-threads])


@contextmanager
def bound_to(cores: Sequence[int]) -> Iterator[None]:
    """Keep this process on these cores, if there are any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

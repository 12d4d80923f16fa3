"""Work on blocks of rows, on all cores that this process may use."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


def for_row_blocks(work: Callable[[slice], None], rows: int, step: int) -> None:
    """Call `work` for each of the slices of `step` rows, several at once. numpy works outside Python's lock.

    Where a machine has no room for another thread, those that there are do it.
    """
    slices = deque(slice(start, min(start + step, rows)) for start in range(0, rows, step))

    def work_through() -> None:
        while True:
            try:
                chosen = slices.popleft()
            except IndexError:
                return
            try:
                work(chosen)
            except BaseException:
                slices.clear()
                raise

    helpers: list[Future[None]] = []
    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 1), thread_name_prefix="rows") as pool:
        for _ in range(min(len(os.sched_getaffinity(0)), len(slices)) - 1):
            try:
                helpers.append(pool.submit(work_through))
            except RuntimeError:
                break
        work_through()
    for helper in helpers:
        helper.result(0)

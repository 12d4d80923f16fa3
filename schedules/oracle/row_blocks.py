"""Work on blocks of rows, on all cores that this process may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def for_row_blocks(work: Callable[[slice], None], rows: int, step: int) -> None:
    """Call `work` for each of the slices of `step` rows, several at once. numpy works outside Python's lock."""
    slices = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    workers = min(len(os.sched_getaffinity(0)), len(slices))
    if workers < 2:
        for rows_of in slices:
            work(rows_of)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="rows") as pool:
        for _ in pool.map(work, slices):
            pass

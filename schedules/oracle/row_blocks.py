"""Work on blocks of rows, on all cores that this process may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock, Thread


def for_row_blocks(work: Callable[[slice], None], rows: int, step: int) -> None:
    """Call `work` for each of the slices of `step` rows, several at once. numpy works outside Python's lock.

    Where a machine has no room for another thread, those that there are do it.
    """
    slices, lock = iter([slice(start, min(start + step, rows)) for start in range(0, rows, step)]), Lock()
    failures: list[BaseException] = []

    def work_through() -> None:
        while not failures:
            with lock:
                chosen = next(slices, None)
            if chosen is None:
                return
            try:
                work(chosen)
            except BaseException as error:
                failures.append(error)

    helpers = min(len(os.sched_getaffinity(0)), -(-rows // step)) - 1
    started = _started([Thread(target=work_through, name=f"rows_{index}") for index in range(helpers)])
    work_through()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]


def _started(threads: list[Thread]) -> list[Thread]:
    for index, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError:
            return threads[:index]
    return threads

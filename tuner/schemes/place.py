"""Where quantized models are compiled, run and timed: this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.schedule_choice import Chooser
from int8tune.schedules.target import Target
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.models.schedules import device_target, schedules_for
from int8tune.tuner.work_folder import work_folder


@dataclass(frozen=True, slots=True)
class Place:
    """This machine.

    Attributes:
        schedules: of the layers of libraries that are compiled.
        cores: on which models run and are timed, one for each thread.
        others: cores on which this process waits meanwhile.
        folder: takes files, and is gone in the end.
    """

    target: Target
    schedules: Chooser
    cores: tuple[int, ...]
    others: tuple[int, ...]
    folder: Path


@contextmanager
def open_place(results: Path, profile: str | None = None, threads: int = 1, log: Path | None = None) -> Iterator[Place]:
    """A place whose schedules are those of a best log, or of the records in `results`, and defaults.

    Raises:
        UnknownTargetError: nobody registered the profile, or this CPU can't run it.
        TooManyThreadsError: this process may not use so many cores.
        BestLogError: the log has faults.
        StoreError: the records can't be read.
        ResultsFolderError: no folder for files can be made.
    """
    target = device_target(profile, threads)
    cores, others = measuring_and_build_cores(threads)
    schedules = schedules_for(target, results, log)
    with work_folder(results, "schemes") as folder:
        yield Place(target, schedules, cores, others, folder)

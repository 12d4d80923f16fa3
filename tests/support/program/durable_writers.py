"""What promises that its records outlive a power failure, and how one sees that they did.

`python durable_writers.py NAME FOLDER STEPS [--fault FAULT]` goes on from the steps that are there until there are so
many, and says `+` after each one that it was told is safe. Used by `test_results_power_loss`.
"""

from __future__ import annotations

import argparse
import functools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Protocol

import int8tune.results.best
import int8tune.results.store
from int8tune.results import sqlite_file
from int8tune.results.atomic import sync_folder
from int8tune.results.best import BestSchedule
from int8tune.results.best_log import read_best_log, write_best_log
from int8tune.results.record import Campaign, Duel, Entry, Measurement, Trial
from int8tune.results.stats import Speedup
from int8tune.results.store import SqliteStore
from int8tune.rpc.farm import entries as journal
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.values import Verdict
from tests.support.program.results_samples import DEVICE, LAYER, TARGET, campaign, candidate, duel, failed, ok

ACKNOWLEDGED = b"+"
STEPS_AT_ONCE = 9


class DamageError(Exception):
    """Something is there that was never written so."""


class Durable(Protocol):
    """Writes steps, each of which is there whole or not at all."""

    def write(self, folder: Path, steps: range, fault: str) -> Iterator[None]:
        """Write, yielding after each step that is safe."""

    def survivors(self, folder: Path) -> int:
        """How many steps are there, from the first one on.

        Raises:
            Exception: anything; what is there is damaged.
        """

    def go_on(self, folder: Path, number: int) -> None:
        """Write this step, as all before it are there, and read them back.

        Raises:
            Exception: anything; that does not work.
        """


class Records:
    """A results file. A step is what one `append` is given."""

    KINDS = Campaign, Trial, Duel

    def __init__(self, *, steps_at_once: int, pages: int = 1000) -> None:
        """
        Args:
            steps_at_once: the file is closed and opened again after so many.
            pages: of the log, in which a commit moves it into the file; 1,000 is SQLite's own.
        """
        self._steps_at_once = steps_at_once
        self._pages = pages

    def write(self, folder: Path, steps: range, fault: str) -> Iterator[None]:
        for first in range(0, len(steps), self._steps_at_once):
            with SqliteStore(folder / "results.db") as store:
                self._prepare(store, fault)
                for number in steps[first : first + self._steps_at_once]:
                    store.append(records(number))
                    yield

    def survivors(self, folder: Path) -> int:
        path = folder / "results.db"
        if not path.exists():
            return 0
        with SqliteStore(path, readonly=True) as store:
            return self._steps(store)

    def go_on(self, folder: Path, number: int) -> None:
        with SqliteStore(folder / "results.db") as store:
            store.append(records(number))
            _require(number + 1, self._steps(store))

    def _prepare(self, store: SqliteStore, fault: str) -> None:
        assert store._writer is not None
        pragmas = [f"wal_autocheckpoint={self._pages}", *([fault] if fault.startswith("synchronous") else [])]
        with store._writer.connect() as connection:
            driver: Any = connection.connection.driver_connection
            for pragma in pragmas:
                driver.execute(f"PRAGMA {pragma}")

    def _steps(self, store: SqliteStore) -> int:
        found: dict[type, list[Entry]] = {kind: list(store.query(kind)) for kind in self.KINDS}
        count = sum(map(len, found.values()))
        for number, total in enumerate(accumulate(map(len, map(records, range(count))), initial=0)):
            if total == count:
                return self._whole(found, number)
        raise DamageError(f"{count} records, which is no whole number of steps")

    def _whole(self, found: dict[type, list[Entry]], number: int) -> int:
        written = list(chain.from_iterable(map(records, range(number))))
        for kind, ofkind in found.items():
            if ofkind != [entry for entry in written if isinstance(entry, kind)]:
                raise DamageError(f"after {number} steps, a {kind.__name__} is not what was written")
        return number


@functools.cache
def records(number: int) -> Sequence[Entry]:
    """A step's records: one trial or a batch, of different sizes, now and then with a duel."""
    if number == 0:
        return [campaign()]
    first = (number - 1) * 3
    trials = [_trial(first + place) for place in range(3 if number % 4 == 0 else 1)]
    duels = [duel(candidate(0), candidate(number), 1.25, pairs=8 + number % 40)] if number % 5 == 0 else []
    return [*trials, *duels]


def _trial(sequence: int) -> Trial:
    if sequence % 7 == 3:
        return failed(sequence, error="x" * (sequence * 997 % 6000 + 1))
    measured = ok(sequence)
    environment = {**measured.environment, "boot": str(sequence // 10)}
    return replace(measured, measurement=Measurement((1e-3,) * (1 + sequence % 50), 1), environment=environment)


class BestLog:
    """A best log that is replaced in each step."""

    def write(self, folder: Path, steps: range, fault: str) -> Iterator[None]:  # noqa: ARG002
        for number in steps:
            write_best_log(folder / "best.jsonl", schedules(number))
            yield

    def survivors(self, folder: Path) -> int:
        path = folder / "best.jsonl"
        if not path.exists():
            return 0
        found = read_best_log(path)
        number = found[0].sequence
        if found != schedules(number):
            raise DamageError(f"the best log is not the one of step {number}")
        return number + 1

    def go_on(self, folder: Path, number: int) -> None:
        write_best_log(folder / "best.jsonl", schedules(number))
        _require(number + 1, self.survivors(folder))


def schedules(number: int) -> list[BestSchedule]:
    """The best log's content in this step."""
    return [
        BestSchedule(
            workload=LAYER,
            target=TARGET,
            device=f"{DEVICE}-{place}",
            candidate=candidate(place),
            median_s=1e-3 / (1 + number),
            default_candidate=candidate(0).id,
            speedup=Speedup(1.5, 1.25, 2.0),
            campaign="c1",
            sequence=number,
        )
        for place in range(1 + number * 5 % 17)
    ]


class Journal:
    """A farm's journal that waits for the disk. A step is one decision."""

    def write(self, folder: Path, steps: range, fault: str) -> Iterator[None]:
        file: JournalFile | None = None
        for number in steps:
            if file is None or number % STEPS_AT_ONCE == 0:
                if file is not None:
                    file.close()
                file = JournalFile(folder / "farm.journal", waits_for_disk=fault != "no wait")
            file.write(decision(number))
            yield

    def survivors(self, folder: Path) -> int:
        file = JournalFile(folder / "farm.journal")
        file.close()
        there = 0
        for number in range(len(file.entries) + 1):
            if there == len(file.entries):
                return number
            due = decision(number)
            if file.entries[there : there + len(due)] != due:
                raise DamageError(f"the journal's step {number} is not what was written")
            there += len(due)
        raise DamageError("the journal has more than was written")

    def go_on(self, folder: Path, number: int) -> None:
        file = JournalFile(folder / "farm.journal")
        file.write(decision(number))
        file.close()
        _require(number + 1, self.survivors(folder))


def decision(number: int) -> list[journal.Entry]:
    """A step's entries: a line of up to a few sectors."""
    return [
        journal.Returned(number, f"board-{place}", f"{number}:trial", Verdict.CRASHED, "SIGSEGV " * place, counts=True)
        for place in range(1 + number * 5 % 9)
    ]


def _require(steps: int, found: int) -> None:
    if found != steps:
        raise DamageError(f"{steps} steps were written, {found} are there")


WRITERS: dict[str, Durable] = {
    "records": Records(steps_at_once=1000),
    "records-few-pages": Records(steps_at_once=4, pages=12),
    "best-log": BestLog(),
    "journal": Journal(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WRITERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("--fault", default="", help="what the writer forgets")
    options = parser.parse_args()
    if options.fault == "files not synced":
        os.fsync = _fsync_of(stat.S_ISDIR)  # type: ignore[assignment]
    if options.fault == "folder not synced":
        os.fsync = _fsync_of(stat.S_ISREG)  # type: ignore[assignment]
    if options.fault == "no draft":
        int8tune.results.store.create = sqlite_file._create_tables  # type: ignore[attr-defined]
    if options.fault == "in place":
        int8tune.results.best.write_atomic = _write_in_place  # type: ignore[attr-defined]
    writer = WRITERS[options.name]
    steps = range(writer.survivors(options.folder), options.steps)
    for _ in writer.write(options.folder, steps, options.fault):
        os.write(1, ACKNOWLEDGED)


def _write_in_place(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _fsync_of(kind: Callable[[int], bool]) -> Callable[[int], None]:
    """An `fsync` that waits for this kind of files alone."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if kind(os.fstat(descriptor).st_mode):
            real(descriptor)

    return fsync


if __name__ == "__main__":
    main()

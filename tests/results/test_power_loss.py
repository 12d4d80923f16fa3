"""What was acknowledged is there after a power failure at any moment: records, the best log, a farm's journal."""

from __future__ import annotations

import copy
import functools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from int8tune.results.store import SqliteStore
from int8tune.tuner.folders import make_folder
from tests.support.program import durable_writers
from tests.support.program.disk_events import missing, record
from tests.support.program.durable_writers import WRITERS, Durable
from tests.support.program.power_loss import VARIANTS, WRITTEN, CrashState, Disk, Variant, crash_states, lay_out
from tests.support.run.thinned import one_in

COMMITS = 3000
# The step of "records" after which its log has over 1,000 pages: they are moved into the file, and it begins again.
RESTART = 161
MEMORY = Path("/dev/shm")
# Who holds a lock is written into it, but only the lock itself counts; a draft is thrown away by the next start.
INDIFFERENT = (".lock", ".tmp", ".new", ".new-journal", ".new-wal")

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.promise(1)]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: what a sync costs does not matter here."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="int8tune-power-", dir=memory) as name:
        yield Path(name)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong after the power had failed."""

    event: int
    variant: str
    what: str


@dataclass(slots=True)
class Tally:
    """What was found after the power had failed.

    Attributes:
        failures: moments times variants; states: different ones among them.
        lost, corrupt: what was wrong, for each failure.
    """

    failures: int = 0
    states: int = 0
    lost: list[Finding] = field(default_factory=list)
    corrupt: list[Finding] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.failures + other.failures,
            self.states + other.states,
            self.lost + other.lost,
            self.corrupt + other.corrupt,
        )

    def __str__(self) -> str:
        return (
            f"{self.failures:,} power failures, {self.states:,} different states, "
            f"{len(self.lost)} lost, {len(self.corrupt)} corrupt"
        )


class Examiner:
    """Starts a writer's program again in every state that a power failure may leave."""

    def __init__(self, writer: Durable, scratch: Path) -> None:
        self._writer = writer
        self._folder = scratch / "after"
        self._folder.mkdir(exist_ok=True)
        self._known: dict[bytes, int | str] = {}
        self.tally = Tally()

    def examine(self, state: CrashState, acknowledged: int = 0) -> int | str:
        """How many steps are there, or what is wrong.

        Args:
            acknowledged: how many steps were safe before the first event.
        """
        there = self._survivors(state)
        due = acknowledged + len(state.said)
        if isinstance(there, str):
            self.tally.corrupt.append(Finding(state.event, state.variant, there))
        elif there < due:
            self.tally.lost.append(Finding(state.event, state.variant, f"{there} of {due} steps"))
        self.tally.failures += 1
        self.tally.states = len(self._known)
        return there

    def _survivors(self, state: CrashState) -> int | str:
        if state.key not in self._known:
            self._known[state.key] = self._found(state)
        return self._known[state.key]

    def _found(self, state: CrashState) -> int | str:
        try:
            lay_out(state.files, self._folder)
            there = self._writer.survivors(self._folder)
            # A reader may have repaired something: the next writer finds what the failure left.
            lay_out(state.files, self._folder)
            self._writer.go_on(self._folder, there)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return there


class Case:
    """A writer's process, what it did, and what is left if the power fails meanwhile."""

    def __init__(self, name: str, folder: Path, steps: int, *, there: int = 0, fault: str = "") -> None:
        """Write until there are so many steps in this folder, in which some are already."""
        self.writer = WRITERS[name]
        self.there = there
        self._disk = Disk(folder, INDIFFERENT)
        program = [sys.executable, durable_writers.__file__, name, str(folder), str(steps), "--fault", fault]
        self.events = record(program, folder)
        self._require_all(folder)

    def failures(self, variants: Sequence[Variant] = VARIANTS, draws: int = 1) -> Iterator[CrashState]:
        return crash_states(copy.deepcopy(self._disk), self.events, variants, draws)

    def examined(self, scratch: Path, *, since: int = 0, share: float = 1.0, draws: int = 1) -> Tally:
        """What the power's failures leave, from the moment at which so many steps were acknowledged.

        Args:
            share: of them; which ones is drawn.
            draws: of each variant after each event.
        """
        examiner, dice = Examiner(self.writer, scratch), random.Random(5)
        for state in self.failures(draws=draws):
            if self.there + len(state.said) >= since and dice.random() < share:
                examiner.examine(state, self.there)
        return examiner.tally

    def _require_all(self, folder: Path) -> None:
        """The recorder missed nothing: without a failure the folder is as the events say."""
        *_, last = self.failures([WRITTEN])
        assert last.files == {path.name: path.read_bytes() for path in folder.iterdir()}


def new_folder(scratch: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch))


@pytest.mark.parametrize(
    ("name", "steps", "share", "states"),
    [
        ("records-few-pages", 10, 0.1, 4),
        pytest.param("records-few-pages", 10, 0.1, 80, marks=pytest.mark.thorough),
        *(pytest.param(name, 24, 1.0, 16, marks=pytest.mark.thorough) for name in ("best-log", "journal")),
        *((name, 12, 1.0, 4) for name in ("best-log", "journal")),
    ],
)
def test_what_was_acknowledged_outlives_a_power_failure(
    name: str, steps: int, share: float, states: int, scratch: Path
) -> None:
    tally = Case(name, new_folder(scratch), steps).examined(scratch, share=share)
    assert (tally.lost, tally.corrupt) == ([], [])
    assert tally.states >= states, str(tally)


@pytest.mark.thorough
def test_the_power_may_fail_while_the_log_is_repaired(scratch: Path) -> None:
    tally = failed_twice("records-few-pages", scratch, steps=4, times=1, share=0.05)
    assert (tally.lost, tally.corrupt) == ([], [])
    assert tally.states > 0


def failed_twice(name: str, scratch: Path, steps: int, times: int, share: float = 1.0) -> Tally:
    """The next start goes on from what a failure left, and the power fails again."""
    dice = random.Random(3)
    case = Case(name, new_folder(scratch), steps)
    chosen = set(dice.sample([state.event for state in case.failures([WRITTEN]) if state.said], times))
    tally = Tally()
    for first in case.failures():
        if first.event in chosen and first.variant == VARIANTS[first.event % len(VARIANTS)].name:
            folder = new_folder(scratch)
            there = Examiner(case.writer, scratch).examine(first)
            assert isinstance(there, int), there
            lay_out(first.files, folder)
            tally += Case(name, folder, there + 2, there=there).examined(scratch, share=share)
    return tally


def test_the_folder_of_the_records_outlives_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = set(), os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", watched)
    make_folder(tmp_path / "new" / "results")
    assert synced == {path.stat().st_ino for path in (tmp_path, tmp_path / "new")}


@pytest.mark.parametrize(
    ("name", "fault", "finding"),
    one_in(
        3,
        [
            ("records-few-pages", "synchronous=NORMAL", "lost"),
            ("records-few-pages", "synchronous=OFF", "lost"),
            ("records-few-pages", "no draft", "corrupt"),
            ("journal", "files not synced", "lost"),
            ("journal", "folder not synced", "lost"),
            ("journal", "no wait", "lost"),
        ],
    ),
)
def test_a_writer_that_does_not_wait_is_found(name: str, fault: str, finding: str, scratch: Path) -> None:
    examiner = Examiner(WRITERS[name], scratch)
    for state in Case(name, new_folder(scratch), 3, fault=fault).failures():
        if fault.startswith("synchronous") and not state.said:
            continue
        examiner.examine(state)
        if getattr(examiner.tally, finding):
            return
    pytest.fail(f"nothing {finding}: {examiner.tally}")


@pytest.mark.thorough
def test_each_variant_finds_a_fault_of_a_best_log(scratch: Path) -> None:
    found = set()
    for fault, kind in (("files not synced", "corrupt"), ("folder not synced", "lost"), ("in place", "corrupt")):
        tally = Case("best-log", new_folder(scratch), 3, fault=fault).examined(scratch)
        findings = getattr(tally, kind)
        assert findings, fault
        found |= {finding.variant for finding in findings}
    assert found == {variant.name for variant in VARIANTS}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "steps", "since", "draws", "states"),
    [
        ("records-few-pages", 32, 0, 5, 4500),
        ("records", RESTART + 2, RESTART - 1, 1, 400),
        ("best-log", 200, 0, 1, 300),
        ("journal", 200, 0, 3, 400),
    ],
)
def test_thousands_of_power_failures(name: str, steps: int, since: int, draws: int, states: int, scratch: Path) -> None:
    tally = Case(name, new_folder(scratch), steps).examined(scratch, since=since, draws=draws)
    print(f"{name}: {tally}")
    assert (tally.lost, tally.corrupt) == ([], [])
    assert tally.states >= states


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", WRITERS)
def test_the_power_fails_again_and_again(name: str, scratch: Path) -> None:
    tally = failed_twice(name, scratch, steps=8, times=4)
    print(f"{name}, the power fails twice: {tally}")
    assert (tally.lost, tally.corrupt) == ([], [])


@pytest.mark.slow
@pytest.mark.alone
def test_commits_are_quick(tmp_path: Path) -> None:
    commits_ms, syncs_ms = [], []
    with SqliteStore(tmp_path / "results.db") as store, (tmp_path / "bare").open("wb", buffering=0) as bare:
        for number in range(COMMITS):
            commits_ms.append(taken_ms(functools.partial(store.append, durable_writers.records(number))))
            syncs_ms.append(taken_ms(lambda: (bare.write(bytes(4096)), os.fsync(bare.fileno()))))
    print(f"{COMMITS:,} commits: {percentiles(commits_ms)}; a page written and synced: {percentiles(syncs_ms)}")
    # A commit is one sync. On a slow or busy disk that alone takes longer.
    assert np.percentile(commits_ms, 99) <= max(10.0, 3 * np.percentile(syncs_ms, 99))


def taken_ms(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


def percentiles(times_ms: list[float]) -> str:
    median, high = np.percentile(times_ms, [50, 99])
    return f"median {median:.2f} ms, 99 % {high:.2f} ms, longest {max(times_ms):.1f} ms"

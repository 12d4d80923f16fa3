"""Ctrl-C and SIGTERM at random moments of a campaign: promise 20.

A campaign is interrupted, gone on with by the same command, interrupted again, until it has finished; then comes the
next one. What belongs to it is known by its folder for temporary files, which all of its processes have in their
environment, wherever they hang in the tree; and on a board by the agent's own mark.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from int8tune.rpc.provision import provision
from int8tune.tuner.work_folder import WORK_FOLDER
from tests.sshd import farm_toml, running_sshd
from tests.storm import trials_of
from tests.support.farm.boards import CACHE, board_behind, marked
from tests.support.program.cli_program import command, write_table

pytestmark = [pytest.mark.alone, pytest.mark.promise(20)]

FIRST_LIMIT_S, SECOND_LIMIT_S = 10.0, 1.0
# What of a program that ended at once has still to see that it did; on a board, that its host is gone.
GONE_LIMIT_S = 3.0
START_LIMIT_S, RUN_LIMIT_S = 10.0, 90.0
TRIALS, LAYERS = 8, 2


@dataclass(frozen=True, slots=True)
class Moment:
    """When a program is interrupted.

    Attributes:
        after_s: since it takes signals.
        second_after_s: since the first one, if there is a second.
    """

    after_s: float
    signal: signal.Signals
    second_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """What became of it.

    Attributes:
        took_s: since the last signal.
        trials: that this run recorded.
    """

    code: int
    took_s: float
    out: str
    err: str
    is_second: bool
    trials: int = 0

    @property
    def stage(self) -> str:
        """What the program was doing."""
        if self.err == "interrupted\n":
            return "before it began"
        return "measuring" if self.trials else "preparing"


@dataclass
class Campaigns:
    """Campaigns of one command, each in a folder of its own.

    Attributes:
        on_boards: processes of boards that must not be left either.
    """

    folder: Path
    options: Sequence[object] = ()
    on_boards: Callable[[], list[psutil.Process]] = list
    stops: list[Stop] = field(default_factory=list)
    finished: int = 0
    longest_gone_s: float = 0.0

    @property
    def results(self) -> Path:
        return self.folder / f"results{self.finished}"

    @property
    def arguments(self) -> list[object]:
        table = self.folder / "small.json"
        if not table.exists():
            write_table(table)
        where = ("--results", self.results)
        return ["tune", table, *where, "--strategy", "random", "--trials", TRIALS, *self.options]

    def interrupt(self, moment: Moment) -> None:
        """At that moment of the campaign that is under way; one that ends before is another's beginning."""
        before = trials_of(self.results)
        had_work = (self.results / WORK_FOLDER).exists()
        with self._started() as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment.after_s)
            is_second, sent_at = self._signal(process, moment) if process.poll() is None else (False, time.monotonic())
            out, err = process.communicate(timeout=FIRST_LIMIT_S)
            stop = Stop(process.returncode, time.monotonic() - sent_at, out.decode(), err.decode(), is_second)
        self._look_for_leftovers()
        after = {trial.candidate.id: trial for trial in trials_of(self.results)}
        assert [after.get(trial.candidate.id) for trial in before] == before
        if stop.code == 0:
            self._check_finished(stop)
        else:
            self._check_stopped(replace(stop, trials=len(after) - len(before)), len(after))
            # What a second signal leaves, the next run removes once it has the records.
            assert stop.is_second or had_work or not (self.results / WORK_FOLDER).exists()

    def finish(self) -> float:
        """The same command goes on to the end; how long it took."""
        with self._started() as process:
            began = time.monotonic()
            out, err = process.communicate(timeout=RUN_LIMIT_S)
            took_s = time.monotonic() - began
            assert process.returncode == 0, err.decode()
        self._look_for_leftovers()
        self._check_finished(Stop(0, 0.0, out.decode(), err.decode(), is_second=False))
        return took_s

    @contextlib.contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        """A program that is there to take signals."""
        mark = self.folder / "temporary"
        mark.mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(mark)}
        process = subprocess.Popen(
            command(*self.arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not _takes(process.pid, signal.SIGTERM):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            yield process
        finally:
            process.kill()
            process.wait(5)

    def _signal(self, process: subprocess.Popen[bytes], moment: Moment) -> tuple[bool, float]:
        """Whether the program was still there for the second signal, and when the last one was sent."""
        process.send_signal(moment.signal)
        sent_at = time.monotonic()
        if moment.second_after_s is None:
            return False, sent_at
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment.second_after_s)
        if process.poll() is not None:
            return False, sent_at
        process.send_signal(signal.SIGINT if moment.signal is signal.SIGTERM else signal.SIGTERM)
        return True, time.monotonic()

    def _look_for_leftovers(self) -> None:
        began = time.monotonic()
        while left := [*_marked(self.folder / "temporary"), *self.on_boards()]:
            assert time.monotonic() < began + GONE_LIMIT_S, left
            time.sleep(0.01)
        self.longest_gone_s = max(self.longest_gone_s, time.monotonic() - began)

    def _check_stopped(self, stop: Stop, trials: int) -> None:
        self.stops.append(stop)
        assert stop.code == 130, stop
        assert stop.took_s < (SECOND_LIMIT_S if stop.is_second else FIRST_LIMIT_S), stop
        assert trials <= TRIALS * LAYERS
        if stop.is_second:
            return
        *_, last = stop.err.splitlines()
        assert last == "interrupted" or last.startswith("interrupted; to go on: int8tune tune "), stop
        assert "Traceback" not in stop.err

    def _check_finished(self, stop: Stop) -> None:
        """It has all that it must have, nothing twice."""
        found = trials_of(self.results)
        assert len({trial.candidate.id for trial in found}) == len(found) == TRIALS * LAYERS, stop
        self.finished += 1


def _takes(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return True  # it has ended


def _marked(temporary: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get("TMPDIR") == str(temporary):
                found.append(process)
    return found


def moments(count: int, seed: int, lasts_s: float, twice: bool = False) -> list[Moment]:
    """Anywhere in a campaign that lasts so long; in turn Ctrl-C and SIGTERM."""
    rng = random.Random(seed)
    numbers = (signal.SIGINT, signal.SIGTERM)
    return [
        Moment(rng.uniform(0.0, lasts_s), numbers[index % 2], rng.uniform(0.0, 1.0) if twice else None)
        for index in range(count)
    ]


def interrupt_at(campaigns: Campaigns, drawn: Sequence[Moment]) -> None:
    for moment in drawn:
        campaigns.interrupt(moment)
    campaigns.finish()
    for name, is_second in (("stops", False), ("second signals", True)):
        stops = [stop for stop in campaigns.stops if stop.is_second is is_second]
        longest_s = max((stop.took_s for stop in stops), default=0.0)
        stages = ", ".join(f"{count} {stage}" for stage, count in Counter(stop.stage for stop in stops).items())
        print(f"{len(stops)} {name}, the longest took {longest_s:.2f} s: {stages or 'none'}")
    print(f"{campaigns.finished} campaigns finished; the last process was gone {campaigns.longest_gone_s:.2f} s later")


@pytest.fixture
def here(tmp_path: Path) -> Campaigns:
    return Campaigns(tmp_path)


@pytest.fixture
def two_boards(tmp_path: Path) -> Iterator[Campaigns]:
    with running_sshd(tmp_path / "sshd") as sshd:
        boards = [board_behind(sshd, name, sshd.folder / name) for name in ("here", "there")]
        for board in boards:
            provision(board, CACHE, upgrade=False, say=lambda _: None)
        here, _ = farm_toml(sshd).split("\n\n")
        there = here.replace('"here"', '"there"').replace("/here", "/there").replace("cores = [0]", "cores = [1]")
        (tmp_path / "farm.toml").write_text("\n\n".join([here, there]))
        options = ("--inventory", tmp_path / "farm.toml", "--devices", "here,there")
        yield Campaigns(tmp_path, options, lambda: [found for board in boards for found in marked(board.folder)])


def test_a_signal_at_any_moment_is_a_clean_end(here: Campaigns) -> None:
    """While the program is imported, while the device starts, while it measures."""
    here.interrupt(Moment(0.0, signal.SIGINT))
    assert here.stops[0].err == "interrupted\n"
    # On a slow machine the first of these come before the command knows what it was asked.
    for after_s in (0.8, 3.0, 9.0, 27.0):
        here.interrupt(Moment(after_s, signal.SIGTERM))
        if after_s > 0.8 and "to go on" in here.stops[-1].err:
            break
    else:
        pytest.fail(f"no campaign had begun: {here.stops}")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_moments(here: Campaigns) -> None:
    interrupt_at(here, moments(50, seed=1, lasts_s=here.finish()))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifteen_moments_and_a_second_signal(here: Campaigns) -> None:
    interrupt_at(here, moments(15, seed=2, lasts_s=here.finish(), twice=True))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores, for a board and for builds")
def test_moments_of_a_campaign_on_two_boards(two_boards: Campaigns) -> None:
    lasts_s = two_boards.finish()
    interrupt_at(two_boards, [*moments(8, seed=3, lasts_s=lasts_s), *moments(4, seed=4, lasts_s=lasts_s, twice=True)])

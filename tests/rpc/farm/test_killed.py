"""A coordinator that is killed for real, again and again: promise 7."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.farm.entries import Concluded, Entry, Issued, Returned
from int8tune.rpc.farm.journal import JournalFile
from tests.support.places import ROOT

pytestmark = pytest.mark.promise(7)

BOARDS = 4
GOING_AGAIN_S = 10.0


@pytest.mark.alone
def test_a_killed_coordinator_loses_what_is_in_flight_only(tmp_path: Path) -> None:
    kill_at_random(tmp_path, kills=6, trials=600, seed=1)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1800)
def test_a_coordinator_killed_a_hundred_times(tmp_path: Path) -> None:
    kill_at_random(tmp_path, kills=100, trials=6000, seed=2)


def kill_at_random(folder: Path, kills: int, trials: int, seed: int) -> None:
    """Kill the coordinator at random moments of its work, start it again, and look at all that was ever done."""
    rng = random.Random(seed)
    journal, sessions = folder / "journal", folder / "sessions"
    for _ in range(kills):
        before = answered(journal)
        process = start(journal, sessions, trials)
        began = time.monotonic()
        while process.poll() is None and answered(journal) <= before:
            assert time.monotonic() - began < GOING_AGAIN_S, "not going again"
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))
        process.kill()
        process.wait(10)
    assert start(journal, sessions, trials).wait(100) == 0
    check(read(journal), sessions.read_text().splitlines(), trials, kills)


def start(journal: Path, sessions: Path, trials: int) -> subprocess.Popen[bytes]:
    words = [str(journal), str(sessions), str(trials), str(BOARDS)]
    return subprocess.Popen([sys.executable, "-m", "tests.support.farm.coordinator", *words], cwd=ROOT)


def answered(journal: Path) -> int:
    """How many answers the journal has, as anybody may read it while it grows."""
    return journal.read_bytes().count(b'"kind":"Returned"') if journal.exists() else 0


def read(journal: Path) -> list[Entry]:
    file = JournalFile(journal)
    file.close()
    return file.entries


def check(entries: list[Entry], sessions: list[str], trials: int, kills: int) -> None:
    """Each trial is concluded once, its answer was measured once, and a kill cost a session of each board at most."""
    concluded = Counter(entry.trial for entry in entries if isinstance(entry, Concluded))
    assert concluded == Counter(f"t{number}" for number in range(trials))
    fences = [entry.fence for entry in entries if isinstance(entry, Issued)]
    assert fences == sorted(set(fences))
    answers = Counter(entry.trial for entry in entries if isinstance(entry, Returned) and entry.verdict is not None)
    assert set(answers.values()) == {1}, "what was answered is not measured again"
    begun = sum(" begins " in line for line in sessions)
    assert trials <= begun <= trials + BOARDS * kills


def test_a_reply_is_in_the_journal_with_its_answer(tmp_path: Path) -> None:
    assert start(tmp_path / "journal", tmp_path / "sessions", 5).wait(60) == 0
    entries = read(tmp_path / "journal")
    returned = [entry for entry in entries if isinstance(entry, Returned)]
    assert {entry.trial for entry in returned} == {f"t{number}" for number in range(5)}
    lines = (tmp_path / "journal").read_bytes().splitlines()
    ok = f'"outcome":"{Outcome.OK.value}"'.encode()
    assert sum(line.count(ok) for line in lines) == 5
    assert all(line.count(b'"kind":"Returned"') == line.count(ok) for line in lines)

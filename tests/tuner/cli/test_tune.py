"""`int8tune tune` on two small layers: real builds, real measurements."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from int8tune.results.record import CampaignRun, runs_of
from int8tune.results.store import SqliteStore
from int8tune.rpc.local.capabilities import cpu_name
from tests.support.program.cli_program import (
    CONV,
    Ended,
    count_trials,
    end,
    in_process,
    int8tune,
    start,
    wait_for_trials,
    write_table,
)

pytestmark = [pytest.mark.alone, pytest.mark.promise(19, 20)]

TRIALS = 3


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "small.json")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune") / "results"


@pytest.fixture(scope="module")
def tuned(table: Path, results: Path) -> Ended:
    """A campaign that was run to its end."""
    return int8tune("tune", table, "--results", results, "--trials", TRIALS)


def test_a_campaign_ends_with_a_table_and_says_where_the_files_are(tuned: Ended, results: Path) -> None:
    assert tuned.code == 0
    *progress, report, best_log = tuned.err.splitlines()
    assert (report, best_log) == (f"report    {results}/small.html", f"best log  {results}/small.best.jsonl")
    assert all(re.match(r"\d/6 trials, ", line) for line in progress)  # on a machine that takes its time
    assert tuned.out.startswith("small on local (")
    number = r"[\d.]+"
    rate = rf"+{number} +{number} +[\d,.]+ +{number}%"
    assert re.search(rf"^  1 conv2d 1x1 8x8x16->32 +1 {rate} .* 0$", tuned.out, re.MULTILINE)
    assert re.search(rf"^  2 dwconv2d 3x3 9x9x32 +2 {rate} .* 0$", tuned.out, re.MULTILINE)
    assert "\n         6 ok\n" in tuned.out


def test_the_files_are_whole_and_nothing_else_is_left(tuned: Ended, results: Path) -> None:
    assert tuned.code == 0
    assert (results / "small.html").read_text().rstrip().endswith("</html>")
    assert len((results / "small.best.jsonl").read_text().splitlines()) == 3
    names = {path.name for path in results.iterdir()}
    assert names <= {"small.html", "small.best.jsonl", *(f"records.db{end}" for end in ("", "-wal", "-shm", ".lock"))}


def test_a_second_run_says_that_nothing_is_left(tuned: Ended, table: Path, results: Path) -> None:
    again = in_process("tune", table, "--results", results, "--trials", TRIALS)
    assert again.code == 0
    assert again.out == tuned.out
    files = tuned.err.splitlines()[-2:]
    assert again.err.splitlines() == ["nothing is left to do, 6 trials are recorded", *files]
    assert count_trials(results) == 2 * TRIALS


def test_a_campaign_knows_who_ran_it_and_how(tuned: Ended, table: Path, results: Path) -> None:
    assert tuned.code == 0
    with SqliteStore(results / "records.db", readonly=True) as store:
        (ran,) = runs_of(store.query(CampaignRun, campaign="small"))
        began, _ = store.query(CampaignRun)
    assert ran.command == f"int8tune tune {table} --results {results} --trials {TRIALS}"
    assert (ran.host, ran.user) == (socket.gethostname(), pwd.getpwuid(os.getuid()).pw_name)
    assert (ran.version, ran.cpu) == (version("int8tune"), cpu_name())
    assert ran.ending == "finished"
    assert ran.started_at <= ran.ended_at
    assert began == replace(ran, ended_at="", ending="")


@pytest.fixture(scope="module")
def again(tuned: Ended, table: Path, results: Path) -> Ended:
    """The same command once more, for a program: it says on stderr what it imports."""
    assert tuned.code == 0
    watched = {"PYTHONPROFILEIMPORTTIME": "1"}
    return int8tune("tune", table, "--results", results, "--trials", TRIALS, "--format", "json", env=watched)


def test_json_has_what_the_table_has(again: Ended) -> None:
    found = json.loads(again.out)
    assert found["ending"] == "finished"
    assert found["totals"]["outcomes"] == {"ok": 6}
    assert [layer["count"] for layer in found["layers"]] == [1, 2]
    assert found["layers"][0]["workload"] == CONV
    assert found["layers"][0]["best"]["median_s"] > 0


def test_tvm_stays_out_of_the_tuners_process(again: Ended) -> None:
    imported = {line.rpartition("|")[2].strip() for line in again.err.splitlines() if line.startswith("import time:")}
    assert "int8tune.tuner.campaign.run" in imported
    assert not imported & {"tvm", "tvm_ffi", "xgboost"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "1"], "error: campaign `small` was started with seed 0, now it is: 1"),
        pytest.param(
            ["--strategy", "grid"],
            "error: campaign `small` was started with strategy xgboost, now it is: grid",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_campaign_is_resumed_as_it_was_started(
    tuned: Ended, table: Path, results: Path, options: list[str], message: str
) -> None:
    assert tuned.code == 0
    other = in_process("tune", table, "--results", results, "--trials", TRIALS, *options)
    assert other.code == 1
    assert other.err.splitlines() == [
        message,
        "hint: go on as it was started, or start another one: add --name OTHER",
    ]


def test_the_best_schedules_are_read_back(tuned: Ended, results: Path) -> None:
    assert tuned.code == 0
    recorded = in_process("results", "best", "--results", results, "--format", "json")
    logged = in_process("results", "best", "--log", results / "small.best.jsonl", "--format", "json")
    assert recorded.code == logged.code == 0
    assert json.loads(recorded.out) == json.loads(logged.out)
    assert json.loads(logged.out)[0]["workload"] == CONV
    table = in_process("results", "best", "--results", results, "--campaign", "small")
    head, first, *_ = table.out.splitlines()
    assert head.split() == ["layer", "time", "speedup", "template", "config"]
    assert first.startswith("conv2d 1x1 8x8x16->32 ")
    assert "tile_columns=" in table.out


def test_a_report_is_written_anywhere(tuned: Ended, results: Path, tmp_path: Path) -> None:
    assert tuned.code == 0
    written = in_process("report", tmp_path / "page.html", "--results", results)
    assert written.code == 0
    assert written.err == f"report of small, 6 trials  {tmp_path}/page.html\n"
    assert (tmp_path / "page.html").read_bytes() == (results / "small.html").read_bytes()


@pytest.fixture
def checked(tuned: Ended, results: Path, tmp_path: Path) -> Path:
    """A results folder in which the device was checked before, which saves some seconds."""
    assert tuned.code == 0
    return Path(shutil.copytree(results, tmp_path / "results"))


@pytest.mark.thorough
def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(table: Path, checked: Path) -> None:
    arguments = ["tune", table, "--results", checked, "--trials", 5, "--strategy", "random", "--name", "other"]
    process = start(*arguments)
    wait_for_trials(checked, 8)
    stopped = end(process, signal.SIGINT, limit_s=10)
    assert stopped.code == 130
    words = " ".join(map(str, arguments))
    assert stopped.err.splitlines()[-1] == f"interrupted; to go on: int8tune {words}"
    assert stopped.out.startswith("other: small on local (")
    assert (checked / "other.html").exists()
    assert not (checked / ".work").exists()
    before = count_trials(checked) - 6
    assert 2 <= before < 10
    resumed = int8tune(*arguments)
    assert resumed.code == 0
    assert resumed.err.startswith(f"going on: {before} trials were recorded before\n")
    assert count_trials(checked) == 6 + 10


def test_a_second_signal_ends_at_once(table: Path, checked: Path) -> None:
    process = start("tune", table, "--results", checked, "--trials", 12, "--name", "other")
    wait_for_trials(checked, 7)
    # Two signals of one kind can become one on their way.
    stopped = end(process, signal.SIGTERM, signal.SIGINT, limit_s=1)
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.errors == []  # a slow start may have said what it waits for
    assert "to go on" not in stopped.err


@pytest.mark.thorough
def test_a_time_limit_stops_a_campaign_that_can_go_on(table: Path, checked: Path) -> None:
    options = ["--trials", 500, "--name", "other", "--time", "1s"]
    stopped = int8tune("tune", table, "--results", checked, *options)
    assert stopped.code == 0
    assert "\nthe time is up; to go on: int8tune tune " in stopped.err
    assert (checked / "other.best.jsonl").exists()


@pytest.mark.thorough
def test_cold_caches_make_a_campaign_of_their_own(table: Path, tmp_path: Path) -> None:
    tune = ("tune", table, "--results", tmp_path / "r", "--trials", 2)
    cold = int8tune(*tune, "--cache", "cold")
    assert cold.code == 0
    assert cold.out.splitlines()[0].endswith("times in us, cold caches")
    assert int8tune(*tune).err.startswith("nothing is left to do")
    warm = int8tune(*tune, "--cache", "warm")
    assert warm.errors == ["error: campaign `small` was started with cache cold, now it is: warm"]
    best = ("results", "best", "--results", tmp_path / "r", "--format", "json")
    assert json.loads(int8tune(*best).out) == []
    found = json.loads(int8tune(*best, "--cache", "cold").out)
    assert found == json.loads(int8tune(*best, "--campaign", "small").out)
    assert len(found) == len((tmp_path / "r" / "small.best.jsonl").read_text().splitlines()) - 1 == 2


@pytest.mark.thorough
def test_a_batch_is_a_campaign_of_its_own(table: Path, tmp_path: Path) -> None:
    """Its table, report and best log say so; under the name of another batch's campaign it does not go on."""
    options = ("--results", tmp_path, "--trials", "1", "--target", "generic")
    tuned = int8tune("tune", table, "--batch", "3", *options)
    assert tuned.code == 0, tuned.err
    assert tuned.out.startswith("small-batch3 on local (")
    assert "small-batch3" in (tmp_path / "small-batch3.html").read_text()
    assert "conv2d 1x1 3x8x8x16->32" in tuned.out
    best = (tmp_path / "small-batch3.best.jsonl").read_text().splitlines()
    assert len(best) == 3
    assert all("-3x" in line for line in best[1:])
    other = int8tune("tune", table, "--name", "small-batch3", *options)
    assert other.code == 1
    assert "was started with network small-batch3, now it is: small" in other.err

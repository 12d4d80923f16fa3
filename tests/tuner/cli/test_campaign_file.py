"""`int8tune tune CAMPAIGN.toml`: the example of the documentation as written, and what goes wrong with a network."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

import int8tune as it
from int8tune.rpc.local.capabilities import cpu_features
from tests.support.places import ROOT
from tests.support.program.cli_program import (
    count_trials,
    end,
    in_process,
    int8tune,
    start,
    wait_for_trials,
    write_table,
)

PAGE = (ROOT / "docs" / "campaign-files.md").read_text(encoding="utf-8")


def write_example(folder: Path) -> Path:
    """The files that the documentation shows, under the names that it gives them."""
    tables = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    for table in tables:
        (folder / f"{json.loads(table)['name']}.json").write_text(table)
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = folder / "CAMPAIGN.toml"
    file.write_text(text)
    return file


def write_damaged(folder: Path) -> Path:
    """Two networks, neither of which can be read."""
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text("{")
    file = folder / "CAMPAIGN.toml"
    file.write_text('[[networks]]\nnetwork = "a.json"\n[[networks]]\nnetwork = "b.json"\n')
    return file


def test_the_plan_of_the_example(tmp_path: Path) -> None:
    file = write_example(tmp_path)
    file.write_text(file.read_text().replace('"x86-avx2"', '"cuda-sm90"'))
    planned = in_process("plan", file, "--format", "json")
    found = json.loads(planned.out)
    assert found["format"] == 1
    assert [(row["name"], row["trials"], row["failed"]) for row in found["campaigns"]] == [
        ("pointwise-generic", 2, False),
        ("pointwise-cuda-sm90", None, True),
        ("depthwise-generic", 3, False),
        ("depthwise-cuda-sm90", None, True),
    ]
    assert planned.code == 1
    assert len(planned.errors) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["CAMPAIGN.toml", "depthwise.json", "pointwise.json"]


def test_boards_are_not_asked_for_a_plan(tmp_path: Path) -> None:
    file = write_example(tmp_path)
    file.write_text('devices = ["pi", "rock"]\n' + file.read_text())
    planned = in_process("plan", file)
    assert planned.code == 0
    assert planned.out.splitlines()[1].split() == ["pointwise", "generic", "-", "-", "-", "pi,", "rock"]


def test_all_networks_that_fail_are_said(tmp_path: Path) -> None:
    file = write_damaged(tmp_path)
    ended = in_process("tune", file)
    assert ended.code == 1
    assert [line for line in ended.err.splitlines() if " of 2: " in line] == ["1 of 2: a", "2 of 2: b"]
    assert len(ended.errors) == 2
    assert "Traceback" not in ended.err
    head, *rows = ended.out.splitlines()
    assert head.split() == ["network", "target", "default", "ms", "best", "ms", "speedup", "trials", "ending"]
    assert [row.split() for row in rows] == [[name, *"-----", "failed"] for name in "ab"]
    found = it.tune_all(file)
    assert (len(found.errors), found.campaigns, found.is_finished) == (2, (), False)
    assert repr(found) == "<Campaigns of a file: 2 campaigns, 0 finished, 2 failed>"
    assert list(found.to_pandas()["ending"]) == ["failed", "failed"]


def test_a_failure_is_told(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    script = tmp_path / "tell"
    script.write_text(f"#!/bin/sh\ncat > {shlex.quote(str(told))}\n")
    script.chmod(0o700)
    assert in_process("tune", write_damaged(tmp_path), "--notify", script).code == 1
    assert "failed" in told.read_text()


@pytest.mark.parametrize(
    "words", [("tune", "--trials", "3"), ("tune", "--target", "generic"), ("plan", "--threads", "1")]
)
def test_options_of_the_file_are_refused_beside_it(words: tuple[str, ...], tmp_path: Path) -> None:
    file = write_example(tmp_path)
    ended = in_process(*words, file)
    assert (ended.code, ended.out) == (2, "")
    assert ended.errors == [f"error: {words[1]} stands in the file, say it there: {file}"]


def test_faults_of_the_file_name_its_page(tmp_path: Path) -> None:
    file = tmp_path / "CAMPAIGN.toml"
    file.write_text("trails = 3\n[[networks]]\n")
    ended = in_process("tune", file)
    assert (ended.code, ended.out) == (2, "")
    assert [line.split(": ", 1)[1] for line in ended.errors] == [
        f"{file}:1: trails: unknown field, did you mean `trials`?",
        f"{file}:2: networks[0].network: missing",
    ]
    assert "hint: see what it may say: int8tune help campaign-files" in ended.err


def needs_avx2() -> Any:
    return pytest.mark.skipif("avx2" not in cpu_features(), reason="the example is for a CPU with AVX2")


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.timeout(300)
@needs_avx2()
def test_the_example_runs_as_written(tmp_path: Path) -> None:
    write_example(tmp_path)
    (command,) = re.findall(r"^\$ int8tune (tune .*)$", PAGE, re.MULTILINE)
    ended = int8tune(*command.split(), cwd=tmp_path, limit_s=250)
    assert ended.code == 0, ended.err
    head, *rows = ended.out.splitlines()
    shown = PAGE.partition(f"$ int8tune {command}\n")[2].partition("```")[0].splitlines()
    assert head.split() == next(line for line in shown if line.startswith("network ")).split()
    names = [(row.split()[0], row.split()[-2], row.split()[-1]) for row in rows]
    assert names == [
        (name, str(count), "finished") for name, count in (("pointwise", 2), ("depthwise", 3)) for _ in "12"
    ]
    again = int8tune(*command.split(), "--format", "json", cwd=tmp_path)
    assert again.code == 0
    assert again.err.count("nothing is left to do") == 4
    found = json.loads(again.out)["campaigns"]
    assert {(tmp_path / row["report"]).is_file() for row in found} == {True}
    assert all(row["best_s"] > 0 and row["error"] is None for row in found)
    assert count_trials(tmp_path / "int8tune-results") == 10


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_others_go_on_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    write_table(tmp_path / "small.json")
    file = write_damaged(tmp_path)
    top = 'targets = ["generic"]\ntrials = 40\nstrategy = "random"\nmin_gain = 0\n'
    own = '[[networks]]\nnetwork = "small.json"\n[[networks]]\nnetwork = "small.json"\nname = "other"\ntrials = 2\n'
    file.write_text(top + file.read_text() + own)
    process = start("tune", file)
    wait_for_trials(tmp_path / "int8tune-results", 4, limit_s=100)
    stopped = end(process, signal.SIGINT, limit_s=20)
    assert stopped.code == 130
    assert len(stopped.errors) == 2
    assert stopped.err.splitlines()[-1] == f"interrupted; to go on: int8tune tune {file}"
    endings = [line.split()[-1] for line in stopped.out.splitlines()[1:]]
    assert endings == ["failed", "failed", "interrupted", "reached"]
    before = count_trials(tmp_path / "int8tune-results")
    file.write_text(file.read_text().replace("trials = 40", f"trials = {before}"))
    resumed = int8tune("tune", file, limit_s=250)
    assert resumed.code == 1
    assert f"going on: {before} trials were recorded before" in resumed.err
    assert [line.split()[-1] for line in resumed.out.splitlines()[3:]] == ["finished", "finished"]

"""Commands run as the pages say them: the steps of the CI recipe, and those of three people's tasks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import BoardEvent, Campaign, Duel, Trial
from int8tune.results.store import SqliteStore
from int8tune.results.stores import STORE_FILE
from int8tune.rpc.farm.simulation.values import Fault, FaultKind
from tests.support.places import ROOT
from tests.support.program.cli_program import CONV, write_table
from tests.support.program.two_campaigns import LAYERS as LAYERS_OF_TWO
from tests.support.program.two_campaigns import Machine, side_store
from tests.tuner.campaign.test_board_events import played

TASKS = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
COMPARE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
LAYERS = [{"name": "a", "count": 1, "workload": CONV}, {"name": "b", "count": 1, "workload": "dense-u8s8-1x64-o10-s32"}]


def recipe() -> str:
    """The workflow of docs/compare.md."""
    (found,) = re.findall(r"```yaml\n(.*?)```", COMPARE, re.DOTALL)
    return str(found)


def tasks() -> list[str]:
    """All commands of docs/tasks.md, in order."""
    return [line for block in re.findall(r"```sh\n(.*?)```", TASKS, re.DOTALL) for line in block.splitlines()]


def steps(workflow: str) -> list[str]:
    """What its steps run, in order."""
    return re.findall(r"^ +(?:- )?run: (.*)$", workflow, re.MULTILINE)


class Shell:
    """Runs steps as a runner does: `bash -e` in one folder, with `gh` that only writes down what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = folder / "told"
        programs = folder / "bin"
        programs.mkdir()
        self._write(programs / "int8tune", f'exec {sys.executable} -m int8tune "$@"')
        self._write(programs / "gh", f'echo "$@" >> {self.told}; cat compare.md >> {self.told}')
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(folder / "state")}

    def run(self, step: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", step],
            cwd=self.folder,
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    return Shell(tmp_path)


def test_the_recipe_installs_an_extra_that_there_is_and_keeps_its_baseline_outside_of_the_checkout() -> None:
    install, *_ = steps(recipe())
    (extra,) = re.findall(r"-e '\.\[(\w+)\]'", install)
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (baseline,) = re.findall(r"BASELINE: (\S+)", recipe())
    assert baseline.startswith("/")
    assert f"int8tune tune resnet18 --trials 16 --results {baseline}\n" in COMPARE


@pytest.mark.thorough
@pytest.mark.timeout(200)
def test_the_steps_of_the_recipe_run(shell: Shell) -> None:
    """On a small network; the pull request loses a layer."""
    _, tune, compare, comment = steps(recipe())
    (prepare,) = re.findall(r"```sh\n(int8tune tune .* --results /.*/baseline)\n```", COMPARE)
    (place,) = re.findall(r"BASELINE: (\S+)", recipe())
    table = write_table(shell.folder / "small.json", LAYERS)
    baseline = str(shell.folder / "elsewhere" / "baseline")
    assert tune.count("resnet18") == prepare.count("resnet18") == 1
    done = shell.run(prepare.replace("resnet18", str(table)).replace(place, baseline))
    assert done.returncode == 0, done.stderr

    write_table(table, LAYERS[:1])
    done = shell.run(tune.replace("resnet18", str(table)))
    assert done.returncode == 0, done.stderr
    done = shell.run(compare, BASELINE=baseline)
    assert (done.returncode, "regression: dense 1x64->10: missing in B" in done.stderr) == (3, True), done.stderr
    comment = comment.replace("${{ github.event.number }}", "7")
    assert shell.run(comment).returncode == 0
    told = shell.told.read_text()
    assert told.startswith("pr comment 7 --body-file compare.md\n")
    assert "missing in B" in told

    # Where there is no baseline, nothing is said, and the step before has failed.
    assert shell.run(compare, BASELINE=f"{baseline}.none").returncode == 1
    assert shell.run(comment).returncode == 0
    assert shell.told.read_text() == told


def keep_two_weeks(folder: Path) -> None:
    """What the commands of docs/tasks.md read: two weeks of a network, and a campaign on boards of which one is ill."""
    for name, seed in (("last-week", 0), ("today", 1)):
        (folder / name).mkdir()
        found = side_store(Machine(), seed, layers=LAYERS_OF_TWO[:4])
        with SqliteStore(folder / name / STORE_FILE) as store:
            kept = next(found.query(Campaign))
            store.append([replace(kept, name="mobilenet_v1-x86-amx")])
            store.append([replace(trial, campaign="mobilenet_v1-x86-amx") for trial in found.query(Trial)])
            store.append([replace(duel, campaign="mobilenet_v1-x86-amx") for duel in found.query(Duel)])
    (folder / "int8tune-results").mkdir()
    boards = played(Fault(FaultKind.SLOW, "pi-2", 5.0, 1e4, 2.0))
    with SqliteStore(folder / "int8tune-results" / STORE_FILE) as store:
        store.append([replace(next(boards.query(Campaign)), name="mobilenet_v1")])
        store.append([replace(event, campaign="mobilenet_v1") for event in boards.query(BoardEvent)])
    (folder / "farm.toml").write_text('[[boards]]\nname = "pi-1"\ntransport = "local"\n')


@pytest.mark.thorough
def test_the_commands_of_three_tasks_answer_as_they_are_written(shell: Shell) -> None:
    keep_two_weeks(shell.folder)
    said = {}
    for task in tasks():
        done = shell.run(task)
        assert done.returncode == 0, (task, done.stderr)
        said[task.removeprefix("int8tune ")] = done.stdout
    assert len(said) == 7
    (compared,) = (out for task, out in said.items() if task.startswith("results compare"))
    assert re.search(r"^network .* unchanged", compared, re.MULTILINE)
    assert "boards   1 of 3 boards is unwell: pi-2 (off)" in said["results show mobilenet_v1"]
    assert "pi-1" in said["devices list"]
    assert "1 of 3 boards is unwell: pi-2 (off)" in (shell.folder / "boards.html").read_text()
    assert "What changed" in (shell.folder / "today.html").read_text()
    assert (shell.folder / "site" / "index.html").read_text().count(">mobilenet_v1-x86-amx</a>") == 2


@pytest.mark.parametrize("page", ["README.md", "docs/report.md", "docs/tasks.md"])
def test_pictures_are_there_and_small(page: str) -> None:
    path = ROOT / page
    found = re.findall(r"!\[[^]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    assert found
    for name in found:
        assert (path.parent / name).stat().st_size < 150_000, name

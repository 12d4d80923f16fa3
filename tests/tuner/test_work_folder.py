"""Folders for builds: each process has one of its own, and none removes that of another which lives."""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from int8tune.tuner.errors import ResultsFolderError
from int8tune.tuner.work_folder import WORK_FOLDER, work_folder
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.places import ROOT
from tests.support.program.cli_program import LIMIT_S, int8tune, start
from tests.support.program.waiting import wait_until

HOLDER = """
import sys
from pathlib import Path
from int8tune.tuner.work_folder import work_folder
with work_folder(Path(sys.argv[1]), "models") as folder:
    (folder / "model.so").write_text("whole")
    print(folder, flush=True)
    sys.stdin.readline()
    assert (folder / "model.so").read_text() == "whole"
"""
CROWD = """
import sys
from pathlib import Path
from int8tune.tuner.work_folder import work_folder
for number in range(100):
    with work_folder(Path(sys.argv[1]), "models") as folder:
        for name in ("a", "b"):
            (folder / name).write_text(str(number))
        assert [(folder / name).read_text() for name in ("a", "b")] == [str(number)] * 2
"""


@contextmanager
def holder(results: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder of its own."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, results], stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as one:
        try:
            assert one.stdout is not None
            yield one, Path(one.stdout.readline().strip())
        finally:
            one.kill()


def test_a_results_folder_in_which_nothing_was_kept_is_gone_if_it_was_not_there_before(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad input"), work_folder(tmp_path / "a" / "results", "schemes"):
        raise ValueError("bad input")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with work_folder(tmp_path / "mine", "schemes"):
        pass
    with work_folder(tmp_path / "new" / "results", "schemes"):
        (tmp_path / "new" / "results" / "kept").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "mine", "new", "results"]


def test_a_folder_is_empty_at_first_and_gone_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for _ in range(2):
        with work_folder(tmp_path / "results", "models") as folder:
            assert [path for path in folder.iterdir() if not path.name.startswith(".")] == []
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "model.so").write_text("made")
        assert list((tmp_path / "results").iterdir()) == []


def test_the_folder_of_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    with holder(tmp_path) as (other, theirs):
        with work_folder(tmp_path, "models") as ours:
            assert ours != theirs
        assert (theirs / "model.so").read_text() == "whole"
        other.communicate("\n", timeout=LIMIT_S)
    assert other.returncode == 0
    assert not (tmp_path / WORK_FOLDER).exists()


def test_the_folder_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    with holder(tmp_path) as (other, theirs):
        other.kill()
        other.wait(LIMIT_S)
        assert theirs.exists()
        with work_folder(tmp_path, "bench"):
            assert not theirs.exists()
    assert not (tmp_path / WORK_FOLDER).exists()


@pytest.mark.thorough
def test_many_at_once_never_meet(tmp_path: Path) -> None:
    crowd = [subprocess.Popen([sys.executable, "-c", CROWD, tmp_path], cwd=ROOT) for _ in range(4)]
    assert [one.wait(LIMIT_S) for one in crowd] == [0] * len(crowd)
    assert not (tmp_path / WORK_FOLDER).exists()


def test_what_went_wrong_is_not_hidden_by_what_can_not_be_removed(tmp_path: Path) -> None:
    def fail() -> None:
        with work_folder(tmp_path / "results", "models"):
            shutil.rmtree(tmp_path / "results")
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        fail()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_in_its_place_stays(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    (victim / "models").mkdir(parents=True)
    (victim / "models" / "mine").write_text("mine")
    (tmp_path / "results").mkdir()
    place = tmp_path / "results" / WORK_FOLDER
    place.symlink_to(victim) if kind == "link" else place.write_text("mine")
    what = "a symbolic link" if kind == "link" else "no folder"
    with pytest.raises(ResultsFolderError, match=rf"\({what} is where int8tune has a folder of its own\): {place}$"):
        work_folder(tmp_path / "results", "models").__enter__()
    assert (victim / "models" / "mine").read_text() == "mine"
    assert place.is_symlink() or place.read_text() == "mine"


def test_a_link_beside_the_folders_is_not_followed(tmp_path: Path) -> None:
    """Nor is it removed: it is nobody's folder."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "mine").write_text("mine")
    (tmp_path / WORK_FOLDER).mkdir()
    (tmp_path / WORK_FOLDER / "models").symlink_to(tmp_path / "victim")
    with work_folder(tmp_path, "models"):
        pass
    assert [path.name for path in (tmp_path / "victim").iterdir()] == ["mine"]


@pytest.mark.thorough
@pytest.mark.parametrize("second", ["accuracy", pytest.param("bench", marks=pytest.mark.slow)])
def test_two_programs_in_one_results_folder(tmp_path: Path, second: str) -> None:
    """The first one is stopped in the middle, until the second one has come and gone."""
    pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
    quantized(MODELS["head"](), tmp_path, "u8", "s8", True)
    model, results = tmp_path / "quantized.onnx", tmp_path / "results"
    process = start("accuracy", model, "--count", 2, "--results", results)
    try:
        wait_until(lambda: any(results.glob(f"{WORK_FOLDER}/*/*")), LIMIT_S)
        process.send_signal(signal.SIGSTOP)
        options = {"accuracy": ("--count", 2), "bench": ("--against", "onnxruntime", "--runs", 5, "--run-ms", 1)}[
            second
        ]
        ended = int8tune(second, model, "--results", results, *options)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert (ended.code, process.returncode) == (0, 0), (ended.err, err.decode())
    assert not (results / WORK_FOLDER).exists()

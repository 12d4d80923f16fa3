"""What a person sees while a model is compiled."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from int8tune.tuner.cli import waiting as module
from int8tune.tuner.cli.output import size
from int8tune.tuner.cli.waiting import waiting
from int8tune.tuner.models.compiling import compile_apart
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.program.cli_program import int8tune
from tests.support.run.probes import host_target

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

LIMIT_S = 100
ERASED = "\x1b[1A\x1b[2K"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    quantized(MODELS["head"](), folder, "u8", "s8", True)
    return folder / "quantized.onnx"


@pytest.mark.thorough
def test_every_stage_is_reported_and_never_less_than_before(model: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    target = host_target("generic")
    graph = read_onnx(model.read_bytes(), "net")
    compile_apart(graph, target, Schedules(target), tmp_path / "net.so", report=lambda *state: told.append(state))
    stages = list(dict.fromkeys(doing for doing, _, _ in told))
    assert stages == ["starting", "choosing schedules", "building kernels", "linking"]
    for stage in stages:
        done = [(count, total) for doing, count, total in told if doing == stage]
        assert done == sorted(done)
        assert len({total for _, total in done}) == 1
    built = [(done, total) for doing, done, total in told if doing == "building kernels"]
    assert built[-1] == (built[-1][1], built[-1][1])


def test_elsewhere_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting("starting") as report:
        for done in range(10):
            report("building kernels", done, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.0)
    with waiting("starting") as report:
        report("building kernels", 3, 10)
        report("linking", 0, 1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["building kernels 3/10   0:00", "linking   0:00"]


def test_a_line_on_a_terminal_is_erased_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w", encoding="utf-8") as terminal:  # noqa: PTH123
        monkeypatch.setattr(sys, "stderr", terminal)
        with waiting("starting") as report:
            report("linking", 1, 2)
        monkeypatch.undo()
    shown = read_all(ours)
    assert shown.split("linking 1/2")[-1].endswith(ERASED)


@pytest.mark.thorough
def test_a_terminal_has_a_line_that_goes_away(model: Path, tmp_path: Path) -> None:
    library = tmp_path / "net.so"
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "int8tune",
        "compile",
        str(model),
        "-o",
        str(library),
        "--format",
        "json",
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, cwd=tmp_path) as program:
        os.close(theirs)
        shown = read_all(ours)
        assert program.stdout is not None
        assert program.stdout.read().startswith(b"{")
    assert (program.returncode, library.exists()) == (0, True)
    assert "building kernels 1/" in shown
    assert shown.rstrip().endswith("\x1b[?25h") or "\x1b[2K" in shown.split("linking")[-1]


def read_all(terminal: int) -> str:
    """What is written to a terminal until its last writer is gone."""
    data, deadline = b"", time.monotonic() + LIMIT_S
    while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            data += os.read(terminal, 1 << 16)
        except OSError:  # Linux's word for the end
            break
    os.close(terminal)
    return data.decode()


def test_small_files_have_a_size() -> None:
    assert [size(count) for count in (0, 51, 30_000, 104_858, 5 << 20)] == [
        "0.0 KiB",
        "0.0 KiB",
        "29.3 KiB",
        "0.1 MiB",
        "5.0 MiB",
    ]


@pytest.mark.thorough
def test_a_library_of_a_small_model_has_a_size_that_is_not_0(model: Path, tmp_path: Path) -> None:
    ended = int8tune("compile", model, "-o", tmp_path / "net.so", cwd=tmp_path)
    assert ended.code == 0, ended.err
    written = next(line for line in ended.err.splitlines() if line.startswith("written"))
    assert "(0.0 " not in written
    assert ended.out == ""

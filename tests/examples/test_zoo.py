"""What `examples/zoo.py` says of models that others made."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.models.onnx_islands import IslandWriter
from tests.support.places import ROOT

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

ZOO = ROOT / "examples" / "zoo.py"


def table(folder: Path, *options: str, what: str = "table") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ZOO), what, str(folder), *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


@pytest.mark.thorough
def test_each_file_is_judged_once_and_its_form_counts_it(tmp_path: Path) -> None:
    w = IslandWriter()
    files = {
        "u8s8/right.onnx": w.file(w.quantized(w.apply("MaxPool", w.data, kernel_shape=[3, 3]))),
        "u8s8/none.onnx": b"no model",
        "nncf/right.onnx": w.file(w.apply("Exp", w.data)),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    first = table(tmp_path)
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert "| u8s8 | 2 | 1 | 1 |  |" in lines
    assert "| u8s8/right |  | yes | 0 | 0 of " in first.stdout
    assert "| u8s8/none | | no | | | | error: " in first.stdout
    assert len(first.stderr.splitlines()) == 3
    again = table(tmp_path, "-o", "table.md")
    assert (again.stdout, again.stderr) == ("", "")
    assert (tmp_path / "table.md").read_text() == first.stdout
    assert "u8s8" not in table(tmp_path, "--only", "nncf").stdout


@pytest.mark.thorough
def test_files_are_timed_once_beside_the_libraries_that_read_them(tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="needs the extra `peers`")
    w = IslandWriter()
    (tmp_path / "u8s8").mkdir()
    (tmp_path / "u8s8" / "unet_mobilenet.onnx").write_bytes(w.file(w.quantized(w.apply("Exp", w.data))))
    (tmp_path / "u8s8" / "none.onnx").write_bytes(b"no model")
    first = table(tmp_path, "--", "--threads", "2", what="times")
    assert first.returncode == 0, first.stderr
    head, family, *files = [line for line in first.stdout.splitlines() if line and "|-" not in line]
    assert head.startswith("| family | models |")
    assert re.match(r"\| dense \| 1 \| \d+\.\d\d \| \d+\.\d\d \|$", family)
    assert re.match(r"\| u8s8/none \| - \| \| \| \| error: ", files[1])
    number = r"\d+\.\d{3}"
    assert re.match(rf"\| u8s8/unet_mobilenet \| {number} \| {number} \| {number} \| - \| \d+\.\d\d \[", files[2])
    assert table(tmp_path, "--", "--threads", "2", what="times").stderr == ""
    assert (tmp_path / "times--threads2.jsonl").exists()


def test_a_wrong_option_of_bench_is_said_once_and_of_no_file(tmp_path: Path) -> None:
    (tmp_path / "u8s8").mkdir()
    for name in ("one", "two"):
        (tmp_path / "u8s8" / f"{name}.onnx").write_bytes(b"no model")
    refused = table(tmp_path, "--", "--thread", "2", what="times")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[0] == "error: no such option: --thread, did you mean --threads?"
    assert not list(tmp_path.glob("*.jsonl"))


def test_last_bits_move_numbers_and_no_stored_values_of_a_model_without_them(tmp_path: Path) -> None:
    w = IslandWriter()
    (tmp_path / "u8s8").mkdir()
    (tmp_path / "u8s8" / "numbers.onnx").write_bytes(w.file(w.apply("Add", w.apply("Exp", w.data), 0.3)))
    stored = IslandWriter()
    made = stored.quantized(stored.apply("MaxPool", stored.data, kernel_shape=[3, 3]))
    (tmp_path / "u8s8" / "stored.onnx").write_bytes(stored.file(made))
    first = table(tmp_path, what="roundings")
    assert first.returncode == 0, first.stderr
    numbers, stored_line = first.stdout.splitlines()[2:]
    assert re.match(r"\| u8s8/numbers \| 1[2-6]\d dB \|", numbers)
    assert stored_line == "| u8s8/stored | equal |"


def test_a_form_that_is_unknown_is_refused(tmp_path: Path) -> None:
    refused = table(tmp_path, "--only", "nonesuch/", what="make")
    assert refused.returncode == 1
    assert refused.stderr.startswith("no FORM/NAME has the text 'nonesuch/'; forms: brevitas, dynamic, ")
    assert not any(tmp_path.iterdir())

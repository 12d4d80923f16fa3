"""Damaged model files, compiled: each ends with a library or with one line, and none crashes or hangs the program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compiler.test_tflite import small_model
from tests.compiler.test_tflite_islands_files import file_with_many, file_with_state
from tests.support.models.onnx_forms import FORMS as ONNX_FORMS
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.models.onnx_operators import every_operator
from tests.support.models.onnx_tool_forms import TOOL_FORMS
from tests.support.models.tflite_models import network
from tests.support.places import ROOT

PROGRAM = "tests.support.mutation.compile_mutants"
FEW, MANY = 20, 1000
# What needs more than 8-bit layers, and what tools write.
FORMS: dict[str, Callable[[Path], bytes]] = {
    name: lambda _, make=make: make()
    for name, make in {**ONNX_FORMS, **{f"zoo-{name}": make for name, make in TOOL_FORMS.items()}}.items()
}
ONNX: dict[str, Callable[[Path], bytes]] = {
    "residual": lambda folder: quantized(MODELS["residual"](), folder, "u8", "s8", True),
    "head": lambda folder: quantized(MODELS["head"](), folder, "s8", "s8", True),
    "concat": lambda folder: quantized(MODELS["concat"](), folder, "u8", "s8", False, "QOperator"),
    "operators": lambda folder: quantized(every_operator(), folder, "u8", "s8", True),
}
TFLITE: dict[str, Callable[[Path], bytes]] = {
    "layer": lambda _: small_model(),
    "network": lambda _: network(),
    "islands": lambda _: file_with_many(),
    "states": lambda _: file_with_state(),
}


def compile_mutants(file: Path, count: int, seed: int) -> dict[str, int]:
    """How many mutants ended with which exit code."""
    command = [sys.executable, "-m", PROGRAM, str(file), str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["faults"] == []
    codes: dict[str, int] = found["codes"]
    return codes


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "make"), [("layer.tflite", TFLITE["layer"]), ("residual.onnx", ONNX["residual"])])
def test_a_few(name: str, make: Callable[[Path], bytes], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(make(tmp_path))
    assert sum(compile_mutants(tmp_path / name, FEW, 1).values()) == FEW


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ONNX)
def test_onnx(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(ONNX[name](tmp_path))
    codes, count = compile_mutants(tmp_path / "model.onnx", MANY // len(ONNX), 2), MANY // len(ONNX)
    assert sum(codes.values()) == count
    assert min(codes["0"], codes["1"]) > 0.05 * count


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TFLITE)
def test_tflite(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(TFLITE[name](tmp_path))
    codes, count = compile_mutants(tmp_path / "model.tflite", MANY // len(TFLITE), 3), MANY // len(TFLITE)
    assert sum(codes.values()) == count
    assert min(codes["0"], codes["1"]) > 0.05 * count


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("name", FORMS)
def test_other_forms(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(FORMS[name](tmp_path))
    codes = compile_mutants(tmp_path / "model.onnx", MANY, 4)
    assert sum(codes.values()) == MANY
    assert min(codes["0"], codes["1"]) > 0.02 * MANY

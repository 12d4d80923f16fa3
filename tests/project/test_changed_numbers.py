"""Models with other numbers in them are their runtimes' in every bit, and a fault of the compiler shows in some."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite", reason="needs the extra `models`")
pytest.importorskip("ai_edge_litert", reason="needs LiteRT, which results are compared with")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

from int8tune.compiler import fused_graph
from tests.changed_numbers import REFUSED, SAME, outcome
from tests.support.models.changed_numbers import Rng, changed_onnx, changed_tflite
from tests.support.models.shared_models import more_model
from tests.support.places import ROOT

TFLITE, ONNX = "toycar_int8.tflite", "resnet8_minmax.qdq.onnx"


@pytest.mark.thorough
@pytest.mark.parametrize("name", [TFLITE, "vww_int8.tflite", "dscnn_int8.tflite", "resnet8_int8.tflite", ONNX])
def test_models_with_other_numbers_are_their_runtimes(name: str, tmp_path: Path) -> None:
    found = [outcome(more_model(name), seed, tmp_path) for seed in range(6)]
    assert set(found) <= {SAME, REFUSED}
    assert SAME in found


@pytest.mark.parametrize(("name", "change"), [(TFLITE, changed_tflite), (ONNX, changed_onnx)])
def test_a_seed_is_a_model(name: str, change: Callable[[bytes, Rng], bytes]) -> None:
    file = more_model(name).read_bytes()
    made = [change(file, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert file not in made


@pytest.mark.thorough
def test_a_wrong_rounding_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense layers by the rule `fixed`, as if that were LiteRT's."""
    monkeypatch.setattr(fused_graph, "needs_sums", lambda *_: False)
    monkeypatch.setattr(fused_graph, "fused_rounding", lambda _: None)
    found = {outcome(more_model(TFLITE), seed, tmp_path) for seed in range(12)}
    assert found - {SAME, REFUSED}


@pytest.mark.thorough
def test_the_command_counts_what_came_out() -> None:
    path = more_model(TFLITE)
    command = [sys.executable, "-m", "tests.changed_numbers", str(path), "--minutes", "0.02"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("0 wrong")

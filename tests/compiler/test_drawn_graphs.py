"""Models of drawn operators, compiled, beside ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from int8tune.tuner.api.accuracy import accuracy
from tests.support.models.drawn_graphs import DrawnGraph
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

STEPS = 5
MODELS, AT_ONCE = 80, 4


@pytest.mark.promise(1)
@pytest.mark.parametrize("first", one_in(MODELS // AT_ONCE, range(0, MODELS, AT_ONCE)))
def test_drawn_models_are_exact(first: int, tmp_path: Path) -> None:
    """All values are ONNX Runtime's, but where either side computes with numbers, as `accuracy` knows."""
    ends: Counter[str] = Counter()
    for seed in range(first, first + AT_ONCE):
        file = tmp_path / f"{seed}.onnx"
        file.write_bytes(DrawnGraph(seed, STEPS).file())
        found = accuracy(file, count=6)
        assert not found.broken, (seed, found.outputs)
        ends["equal" if found.is_exact else "rounded"] += 1
    assert ends["equal"] >= AT_ONCE // 2

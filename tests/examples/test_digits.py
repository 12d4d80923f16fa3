"""A network that was trained, by three calibrations: compiled, it is what ONNX Runtime makes of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

# Looked for and not imported: they take seconds, which other tests would wait for.
MISSING = [name for name in ("onnx", "onnxruntime", "sklearn") if importlib.util.find_spec(name) is None]


@pytest.mark.thorough
@pytest.mark.skipif(bool(MISSING), reason=f"needs the extras `peers` and `test`: no {', '.join(MISSING)}")
def test_eight_bits_keep_the_accuracy_and_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    import digits  # ends without the packages

    rows = digits.measure(tmp_path)
    assert [row.calibration for row in rows] == ["max", "percentile", "mse"]
    for row in rows:
        assert row.unquantized > 0.95
        assert row.ours == row.theirs
        assert abs(row.ours - row.unquantized) <= 0.02
        assert (row.differing, row.outputs) == (0, digits.TEST_IMAGES * digits.CLASSES)

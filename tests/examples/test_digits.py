"""A network that was trained, by three calibrations: compiled, it is what ONNX Runtime makes of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

# Looked for and not imported: they take seconds, which other tests would wait for.
MISSING = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]


@pytest.mark.thorough
@pytest.mark.skipif(bool(MISSING), reason=f"needs the extra `peers`: no {', '.join(MISSING)}")
def test_eight_bits_keep_the_accuracy_and_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    import digits  # ends without the packages

    rows = digits.measure(tmp_path)
    assert [row.calibration for row in rows] == ["max", "percentile", "mse"]
    for row in rows:
        assert row.unquantized > 0.95
        assert row.ours == row.theirs
        assert abs(row.ours - row.unquantized) <= 0.02
        assert (row.differing, row.outputs) == (0, digits.TEST_IMAGES * digits.CLASSES)


@pytest.mark.thorough
@pytest.mark.skipif(bool(MISSING), reason=f"needs the extra `peers`: no {', '.join(MISSING)}")
def test_a_tuned_library_answers_as_before(tmp_path: Path) -> None:
    import digits
    import numpy as np
    import onnx

    from int8tune.compiler.compiled_model import CompiledModel

    images, classes = digits.digits()
    model, quantized = tmp_path / "digits.onnx", tmp_path / "quantized.onnx"
    onnx.save(digits.as_onnx(digits.trained(images[:-500], classes[:-500])), model)
    digits.quantize(model, quantized, "mse", images[:50])
    library = digits.tuned(tmp_path, quantized, time_limit_s=8.0)
    compiled = CompiledModel(library)
    made = np.concatenate([compiled.run([image[None]])[0] for image in images[-20:]])
    assert np.array_equal(made, digits.run_onnxruntime(quantized, images[-20:]))
    assert all(0 < each < 1e6 for each in digits.medians_us([library, library], images[:1]))

"""What the process of a runtime does with a model, in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

from int8tune.tuner.models.arrays import read_arrays, write_arrays
from int8tune.tuner.models.runtimes import OnnxRuntime
from int8tune.tuner.models.worker import ModelRunner
from tests.support.models.float_models import pictures, run, saved, small


def test_a_model_is_run_on_each_sample_and_then_timed(tmp_path: Path) -> None:
    model = saved(small(), tmp_path)
    samples = pictures(3)
    write_arrays(tmp_path / "samples.npz", [samples[:, None]])
    runner = ModelRunner(OnnxRuntime(), 1)
    task = {"model": str(model), "samples": str(tmp_path / "samples.npz"), "outputs": str(tmp_path / "outputs.npz")}
    runner.load(task)
    (made,) = read_arrays(tmp_path / "outputs.npz")
    np.testing.assert_allclose(made[:, 0], run(model, samples), rtol=1e-4, atol=1e-5)
    assert runner.mean_s(3) > 0

"""Right answers of quantized models that exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import onnxruntime

import int8tune as it
from int8tune.tuner.errors import SamplesError
from tests.support.models import shared_models, shared_quant
from tests.support.models.float_models import pictures, saved, small
from tests.support.program.cli_program import in_process


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    it.quantize(saved(small(), folder), pictures(20), folder / "q.onnx")
    return folder / "q.onnx"


def test_answers_are_counted_for_both(quantized: Path, tmp_path: Path) -> None:
    inputs, labels = pictures(40, seed=1), np.random.default_rng(2).integers(0, 5, 40)
    np.savez(tmp_path / "test.npz", images=inputs, y_test=labels)
    options = ("--test", tmp_path / "test.npz", "--labels", tmp_path / "test.npz", "--results", tmp_path)
    ended = in_process("accuracy", quantized, *options, "--count", "30", "--format", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    (seen,) = onnxruntime.InferenceSession(quantized).run(None, {"x": inputs[:30]})
    right = {"count": int((seen.argmax(axis=1) == labels[:30]).sum()), "samples": 30}
    assert [told["answers"][side]["top1"] for side in ("ours", "theirs")] == [right, right]
    assert told["answers"]["p_value"] == 1.0
    assert told["outputs"][0]["differing"] == 0
    assert told["against"] == f"onnxruntime {onnxruntime.__version__}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": [1, 2]}, "labels need the samples that they are of: --test FILE"),
        ({"test": pictures(3), "layers": True}, "test samples are for the whole model, in place of other samples"),
        ({"test": pictures(3), "labels": [0, 1, 5]}, "labels must be 0 to 4, the outputs of the model: 0 to 5"),
    ],
)
def test_labels_that_do_not_fit(options: dict[str, Any], words: str, quantized: Path, tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match=f"^{words}$"):
        it.accuracy(quantized, results=tmp_path, **options)


@pytest.mark.thorough
def test_a_model_that_stores_its_inputs_takes_pixels(tmp_path: Path) -> None:
    """MLPerf Tiny's ResNet-8 as TFLite: its inputs are bytes with a sign, of pixels from 0 to 255."""
    with np.load(shared_quant.shared_file("cifar10_sample.npz")) as data:
        images, labels = data["images"][:300], data["labels"][:300]
    found = it.accuracy(shared_models.more_model("resnet8_int8.tflite"), test=images, labels=labels, results=tmp_path)
    assert found.is_exact
    assert found.ours.top1 == found.theirs.top1
    assert found.ours.top1 is not None
    assert found.ours.top1.estimate > 0.7

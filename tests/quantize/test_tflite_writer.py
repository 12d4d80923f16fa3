"""Float TFLite models: their ranges by LiteRT, and quantized by ai-edge-quantizer where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")
pytest.importorskip("ai_edge_litert", reason="needs the extra `oracle`")

import int8tune as it
from int8tune.quantize.errors import FloatModelError, ForeignRangesError, NoTfliteError, QuantizeSpecError
from int8tune.quantize.tflite_models import LiteRtSession
from tests.support.models.tflite_models import float_network as network
from tests.support.models.tflite_models import network as quantized_network
from tests.support.models.tflite_models import packed, schema, values_of
from tests.support.program.cli_program import in_process

Array = np.ndarray[Any, Any]
SAMPLES = 12


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "m.tflite").write_bytes(network())
    return tmp_path / "m.tflite"


def samples() -> Array:
    return np.random.default_rng(1).standard_normal((SAMPLES, 8, 8, 3)).astype(np.float32)


def test_ranges_are_those_of_litert(path: Path, tmp_path: Path) -> None:
    found = it.profile(path, samples(), tmp_path / "r.json").ranges
    values = [values_of(network(), {"x": each[None]}) for each in samples()]
    assert list(found.tensors) == ["x", "stem", "deep", "sum", "mean", "fc"]
    for name, each in found.tensors.items():
        right = np.concatenate([value[name].reshape(-1) for value in values])
        assert (each.minimum, each.maximum) == pytest.approx((right.min(), right.max()), rel=1e-5)
        assert each.values == right.size == sum(each.histogram)
    assert [each.producer for each in found.tensors.values()][:3] == ["input", "CONV_2D", "DEPTHWISE_CONV_2D"]
    assert it.profile(path, samples()).ranges == found


def test_numbers_go_into_a_quantized_model_and_come_out(path: Path) -> None:
    """A session takes and gives numbers where LiteRT itself takes and gives steps of them."""
    session = LiteRtSession(path, quantized_network())
    (given,), (made,) = session.inputs.values(), session.outputs.values()
    steps = np.random.default_rng(2).integers(-128, 128, given["shape"], np.int8)
    scale, zero_point = given["quantization"]
    (found,) = session.run([made["name"]], {given["name"]: (steps.astype(np.float32) - zero_point) * np.float32(scale)})
    right = values_of(quantized_network(), {given["name"]: steps}, is_reference=False)[made["name"]]
    scale, zero_point = made["quantization"]
    np.testing.assert_allclose(found, (right.astype(np.float32) - zero_point) * scale, rtol=1e-6)


@pytest.mark.parametrize("package", ["ai_edge_litert", "ai_edge_quantizer"])
def test_what_is_to_be_installed_is_said(
    package: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NoTfliteError, match="not installed"):
        it.quantize(path, samples())
    np.save(tmp_path / "s.npy", samples())
    refused = in_process("quantize", path, "--data", tmp_path / "s.npy", "-o", tmp_path / "q.tflite")
    assert (refused.code, len(refused.errors)) == (1, 1)
    assert "pip install ai-edge-quantizer" in refused.err
    assert not (tmp_path / "q.tflite").exists()


def without_outputs(data: bytes) -> bytes:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    model.subgraphs[0].outputs = []
    return packed(model)


def test_what_is_no_float_model_is_refused(path: Path, tmp_path: Path) -> None:
    for content, words in (
        (b"", "no TFLite file"),
        (network()[:400], "LiteRT can't read it"),
        (quantized_network(), "has no float tensor"),
        (without_outputs(network()), "a model needs an output"),
    ):
        (tmp_path / "n.tflite").write_bytes(content)
        with pytest.raises(FloatModelError, match=words):
            it.profile(tmp_path / "n.tflite", samples())
    for option in ({"per_tensor": True}, {"smooth": 0.5}, {"calibration": "global"}, {"skip": ["stem"]}):
        with pytest.raises(QuantizeSpecError, match="is for ONNX models"):
            it.quantize(path, samples(), **option)


def test_one_is_written_by_our_ranges_and_compiles_bit_for_bit(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_quantizer", reason="needs ai-edge-quantizer, which no extra has")
    made = it.quantize(path, samples(), tmp_path / "q.tflite")
    assert made.file is not None
    assert made.distance is not None
    assert made.distance.sqnr_db is not None
    assert made.distance.sqnr_db > 25
    details = {each["name"]: each["quantization"] for each in tensors_of(tmp_path / "q.tflite")}
    for name, each in made.thresholds.items():
        assert details[name][0] == pytest.approx((each.high - each.low) / 255, rel=1e-5)
    found = it.accuracy(tmp_path / "q.tflite", count=5, results=tmp_path / "none", target="generic")
    assert (found.is_exact, found.int8_share) == (True, 1)
    assert [layer.names for layer in it.layers(tmp_path / "q.tflite", target="generic").layers][-1] == ("fc",)

    it.profile(path, samples(), tmp_path / "r.json")
    again = it.quantize(path, ranges=tmp_path / "r.json")
    assert (again.proto, again.distance) == (made.proto, None)
    (tmp_path / "other.tflite").write_bytes(network() + bytes(8))
    with pytest.raises(ForeignRangesError, match="the ranges are of"):
        it.quantize(tmp_path / "other.tflite", ranges=tmp_path / "r.json")
    np.save(tmp_path / "s.npy", samples())
    done = in_process("quantize", path, "--data", tmp_path / "s.npy", "-o", tmp_path / "again.tflite")
    assert (done.code, done.out) == (0, f"{tmp_path / 'again.tflite'}: 6 tensors by mse, {SAMPLES} samples\n")
    assert (tmp_path / "again.tflite").read_bytes() == made.file.read_bytes()


def tensors_of(path: Path) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_path=str(path)).get_tensor_details()

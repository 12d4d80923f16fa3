"""What each layer costs is what its models show, and the layer that is hurt is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize import trial
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.session import start_session
from tests.support.models.float_models import pictures, saved, small
from tests.support.models.onnx_models import Writer, onnx
from tests.support.models.shared_quant import float_model, inputs_of
from tests.support.program.cli_program import in_process

PLAIN: dict[str, Any] = {"round_weights": False, "bias_correction": False}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(small(), tmp_path_factory.mktemp("model"))


def parts_of(path: Path, layer: Any) -> list[str]:
    """The operators of a layer: itself, and the one that makes its tensor."""
    nodes = onnx.load(path).graph.node
    return [node.name for node in nodes if node.name == layer.name or layer.tensor in node.output]


def answers_of(proto: Any, samples: Any) -> Any:
    session = start_session(Path("model.onnx"), proto)
    (output,), (given,) = session.get_outputs(), session.get_inputs()
    return session.run([output.name], {given.name: samples})[0].argmax(axis=1)


def assert_same(found: Any, expected: Any) -> None:
    """But for the float model's last bits: channels are made alike in it before, or not."""
    assert (found.samples, found.agreement) == (expected.samples, expected.agreement)
    assert found.sqnr_db == pytest.approx(expected.sqnr_db, abs=1e-3)


def test_damages_are_those_of_models_with_these_layers_in_float(path: Path) -> None:
    samples = pictures(40)
    found = it.sensitivity(path, samples)
    names = [node.name for node in onnx.load(path).graph.node]
    assert [each.name for each in found.layers] == [
        node.name for node in onnx.load(path).graph.node if node.op_type in ("Conv", "Gemm")
    ]
    assert_same(found.whole, it.quantize(path, samples, **PLAIN).distance)
    for layer in found.layers:
        own = parts_of(path, layer)
        alone = it.quantize(path, samples, skip=[name for name in names if name not in own], **PLAIN).distance
        assert_same(layer.alone, alone)
        assert_same(layer.all_but_it, it.quantize(path, samples, skip=own, **PLAIN).distance)


def test_the_last_tensor_is_the_output(path: Path) -> None:
    """Along the graph, what readers see of a layer's tensor; behind the last one nothing comes."""
    found = it.sensitivity(path, pictures(40))
    assert found.layers[-1].along_db == pytest.approx(found.whole.sqnr_db, abs=0.05)
    assert all(each.along_db is not None and each.along_db > 15 for each in found.layers)


def test_the_layer_that_is_hurt_is_found(tmp_path: Path) -> None:
    """One weight that is a thousand times the others takes nearly all levels of its layer."""
    writer = Writer(["n", 3, 8, 8])
    data = "x"
    for name, channels in (("first", 3), ("second", 6), ("third", 6)):
        data = writer.conv(data, name, (6, channels, 3, 3), bias=False, pads=[1] * 4)
    model = writer.model(data)
    hurt = next(tensor for tensor in model.graph.initializer if tensor.name == model.graph.node[1].input[1])
    weights = onnx.numpy_helper.to_array(hurt).copy()
    weights.flat[7] = 1000 * np.abs(weights).mean()
    hurt.CopyFrom(onnx.numpy_helper.from_array(weights, hurt.name))
    found = it.sensitivity(saved(model, tmp_path), pictures(20), per_tensor=True, calibration="max", equalize=False)
    assert found.worst.name == model.graph.node[1].name
    assert found.worst.alone.sqnr_db == min(each.alone.sqnr_db or np.inf for each in found.layers)


def test_large_outputs_are_computed_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = pictures(20)
    kept = it.sensitivity(path, samples)
    monkeypatch.setattr(trial, "MOST_KEPT_BYTES", 10)
    assert it.sensitivity(path, samples) == kept


def test_others_are_compared_than_those_that_choose_ranges(path: Path) -> None:
    found = it.sensitivity(path, pictures(40), test=pictures(7))
    assert found.whole.samples == 7


def test_the_program_says_it_in_words_and_numbers(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "samples.npy", pictures(12))
    words = ("sensitivity", path, "--data", tmp_path / "samples.npy")
    shown, told = in_process(*words), json.loads(in_process(*words, "--format", "json").out)
    assert shown.code == 0, shown.err
    *_, last = shown.err.splitlines()
    layers = told["layers"]
    assert len(shown.out.splitlines()) == 1 + len(layers)
    worst = min(layers, key=lambda each: each["alone"]["sqnr_db"])["name"]
    assert last == f"`{worst}` costs most alone; to leave it in float: int8tune quantize ... --skip {worst}"
    assert in_process("sensitivity", path).err.startswith("error: samples are needed: --data FILE")


def test_with_labels_each_model_has_its_top1(path: Path, tmp_path: Path) -> None:
    samples, tests = pictures(12), pictures(30)
    made = it.quantize(path, samples, **PLAIN)
    labels = answers_of(made.proto, tests)
    labels[:3] = (labels[:3] + 1) % 2
    np.save(tmp_path / "samples.npy", samples)
    np.save(tmp_path / "tests.npy", tests)
    np.save(tmp_path / "labels.npy", labels)
    found = it.sensitivity(path, samples, test=tests, labels=labels)
    assert found.whole.top1 == pytest.approx(0.9)
    assert found.float_top1 is not None
    assert found.float_top1.count == int((answers_of(onnx.load(path), tests) == labels).sum())
    words = ("sensitivity", path, "--data", tmp_path / "samples.npy", "--test", tmp_path / "tests.npy", "--labels")
    shown = in_process(*words, tmp_path / "labels.npy")
    assert shown.out.splitlines()[0].split("  ").count("top-1") == 2
    assert f"; top-1 90.0%, of the float model {found.float_top1.estimate:.1%}" in shown.err
    np.save(tmp_path / "few.npy", labels[:7])
    refused = in_process(*words, tmp_path / "few.npy")
    assert (refused.code, refused.errors) == (1, ["error: a label is needed for each sample: 7 labels, 30 samples"])


def test_a_model_without_layers_says_so(tmp_path: Path) -> None:
    writer = Writer(["n", 3, 8, 8])
    path = saved(writer.model(writer.node("Relu", ["x"], "y", "relu")), tmp_path)
    with pytest.raises(QuantizeSpecError, match="no convolution or dense layer with constant weights is in it"):
        it.sensitivity(path, pictures(4))


@pytest.mark.thorough
def test_depthwise_layers_of_a_trained_network_are_hurt_most() -> None:
    """By one scale for weights whose channels have different ranges (Nagel et al. 2019)."""
    found = it.sensitivity(
        float_model("vww"), inputs_of("vww", "calibration")[:50], per_tensor=True, calibration="max", equalize=False
    )
    assert len(found.layers) == 28
    assert found.worst.name.startswith("dw")
    depthwise, others = (
        np.median([each.alone.sqnr_db or np.inf for each in found.layers if each.name.startswith("dw") is wanted])
        for wanted in (True, False)
    )
    assert depthwise < others - 3

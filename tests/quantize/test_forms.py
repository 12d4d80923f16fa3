"""Layers of one model in several forms: what is stored, what runs it, and what each form alone costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import onnxruntime

import int8tune as it
from int8tune.quantize import qdq
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.forms import Form
from int8tune.quantize.mixed import MixedModel
from int8tune.quantize.options import Options
from int8tune.quantize.quantizer import quantize
from int8tune.quantize.samples.given import samples_of
from tests.support.models.float_models import pictures, saved, small
from tests.support.models.onnx_models import Writer, onnx
from tests.support.run.thinned import one_in

Array = np.ndarray[Any, Any]
LAYERS = ("stem", "body", "dense")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(small(), tmp_path_factory.mktemp("model"))


def made_of(path: Path, forms: Mapping[str, Form], **options: Any) -> Any:
    made = quantize(read_float_model(path), samples_of(pictures(40)), Options(forms=forms, **options)).proto
    onnx.checker.check_model(made)
    return made


def run(model: Any, values: Array) -> Array:
    content = model if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: values})[0])


def constants_of(proto: Any) -> dict[str, Array]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


def sqnr_db(path: Path, proto: Any) -> float:
    right, seen = run(path, pictures(40)), run(proto, pictures(40))
    return float(10 * np.log10((right**2).sum() / ((right - seen) ** 2).sum()))


def test_each_layer_is_stored_in_its_own_form(path: Path) -> None:
    forms = {"stem": Form.ZERO_POINTS, "body": Form.PER_TENSOR, "dense": Form.FLOAT}
    constants = constants_of(made_of(path, forms, round_weights=False))
    assert constants["stem.w_quantized"].min() == -128
    assert constants["stem.w_quantized"].max() == 127
    assert (constants["stem.w_scale"].size, constants["body.w_scale"].size) == (1, 1)
    assert constants["body.w_zero_point"] == 0 != constants["stem.w_zero_point"]
    assert "dense.w" in constants
    assert constants_of(made_of(path, {}))["stem.w_scale"].size == 8


def test_what_a_layer_reads_has_16_bits_and_others_read_8(path: Path) -> None:
    """`body` and an addition read one tensor."""
    proto = made_of(path, {"body": Form.WORDS})
    constants = constants_of(proto)
    stored = {
        node.input[0]: constants[node.input[2]].dtype for node in proto.graph.node if node.op_type == "QuantizeLinear"
    }
    kinds = [node.op_type for node in proto.graph.node]
    assert stored["first"] == np.uint16
    assert list(stored.values()).count(np.dtype(np.uint16)) == 1
    assert kinds.count("QuantizeLinear") == len({*stored}) == 8
    assert "Relu" not in kinds
    assert {each.version for each in proto.opset_import if not each.domain} == {21}
    maker = {output: node for node in proto.graph.node for output in node.output}
    body, add = (next(node for node in proto.graph.node if node.name == name) for name in ("body", "add"))
    assert maker[body.input[0]].input[0] == "first_QuantizeLinear_Output"
    assert constants[maker[add.input[1]].input[2]].dtype == np.uint8


def test_16_bits_go_through_what_has_the_same_scale_and_to_the_output(path: Path) -> None:
    proto = made_of(path, {"dense": Form.WORDS})
    words = {name.removesuffix("_zero_point") for name, each in constants_of(proto).items() if each.dtype == np.uint16}
    assert words == {"pooled", "logits"}
    assert sqnr_db(path, proto) > sqnr_db(path, made_of(path, {})) + 6


def test_between_layers_in_float_nothing_is_quantized(path: Path) -> None:
    kinds = {node.op_type for node in made_of(path, dict.fromkeys(LAYERS, Form.FLOAT)).graph.node}
    assert not kinds & {"QuantizeLinear", "DequantizeLinear"}
    # With one layer quantized, all that is connected with it but by layers is.
    names = set(constants_of(made_of(path, {"stem": Form.FLOAT, "dense": Form.FLOAT})))
    assert {"first_scale", "body.y_scale", "second_scale", "pooled_scale"} <= names


CASES = {
    "each": ({"stem": Form.ZERO_POINTS, "body": Form.WORDS, "dense": Form.FLOAT}, {}),
    "signed": ({"stem": Form.WORDS, "body": Form.PER_TENSOR, "dense": Form.WORDS}, {"is_signed": True}),
    "words": (dict.fromkeys(LAYERS, Form.WORDS), {}),
    "symmetric": ({"body": Form.WORDS}, {"symmetric": True}),
}


@pytest.mark.parametrize("case", one_in(4, list(CASES)))
@pytest.mark.thorough
def test_they_compile_to_what_onnx_runtime_computes(case: str, path: Path, tmp_path: Path) -> None:
    """Bit for bit: ONNX Runtime rounds sums of so few 16-bit products as exact arithmetic does."""
    forms, options = CASES[case]
    onnx.save(made_of(path, forms, **options), tmp_path / "q.onnx")
    found = it.accuracy(tmp_path / "q.onnx", count=10, results=tmp_path / "none")
    assert found.is_exact


def test_older_operators_of_16_bits_are_onnx_runtimes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the version of a model's operators can't be raised."""

    def refuse(*_: object) -> None:
        raise RuntimeError

    usual = made_of(path, {"body": Form.WORDS})
    monkeypatch.setattr(onnx.version_converter, "convert_version", refuse)
    proto = made_of(path, {"body": Form.WORDS})
    assert {node.domain for node in proto.graph.node if node.op_type == "QuantizeLinear"} == {"com.microsoft"}
    assert (run(proto, pictures(9)) == run(usual, pictures(9))).all()


@pytest.mark.parametrize("follower", ["Relu", "Clip", ""])
def test_layers_in_float_stay_so_in_onnx_runtime(follower: str, tmp_path: Path) -> None:
    """Its optimizer would make 8-bit weights of them with one scale for all, which hurts if one is large."""
    writer = Writer(["n", 3, 8, 8])
    data = writer.conv(writer.conv("x", "a", (4, 3, 3, 3)), "b", (4, 4, 3, 3))
    if follower:
        bounds = [writer.constant("low", 0.0), writer.constant("high", 1e4)] if follower == "Clip" else []
        data = writer.node(follower, [data, *bounds], "follows", "follower")
    model = writer.model(writer.conv(data, "c", (4, 4, 3, 3)))
    weights = next(tensor for tensor in model.graph.initializer if tensor.name == "b.w")
    values = onnx.numpy_helper.to_array(weights).copy()
    values[0] *= 300
    weights.CopyFrom(onnx.numpy_helper.from_array(values, "b.w"))
    path = saved(model, tmp_path)
    proto = made_of(path, {"b": Form.FLOAT}, round_weights=False, bias_correction=False, equalize=False)
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    right = onnxruntime.InferenceSession(proto.SerializeToString(), plain).run(None, {"x": pictures(40)})[0]
    steps = np.abs(run(proto, pictures(40)) - right) / constants_of(proto)["c.y_scale"]
    assert steps.max() < 1.01
    assert (steps > 0.5).mean() < 0.02
    names = {name for node in proto.graph.node for name in node.output}
    assert {"a.y", "b.y", "c.y"} <= names


def test_layers_in_float_share_the_constants_that_keep_them_so(tmp_path: Path) -> None:
    writer, data, channels = Writer(["n", 3, 8, 8]), "x", 3
    for name in "abcde":
        data = writer.node(
            "Relu", [writer.conv(data, name, (4, channels, 3, 3), pads=[1] * 4)], f"{name}.r", f"{name}r"
        )
        channels = 4
    path = saved(writer.model(data), tmp_path)
    proto = made_of(path, {"b": Form.FLOAT, "d": Form.FLOAT}, round_weights=False, bias_correction=False)
    assert [node.name for node in proto.graph.node if node.op_type == "Max"] == ["br", "dr"]
    assert [tensor.name for tensor in proto.graph.initializer].count("zero_of_relu") == 1


def test_what_a_form_alone_costs(path: Path) -> None:
    """A layer that makes the output costs all of its noise; another one, that of what it reads and of its weights."""
    model = MixedModel(read_float_model(path), samples_of(pictures(40)), Options())
    assert [layer.name for layer in model.layers] == list(LAYERS)
    others = tuple(node.name for node in onnx.load(path).graph.node if node.name != "dense")
    for form in (Form.PER_TENSOR, Form.WORDS):
        alone = made_of(path, {"dense": form}, skip=others)
        assert -10 * np.log10(model.noise("dense", form)) == pytest.approx(sqnr_db(path, alone), abs=0.05)
    usual, words, in_float = (model.noise("body", form) for form in (Form.PER_CHANNEL, Form.WORDS, Form.FLOAT))
    assert 0 < words < usual
    assert in_float == pytest.approx(usual - words)
    assert model.network({"body": Form.WORDS}).graph == made_of(path, {"body": Form.WORDS}).graph


def test_layers_that_are_alike_are_known_by_their_likeness(tmp_path: Path) -> None:
    writer, data = Writer(["n", 3, 8, 8]), "x"
    for name, channels, relu in (("a", 3, False), ("b", 4, False), ("c", 4, False), ("d", 4, True)):
        data = writer.conv(data, name, (4, channels, 3, 3), pads=[1] * 4)
        data = writer.node("Relu", [data], f"{name}.r", f"{name}.relu") if relu else data
    path = saved(writer.model(data), tmp_path)
    model = MixedModel(read_float_model(path), samples_of(pictures(9)), Options(skip=("a",)))
    b, c, d = model.layers
    assert (b.name, c.name, d.name) == ("b", "c", "d")
    assert b.likeness == c.likeness != d.likeness
    with pytest.raises(QuantizeSpecError, match="no layer is left to choose a form of: all are skipped"):
        MixedModel(read_float_model(path), samples_of(pictures(9)), Options(skip=("a", "b", "c", "d")))


def test_weights_with_zero_points_take_all_numbers() -> None:
    weights = np.array([-1.0, 0.0, 3.0], np.float32)
    scale, zero_point = qdq.scale_and_zero_point(weights)
    assert (scale, zero_point) == (np.float32(4 / 255), np.int8(-64))
    assert qdq.scale_and_zero_point(np.zeros(3, np.float32)) == (1, -128)

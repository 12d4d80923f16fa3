"""Quantized models: what runs them, whose names they have, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.errors import FloatModelError, ForeignRangesError, QuantizeSpecError
from tests.support.models.float_models import pictures, run, saved, small, sqnr_db
from tests.support.models.onnx_models import Writer, onnx
from tests.support.models.shared_quant import NETWORKS, float_model, inputs_of
from tests.support.program.cli_program import in_process

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(small(), tmp_path_factory.mktemp("model"))


def with_batch_normalization(bias: bool) -> Any:
    writer = Writer(["n", 3, 8, 8])
    data = writer.conv("x", "stem", (6, 3, 3, 3), bias=bias, pads=[1] * 4)
    for name, low, high in (("gamma", 0.5, 2), ("beta", -1, 1), ("mean", -1, 1), ("variance", 0.2, 3)):
        writer.constant(name, writer.rng.uniform(low, high, 6))
    data = writer.node("BatchNormalization", [data, "gamma", "beta", "mean", "variance"], "normalized", "norm")
    return writer.model(writer.node("Relu", [data], "y", "relu"))


def test_it_is_near_the_float_model_and_says_how_near(path: Path) -> None:
    samples = pictures(40)
    made = it.quantize(path, samples)
    apart = sqnr_db(run(path, samples), run(made.proto, samples))
    assert made.distance is not None
    assert made.distance.sqnr_db == pytest.approx(apart, abs=0.2)
    assert apart > 25


@pytest.mark.parametrize(
    "options",
    [
        {"calibration": "max"},
        {"calibration": "percentile:99.9"},
        {"calibration": "kl"},
        {"per_tensor": True},
        {"per_tensor": True, "weight_zero_points": True},
        {"activations": "s8"},
        {"activations": "s8", "symmetric": True},
        {"symmetric": True},
    ],
    ids=str,
)
@pytest.mark.matrix(at_most=3)
def test_every_choice_gives_a_model_of_these_types(path: Path, options: dict[str, Any]) -> None:
    samples = pictures(40)
    made = it.quantize(path, samples, **options)
    onnx.checker.check_model(made.proto, full_check=True)
    assert sqnr_db(run(path, samples), run(made.proto, samples)) > 18
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.proto.graph.initializer}
    wanted = np.int8 if options.get("activations") == "s8" else np.uint8
    zero_point = arrays["first_zero_point"]
    assert zero_point.dtype == wanted
    if options.get("symmetric"):
        assert zero_point == (0 if wanted is np.int8 else 128)
    weight = arrays["body.w_zero_point"]
    assert weight.size == (1 if options.get("per_tensor") else 8)
    assert (weight != 0).any() == bool(options.get("weight_zero_points"))


def test_the_names_of_the_users_file_survive(tmp_path: Path) -> None:
    model = with_batch_normalization(bias=True)
    made = it.quantize(saved(model, tmp_path), pictures(8))
    there = {name for node in made.proto.graph.node for name in (*node.input, *node.output)}
    tensors = [name for node in model.graph.node for name in node.output]
    assert tensors == ["stem.y", "normalized", "y"]
    for name in ("x", *tensors):
        assert name in there or made.gone[name] in {*there, *made.gone}
    assert made.gone == {"stem.y": "normalized", "normalized": "y"}
    assert {node.name for node in model.graph.node if node.op_type == "Conv"} <= {
        node.name for node in made.proto.graph.node
    }
    assert [value.name for value in made.proto.graph.output] == ["y"]
    assert list(made.to_pandas()["name"]) == ["x", "normalized", "y"]


@pytest.mark.parametrize("attributes", [{}, {"transB": 0}, {"transB": 1}])
def test_batch_normalization_is_folded_into_a_dense_layer(attributes: dict[str, int], tmp_path: Path) -> None:
    from int8tune.quantize.float_model import read_float_model
    from int8tune.quantize.prepared import prepared

    writer = Writer(["n", 6])
    weights = [writer.weight("w", 6, 6), writer.weight("b", 6)]
    names = [writer.constant(name, writer.rng.uniform(0.5, 2, 6)) for name in ("gamma", "beta", "mean", "variance")]
    dense = writer.node("Gemm", ["x", *weights], "made", "dense", **attributes)
    file = saved(writer.model(writer.node("BatchNormalization", [dense, *names], "y", "norm")), tmp_path)
    folded = prepared(read_float_model(file)).proto
    samples = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    assert [node.op_type for node in folded.graph.node] == ["Gemm"]
    np.testing.assert_allclose(run(folded, samples), run(file, samples), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_batch_normalization_is_folded_exactly(bias: bool, tmp_path: Path) -> None:
    from int8tune.quantize.float_model import read_float_model
    from int8tune.quantize.prepared import prepared

    file = saved(with_batch_normalization(bias), tmp_path)
    folded = prepared(read_float_model(file)).proto
    assert [node.op_type for node in folded.graph.node] == ["Conv", "Relu"]
    np.testing.assert_allclose(run(folded, pictures(3)), run(file, pictures(3)), rtol=1e-4, atol=1e-5)


def test_a_clip_whose_range_lacks_zero_stays(tmp_path: Path) -> None:
    writer = Writer(["n", 3, 8, 8])
    data = writer.conv("x", "stem", (6, 3, 3, 3), pads=[1] * 4)
    bounds = [writer.constant("low", 0.5), writer.constant("high", 2.0)]
    file = saved(writer.model(writer.node("Clip", [data, *bounds], "y", "clip")), tmp_path)
    seen = run(it.quantize(file, pictures(8)).proto, pictures(8))
    assert seen.min() == pytest.approx(0.5, abs=0.01)


def test_operators_that_are_skipped_stay_in_float(path: Path) -> None:
    made = it.quantize(path, pictures(8), skip=["body", "logits"])
    constants = {tensor.name for tensor in made.proto.graph.initializer}
    assert {"body.w", "dense.w", "stem.w_quantized"} <= constants
    with pytest.raises(QuantizeSpecError, match="no operator or tensor `bodi`, did you mean `body`"):
        it.quantize(path, pictures(8), skip=["bodi"])


def test_ranges_that_were_made_before_give_the_same_model(path: Path, tmp_path: Path) -> None:
    it.profile(path, pictures(8), tmp_path / "r.json")
    made = it.quantize(path, ranges=tmp_path / "r.json")
    assert made.distance is None
    plain = {"equalize": False, "round_weights": False, "bias_correction": False}
    again = it.quantize(path, pictures(8), **plain).proto
    assert made.proto.graph == again.graph
    other = saved(with_batch_normalization(True), tmp_path)
    with pytest.raises(ForeignRangesError, match="the ranges are of"):
        it.quantize(other, ranges=tmp_path / "r.json")
    with pytest.raises(QuantizeSpecError, match="samples are needed"):
        it.quantize(other)


def test_samples_are_read_twice_where_no_channel_is_scaled(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    file = saved(with_batch_normalization(bias=True), tmp_path)
    it.quantize(file, pictures(8), round_weights=False, bias_correction=False, report=lambda *words: told.append(words))
    assert [what for what, done, _ in told if done == 8] == ["extremes of sample", "histograms of sample"]


def test_a_tensor_with_infinity_is_refused_by_name(tmp_path: Path) -> None:
    writer = Writer(["n", 2])
    file = saved(writer.model(writer.node("Log", ["x"], "logarithm", "log")), tmp_path)
    zeros = np.zeros((2, 2), np.float32)
    with pytest.raises(FloatModelError, match=r"`logarithm`, made by Log, has 0 NaN and 4 infinities; .*--skip log"):
        it.quantize(file, zeros)


def test_what_it_writes_is_no_float_model(path: Path, tmp_path: Path) -> None:
    made = it.quantize(path, pictures(8), tmp_path / "q.onnx")
    assert made.file == tmp_path / "q.onnx"
    with pytest.raises(FloatModelError, match="is quantized already"):
        it.quantize(tmp_path / "q.onnx", pictures(8))


def test_old_operators_are_raised(tmp_path: Path) -> None:
    writer = Writer(["n", 3, 8, 8])
    file = saved(writer.model(writer.conv("x", "stem", (6, 3, 3, 3)), opset=11), tmp_path)
    assert sqnr_db(run(file, pictures(8)), run(it.quantize(file, pictures(8)).proto, pictures(8))) > 25


def test_the_command(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", pictures(8))
    words = ("quantize", path, "--data", tmp_path / "s.npy", "-o", tmp_path / "q.onnx")
    done = in_process(*words)
    assert (done.code, done.out) == (0, f"{tmp_path / 'q.onnx'}: 9 tensors by mse, 8 samples\n")
    assert "beside the float model: SQNR" in done.err
    before = (tmp_path / "q.onnx").read_bytes()
    assert in_process(*words).code == 0
    assert (tmp_path / "q.onnx").read_bytes() == before
    for option in (("--calibration", "entropy"), ("--activations", "s4"), ("--weight-zero-points",)):
        refused = in_process(*words, *option)
        assert (refused.code, len(refused.errors)) == (2, 1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["q.onnx", "s.npy"]


@pytest.mark.parametrize("command", ["profile", "quantize"])
def test_a_place_that_is_none_is_said_before_the_work(command: str, path: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "none" / "q", tmp_path):
        refused = in_process(command, path, "--data", tmp_path / "not read", "-o", place)
        assert refused.code == 1
        assert refused.errors == [line for line in refused.errors if "can't be written" in line and str(place) in line]


def openvino_output(file: Path, values: Array) -> Array:
    openvino = pytest.importorskip("openvino", reason="needs the extra `peers`")
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.asarray(compiled(values)[0])


def test_openvino_and_this_library_run_it(path: Path, tmp_path: Path) -> None:
    it.quantize(path, pictures(40), tmp_path / "q.onnx")
    found = it.accuracy(tmp_path / "q.onnx", count=5, results=tmp_path / "none", target="generic")
    assert found.is_exact
    assert found.int8_share == 1
    names = " ".join(name for layer in it.layers(tmp_path / "q.onnx", target="generic").layers for name in layer.names)
    assert all(name in names for name in ("stem", "body", "dense"))
    right = run(tmp_path / "q.onnx", pictures(4))
    assert sqnr_db(right, openvino_output(tmp_path / "q.onnx", pictures(4))) > 25


def attention() -> Any:
    """A block of a transformer on [n, 10, 16], and a dense layer without a bias."""
    writer = Writer(["n", 10, 16])
    query, key, value = (
        writer.node("MatMul", ["x", writer.weight(f"{name}.w", 16, 16)], name) for name in ("query", "key", "value")
    )
    scores = writer.node("MatMul", [query, writer.node("Transpose", [key], "turned", perm=[0, 2, 1])], "scores")
    mixed = writer.node("MatMul", [writer.node("Softmax", [scores], "shares", axis=-1), value], "mixed")
    data = writer.node("Add", [mixed, "x"], "residual")
    factors = writer.constant("one", np.ones(16)), writer.constant("none", np.zeros(16))
    data = writer.node("LayerNormalization", [data, *factors], "normal", axis=-1)
    hidden = writer.node("Relu", [writer.node("MatMul", [data, writer.weight("up", 16, 32)], "wide")], "hidden")
    return writer.model(writer.node("MatMul", [hidden, writer.weight("down", 32, 16)], "y"))


def test_a_block_of_a_transformer_is_quantized_by_all_steps(tmp_path: Path) -> None:
    file = saved(attention(), tmp_path)
    samples = np.random.default_rng(0).standard_normal((40, 10, 16)).astype(np.float32)
    plain = it.quantize(file, samples, equalize=False, round_weights=False, bias_correction=False)
    made = it.quantize(file, samples)
    right = run(file, samples)
    assert sqnr_db(right, run(made.proto, samples)) > sqnr_db(right, run(plain.proto, samples)) > 30


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("network", NETWORKS)
def test_trained_networks_run_everywhere_bit_for_bit(network: str, tmp_path: Path) -> None:
    samples = inputs_of(network, "calibration")[:100]
    it.quantize(float_model(network), samples, tmp_path / "q.onnx")
    np.save(tmp_path / "s.npy", samples[:20, None])
    found = it.accuracy(tmp_path / "q.onnx", count=20, results=tmp_path / "none")
    assert found.is_exact
    right = run(tmp_path / "q.onnx", samples[:20])
    assert sqnr_db(right, openvino_output(tmp_path / "q.onnx", samples[:20])) > 15


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        {"per_tensor": True},
        {"per_tensor": True, "weight_zero_points": True},
        {"activations": "s8"},
        {"activations": "s8", "symmetric": True},
        {"share_scales": True},
    ],
    ids=str,
)
def test_every_choice_compiles_bit_for_bit(path: Path, options: dict[str, Any], tmp_path: Path) -> None:
    it.quantize(path, pictures(40), tmp_path / "q.onnx", **options)
    found = it.accuracy(tmp_path / "q.onnx", count=10, results=tmp_path / "none")
    assert found.is_exact or found.floats


def test_weights_of_one_scale_are_left_as_they_are(tmp_path: Path) -> None:
    model = saved(small(), tmp_path)
    made = {one: it.quantize(model, pictures(20), per_tensor=one).proto for one in (False, True)}
    steps = {
        one: {each.key: each.value for each in proto.metadata_props}["int8tune.steps"] for one, proto in made.items()
    }
    assert steps == {False: "equalize, round_weights, bias_correction", True: "round_weights, bias_correction"}
    plain = it.quantize(model, pictures(20), per_tensor=True, equalize=False).proto
    assert made[True].graph == plain.graph

"""Scales that are computed or given by the user, and shapes that the file leaves open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import int8tune as it
from int8tune.compiler.errors import CompiledModelError, ModelError
from int8tune.compiler.given import Given
from int8tune.compiler.graph import Kind
from int8tune.compiler.model import read_model
from int8tune.compiler.network import of_several_sizes
from int8tune.compiler.network_file import load_network
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.onnx_reader.specialized import specialized
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.tuner.errors import SpecError
from tests.support.models.compiled import assert_bound_is_same
from tests.support.models.onnx_islands import IslandWriter, feed_of, outputs_of
from tests.support.models.onnx_models import Writer, quantized_layer, values_of
from tests.support.program.cli_program import in_process, int8tune
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

OPSET = 21
RNG = np.random.default_rng(6)
STORED = [np.uint8, np.int8, np.uint16, np.int16]


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("how", ["computed", "axis", "blocks"])
def test_scales_of_all_kinds_are_exact(dtype: Any, how: str, tmp_path: Path) -> None:
    """Halves are rounded to even, and what is beyond is saturated."""
    w = IslandWriter()
    form = {"computed": (), "axis": (6,), "blocks": (2, 6, 2, 8)}[how]
    point = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, form)
    scale = w.constant("t", 2.0 ** RNG.integers(-4, 0, form) * (1 if np.iinfo(dtype).max < 256 else 2**-8))
    parameters = [scale, w.constant("m", point, dtype)]
    if how == "computed":
        parameters[0] = w.apply("Add", "t", w.apply("Mul", w.apply("ReduceMax", w.data, keepdims=0), 0.0))
    options: dict[str, Any] = {"axis": {"axis": 1}, "blocks": {"axis": 2, "block_size": 3}, "computed": {}}[how]
    w.node("QuantizeLinear", ["x", *parameters], "stored", **options)
    w.node("DequantizeLinear", ["stored", *parameters], "y", **options)
    file = w.file("stored", "y", opset=OPSET)
    feed = (RNG.integers(-600, 600, (2, 6, 5, 8)) / 32).astype(np.float32)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed}, optimized=False)
    for name, expected in theirs.items():
        assert ours[name].dtype == expected.dtype
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


def test_a_value_that_two_nodes_quantize_in_their_ways(tmp_path: Path) -> None:
    """A layer's output is quantized by a computed scale, and read by a constant one."""
    w = IslandWriter()
    w.constant("w", RNG.integers(-127, 128, (5, 6, 1, 1)), np.int8)
    w.node("DequantizeLinear", ["w", w.constant("w.s", 0.01)], "w.d")
    made = w.node("Conv", [w.data, "w.d"], "c")
    scale = w.apply("Add", 0.05, w.apply("Mul", w.apply("ReduceMax", w.data, keepdims=0), 0.0))
    w.node("QuantizeLinear", [made, scale, "z"], "stored")
    w.node("DequantizeLinear", ["stored", "s", "z"], "y")
    file = w.file("y", opset=OPSET)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of()}, optimized=False)
    steps = np.abs(ours["y"] - theirs["y"]) / 0.03
    assert np.count_nonzero(steps > 0.5) <= 2
    assert steps.max() < 1.5


def open_layer(folder: Path) -> Path:
    """A convolution whose input has sizes with names, and whose scale is an input."""
    model = quantized_layer("Conv")
    scale = next(each for each in model.graph.initializer if each.name == "x.scale")
    model.graph.initializer.remove(scale)
    model.graph.input.append(onnx.helper.make_tensor_value_info("x.scale", 1, scale.dims))
    for axis, name in ((0, "batch"), (2, "height"), (3, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    path = folder / "open.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_an_input_that_is_given_a_value_is_a_constant(tmp_path: Path) -> None:
    path = open_layer(tmp_path)
    with pytest.raises(ModelError, match=r"`x` has an unknown extent, height of axis 2: .*--shape x=Nx4xNxN"):
        read_model(path)
    given = Given({"x.scale": np.array(0.02)}, {"x": (3, 4, 7, 9)})
    graph = read_model(path, given)
    assert graph.inputs == ("x",)
    (layer,) = quantized_layers(graph)
    assert layer.workload.data_shape[:3] == (3, 7, 9)
    computed = read_onnx(specialized(path.read_bytes(), "open", Given(shapes=given.shapes)), "open")
    assert [each.kind for each in computed.operators].count(Kind.FLOAT) > 0


@pytest.mark.parametrize(
    ("bind", "shapes", "message"),
    [
        ({"none": 1.0}, {}, "it has no input `none`, its inputs are `x`, `x.scale`"),
        ({"x.scale": [1.0, 2.0]}, {}, "input `x.scale` must be "),
        ({}, {"x": (1, 4, 7)}, "input `x` must be batchx4xheightxwidth: 1x4x7"),
        ({}, {"x": (1, 5, 7, 7)}, "input `x` must be batchx4xheightxwidth: 1x5x7x7"),
    ],
)
def test_what_does_not_fit_an_input_says_so(bind: Any, shapes: Any, message: str, tmp_path: Path) -> None:
    given = Given({name: np.asarray(value) for name, value in bind.items()}, shapes)
    with pytest.raises(ModelError) as caught:
        read_model(open_layer(tmp_path), given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_of_integers_must_be_whole(tmp_path: Path) -> None:
    w = Writer((1, 4))
    w.inputs.append(onnx.helper.make_tensor_value_info("z", 2, ()))
    w.node("QuantizeLinear", ["x", w.constant("s", 0.1), "z"], "y")
    path = tmp_path / "point.onnx"
    path.write_bytes(w.model("y").SerializeToString())
    for value in (3.5, 256, -1, np.inf, np.nan):
        with pytest.raises(ModelError, match="input `z` is u8, which values given for it don't fit"):
            read_model(path, Given({"z": np.asarray(value)}))
    assert read_model(path, Given({"z": np.asarray(3.0)})).values["y"].quantization is not None


def test_one_name_has_one_size(tmp_path: Path) -> None:
    w = Writer(["n", 4])
    w.inputs.append(onnx.helper.make_tensor_value_info("v", 1, ["n", 4]))
    w.node("Add", ["x", "v"], "y")
    (tmp_path / "two.onnx").write_bytes(w.model("y").SerializeToString())
    with pytest.raises(ModelError, match="the extent `n` can't have two sizes: 3 and 5"):
        read_model(tmp_path / "two.onnx", Given({}, {"x": (3, 4), "v": (5, 4)}))


@pytest.mark.thorough
def test_the_program_is_given_values_and_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = open_layer(tmp_path)
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "scale.npy", np.float32(0.02))
    given = ["--bind", "x.scale=scale.npy", "--shape", "x=2x4x5x6"]
    ended = int8tune("accuracy", path, "--count", "6", *given, "--format", "json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    (output,) = json.loads(ended.out)["outputs"]
    assert output["differing"] == 0
    ended = int8tune("compile", path, "-o", "model.so", "--bind", "x.scale=0.02", "--shape", "x=2x4x5x6", cwd=tmp_path)
    assert ended.code == 0, ended.err
    ended = in_process("layers", path, *given, "--format", "json")
    assert len(json.loads(ended.out)["layers"]) == 1
    for wrong, message in (
        (["--bind", "x.scale"], "--bind must be NAME=VALUE or NAME=FILE.npy: x.scale"),
        (["--bind", "x.scale=none.npy"], "No such file"),
        (
            ["--shape", "x=2xn"],
            "or up to 64 of these shapes, by commas: x=2xn",
        ),
        ([], "--shape x=Nx4xNxN"),
    ):
        ended = in_process("layers", path, *wrong)
        assert ended.code in (1, 2)
        assert message in ended.err
        assert len(ended.err.splitlines()) <= 3


@pytest.mark.thorough
def test_campaigns_and_races_are_given_values_and_shapes(tmp_path: Path) -> None:
    path, bind = open_layer(tmp_path), ["--bind", "x.scale=0.02"]
    ended = int8tune("plan", path, *bind, "--shape", "x=1x4x5x6,2x4x7x6", "--format", "json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert [task["workload"].split("-")[2] for task in json.loads(ended.out)["tasks"]] == ["1x5x6x4", "2x7x6x4"]
    given = [*bind, "--shape", "x=1x4x5x6"]
    ended = int8tune("tune", path, *given, "--trials", "2", "--strategy", "random", "--format", "json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    (tuned,) = json.loads(ended.out)["layers"]
    assert "-1x5x6x4-" in tuned["workload"]
    ended = int8tune("compile", path, "-o", "model.so", *given, cwd=tmp_path)
    assert "1 layers (1 by log)" in ended.err
    turns = ["--runs", "5", "--run-ms", "2", "--against", "onnxruntime", "--format", "json"]
    ended = int8tune("bench", path, *given, *turns, cwd=tmp_path)
    assert ended.code == 0, ended.err
    ((told,),) = [json.loads(ended.out)]
    assert [runtime["failure"] for runtime in told["runtimes"]] == ["", ""]
    assert told["differences"][0]["differing"] == 0
    ended = int8tune("bench", path, *given, *turns, "--layers", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "-1x5x6x4-" in json.loads(ended.out)["layers"][0]["workload"]


@pytest.mark.parametrize("command", one_in(2, ["tune", "bench", "plan"]))
def test_what_can_not_be_given_says_so(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = open_layer(tmp_path)
    monkeypatch.chdir(tmp_path)
    for network, given, message, hint in (
        ("resnet18", ["--shape", "x=1x3x9x9"], "this is a table of layers", "--help"),
        (path, ["--shape", "x=1x"], "or up to 64 of these shapes, by commas: x=1x", "--help"),
        (path, ["--bind", "x.scale=0.02", "--shape", "y=1x4x5x6"], "it has no input `y`", "--help"),
        (path, ["--bind", "x.scale=0.02"], "give its shape, --shape x=Nx4xNxN", "--shape NAME=1x3x224x224"),
    ):
        ended = in_process(command, network, *given)
        assert ended.code in (1, 2)
        said, then = ended.err.splitlines()
        assert message in said
        assert hint in then
    if command == "bench":
        ended = int8tune(command, path, "--bind", "x.scale=0.02", "--shape", "x=1x4x5x6,1x4x7x7", cwd=tmp_path)
        assert "several shapes are for `compile`, `tune` and `plan`, give one here: 2" in ended.err


def test_layers_of_several_sizes_are_those_of_each_size(tmp_path: Path) -> None:
    path = open_layer(tmp_path)
    shapes = {"x": [(1, 4, 5, 6), (1, 4, 7, 6), (1, 4, 9, 6)]}
    planned = it.plan(path, bind={"x.scale": 0.02}, shape=shapes, trials=4)
    assert [layer.count for layer in planned.layers] == [1, 1, 1]
    one = load_network(str(path), Given({"x.scale": np.array(0.02)}, {"x": (1, 4, 5, 6)}))
    both = of_several_sizes([one, one])
    assert [(layer.count, layer.names) for layer in both.layers] == [(2, one.layers[0].names)]
    assert (both.macs, both.name) == (2 * one.macs, one.name)


def test_one_library_for_several_shapes(tmp_path: Path) -> None:
    """The one that fits the input runs; of others the message says which there are."""
    w = IslandWriter()
    w.inputs = [onnx.helper.make_tensor_value_info("x", 1, ["batch", 6, "height", "width"])]
    w.constant("w", RNG.integers(-127, 128, (5, 6, 3, 3)), np.int8)
    w.node("DequantizeLinear", ["w", w.constant("w.s", 0.01)], "w.d")
    made = w.quantized(w.node("Conv", [w.data, "w.d"], "c", pads=[1] * 4))
    path = tmp_path / "open.onnx"
    path.write_bytes(w.file(w.apply("Softmax", made, axis=-1), opset=OPSET))
    shapes = [(1, 6, 5, 8), (2, 6, 4, 7), (3, 6, 9, 9)]
    model = it.compile(path, tmp_path / "model.so", shape={"x": shapes}).load()
    for shape in shapes:
        feed = feed_of(shape)
        (ours,) = model.run([feed])
        (expected,) = values_of(path.read_bytes(), [model.about.outputs[0]["name"]], feed).values()
        np.testing.assert_allclose(ours, expected, atol=1e-2)  # some step of the convolution may be another one
        assert np.mean(np.abs(ours - expected) > 1e-5) < 0.01
        assert len(model.profile([feed], 2)) > 0
        assert_bound_is_same(model, [feed], [ours])
    with pytest.raises(CompiledModelError) as caught:
        model.run([feed_of((1, 6, 6, 8))])
    assert "one of the shapes (1, 6, 5, 8); (2, 6, 4, 7); (3, 6, 9, 9): (1, 6, 6, 8)" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"x": [(1, 4), (1, 4)]}, "two of the given shapes are the same"),
        ({"x": [(1, 4), (2, 4), (3, 4)], "v": [(1, 4), (2, 4)]}, "inputs must have one shape each, or equally many"),
        ({"x": (0, 4)}, "the shape of `x` must be up to 8 whole numbers of 1 to"),
        ({"x": [(1, 4), (1.5, 4)]}, "the shape of `x` must be up to 8 whole numbers of 1 to"),
    ],
)
def test_shapes_that_can_not_be_compiled_together(shape: Any, message: str, tmp_path: Path) -> None:
    w = IslandWriter()
    w.inputs = [onnx.helper.make_tensor_value_info(name, 1, ["n", 4]) for name in ("x", "v")]
    path = tmp_path / "two.onnx"
    path.write_bytes(w.file(w.apply("Add", w.data, "v"), opset=OPSET))
    with pytest.raises((ModelError, SpecError)) as caught:
        it.compile(path, tmp_path / "model.so", shape=shape)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

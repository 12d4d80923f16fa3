"""What keeps a model from being compiled: all of it is named, and how much of the model's work it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.compile import program_of
from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.obstacles import float_parts, int8_share, obstacle_lines, obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.onnx_models import Writer as OnnxWriter
from tests.support.models.tflite_models import Writer as TfLiteWriter
from tests.support.models.tflite_models import schema
from tests.support.program.cli_program import in_process, int8tune
from tests.support.run.probes import host_target


def quantize(writer: OnnxWriter, data: str, made: str) -> str:
    """A QuantizeLinear and a DequantizeLinear behind a value."""
    writer.node("QuantizeLinear", [data, "scale", "zero"], f"{made}.stored")
    return writer.node("DequantizeLinear", [f"{made}.stored", "scale", "zero"], made)


def attention_model() -> Any:
    """Two dense layers, a product of floats, and two operators that nothing computes: 2,048 + 2,048 + 256."""
    writer = OnnxWriter([1, 4, 16])
    writer.constant("scale", 0.05)
    writer.constant("zero", 128, np.uint8)
    writer.constant("w.zero", 0, np.int8)
    data = quantize(writer, "x", "data")
    for name, shape in (("up", (16, 32)), ("down", (32, 16))):
        writer.constant(f"{name}.w", writer.rng.integers(-127, 128, shape), np.int8)
        weight = writer.node("DequantizeLinear", [f"{name}.w", "scale", "w.zero"], f"{name}.wd")
        data = quantize(writer, writer.node("MatMul", [data, weight], f"{name}.sum", name), f"{name}.y")
        data = quantize(writer, writer.node("Bernoulli", [data], f"{name}.bernoulli", f"{name} bernoulli"), f"{name}.a")
    turned = writer.node("Transpose", [data], "turned", "turn", perm=[0, 2, 1])
    both = writer.node("MatMul", [data, writer.node("Exp", [turned], "keys")], "scores", "attention")
    return writer.model(quantize(writer, both, "y"))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return read_onnx(attention_model().SerializeToString(), "net")


def test_all_are_named_the_most_frequent_first(graph: Graph) -> None:
    assert [(each.operator, each.layers) for each in obstacles(graph)] == [
        ("Bernoulli", ("up bernoulli", "down bernoulli"))
    ]
    found = {each.operator: each for each in float_parts(graph)}
    assert found["MatMul"].layers == ("attention",)
    assert "two computed values" in found["MatMul"].reason


def test_the_share_counts_products_that_nothing_computes(graph: Graph) -> None:
    own, others = 4 * 16 * 32 + 4 * 32 * 16, 4 * 4 * 16
    assert int8_share(graph) == own / (own + others)


def test_nothing_is_compiled_and_every_line_says_one_kind(graph: Graph) -> None:
    target = host_target("generic")
    with pytest.raises(ModelError) as caught:
        program_of(graph, target, Schedules(target))
    lines = str(caught.value).split("\n")
    assert lines == obstacle_lines(graph)
    assert lines[0].startswith("net: 2 of ")
    assert lines[0].endswith("can't be compiled; int8 layers are 94.1% of its multiply-adds")
    assert lines[1] == "2 Bernoulli: it draws random numbers; the first is `up bernoulli`"
    assert len(lines) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["compile {model} -o {folder}/model.so", "layers {model}"])
def test_the_program_says_all_of_it(command: str, tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(attention_model().SerializeToString())
    ended = int8tune(*command.format(model=model, folder=tmp_path).split(), cwd=tmp_path)
    assert ended.code == (1 if command.startswith("compile") else 0)
    for line in ("2 of ", "2 Bernoulli: it draws random numbers", "94.1%"):
        assert line in ended.err
    told = "1 MatMul: it multiplies two computed values" in ended.err
    assert told == command.startswith("layers")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".so"] == []


@pytest.mark.thorough
def test_layers_say_it_as_json(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(attention_model().SerializeToString())
    told = json.loads(int8tune("layers", model, "--format", "json", cwd=tmp_path).out)
    assert told["int8_share"] == pytest.approx(0.9412, abs=1e-4)
    assert [(each["operator"], len(each["layers"])) for each in told["obstacles"]] == [("Bernoulli", 2)]
    assert sorted((each["operator"], len(each["layers"])) for each in told["floats"]) == [("Exp", 1), ("MatMul", 1)]


def test_products_of_matrices_of_three_axes_say_what_they_are() -> None:
    writer = OnnxWriter([2, 4, 16])
    for name in ("x", "w", "y"):
        count = () if name != "w" else 8
        writer.constant(f"{name}.scale", np.full(count, 0.05))
        writer.constant(f"{name}.zero", np.full(count, 0 if name == "w" else 128), np.int8 if name == "w" else np.uint8)
    writer.node("QuantizeLinear", ["x", "x.scale", "x.zero"], "xq")
    writer.constant("w", writer.rng.integers(-127, 128, (2, 16, 8)), np.int8)
    taken = ["xq", "x.scale", "x.zero", "w", "w.scale", "w.zero", "y.scale", "y.zero"]
    writer.node("QLinearMatMul", taken, "yq", "batched")
    writer.node("DequantizeLinear", ["yq", "y.scale", "y.zero"], "y")
    graph = read_onnx(writer.model("y").SerializeToString(), "net")
    (found,) = float_parts(graph)
    assert found.operator == "QLinearMatMul"
    assert found.reason == "its weights must have two axes, these have 3: [2, 16, 8]"


def dynamic_model() -> Any:
    """Two products that are quantized at run time, with a zero point for each column of the weights."""
    writer, data = OnnxWriter([4, 16]), "x"
    for name in ("a", "b"):
        quantized = [f"{name}.q", f"{name}.scale", f"{name}.zero"]
        writer.node("DynamicQuantizeLinear", [data], quantized[0])
        writer.nodes[-1].output.extend(quantized[1:])
        writer.constant(f"{name}.w", writer.rng.integers(-127, 128, (16, 16)), np.int8)
        writer.constant(f"{name}.w.zero", range(16), np.int8)
        writer.node("MatMulInteger", [quantized[0], f"{name}.w", quantized[2], f"{name}.w.zero"], f"{name}.sums")
        writer.node("Cast", [f"{name}.sums"], f"{name}.numbers", to=1)
        data = writer.node("Mul", [f"{name}.numbers", quantized[1]], f"{name}.product")
    return writer.model(data)


@pytest.mark.thorough
def test_a_model_without_layers_says_what_it_has(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(dynamic_model().SerializeToString())
    ended = in_process("layers", model)
    assert (ended.code, ended.out) == (0, "")
    assert ": 0 layers, 0 distinct, 0 multiply-adds" in ended.err
    counts = "0 operators are exact integers, 8 are computed in float; int8 layers are 0.0% of the multiply-adds"
    assert f"net: {counts}" in ended.err
    assert "2 DynamicQuantizeLinear: no kernel computes it" in ended.err
    assert "2 MatMulInteger: its weights have 16 zero points, a kernel takes one" in ended.err
    assert "2 Cast: no kernel computes it" in ended.err
    told = json.loads(in_process("layers", model, "--format", "json").out)
    assert (told["layers"], told["int8_share"], told["exact"], len(told["floats"])) == ([], 0.0, 0, 4)
    ended = in_process("plan", model)
    assert ended.code == 1
    assert "net: no layer of it is computed with 8-bit integers" in ended.err
    ended = int8tune("compile", model, "-o", tmp_path / "model.so", cwd=tmp_path)
    assert ended.code == 0
    assert "0 operators are exact integers, 8 are computed in float" in ended.err


def test_a_model_of_integers_without_layers(tmp_path: Path) -> None:
    writer = TfLiteWriter()
    data, made = writer.input("x", "s8", (2, 6), 0.1, 0), writer.tensor("y", "s8", (3, 4), 0.1, 0)
    writer.operator("RESHAPE", [data], [made], "Reshape", 1)
    (tmp_path / "shapes.tflite").write_bytes(writer.model(made))
    ended = int8tune("layers", tmp_path / "shapes.tflite", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[-1] == "shapes: 1 operators are exact integers, 0 are computed in float"


def test_layers_that_no_kernel_takes_are_counted() -> None:
    """The first of them used to be named alone."""
    writer, data = OnnxWriter([2, 4, 9, 9, 9]), "x"
    writer.constant("scale", 0.05)
    writer.constant("zero", 128, np.uint8)
    writer.constant("w.zero", 0, np.int8)
    for name in ("a", "b"):
        data = quantize(writer, data, f"{name}.data")
        writer.constant(f"{name}.w", writer.rng.integers(-127, 128, (4, 4, 3, 3, 3)), np.int8)
        writer.node("DequantizeLinear", [f"{name}.w", "scale", "w.zero"], f"{name}.weight")
        data = writer.node("Conv", [data, f"{name}.weight"], name)
    graph = read_onnx(writer.model(quantize(writer, data, "y")).SerializeToString(), "net")
    (found,) = float_parts(graph)
    assert (found.operator, len(found.layers)) == ("Conv", 2)
    assert found.reason == "a 3-D convolution must have a batch of 1: 2"


def test_an_lstm_is_an_operator_whatever_its_intermediates_are() -> None:
    """Its intermediates are scales alone: they have no shape, and nothing takes or makes them."""
    writer = TfLiteWriter()
    data, made = writer.input("x", "s8", (1, 5, 8), 0.1, 0), writer.tensor("y", "s8", (1, 5, 4), 0.1, 0)
    weight = writer.constant("w", "s8", np.ones((4, 8)), 0.01)
    writer.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [data, -1, weight], [made], "UnidirectionalSequenceLSTM")
    scales = writer.tensor("intermediate", "s16", (0,), 0.1, 0)
    writer.tensors[scales].type = schema.TensorType.INT4
    writer.operators[-1].intermediates = [scales]
    graph = read_tflite(writer.model(made), "lstm")
    assert [operator.kind for operator in graph.operators] == [Kind.OTHER]
    assert [(each.operator, each.reason) for each in obstacles(graph)] == [
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "its input 18 must be a variable")
    ]


def test_many_kinds_are_cut(graph: Graph) -> None:
    (first, *_) = [operator for operator in graph.operators if operator.kind is Kind.OTHER]
    many = tuple(replace(first, operator=f"Kind{index}") for index in range(30))
    lines = obstacle_lines(replace(graph, operators=(*graph.operators, *many)))
    assert len(lines) == 22
    assert lines[-1] == "and 11 more kinds"

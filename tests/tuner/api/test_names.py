"""The names of a float model's operators and tensors, from its file to the report of a campaign, and back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from tests.support.models.float_models import pictures, saved
from tests.support.models.onnx_models import Writer, onnx

# What no kernel computes: a reshape hands its input on.
MOVED = {"flatten"}
LAYERS = {"stem", "norm", "relu1", "body", "add", "relu2", "dense"}


def float_model() -> Any:
    """A layer with BatchNormalization and a Relu, one with an addition, a table of two operators, pools, movements."""
    writer = Writer(["n", 3, 8, 8])
    data = writer.conv("x", "stem", (8, 3, 3, 3), bias=False, pads=[1] * 4)
    for name, low, high in (("gamma", 0.5, 2), ("beta", -1, 1), ("mean", -1, 1), ("variance", 0.2, 3)):
        writer.constant(name, writer.rng.uniform(low, high, 8))
    data = writer.node("BatchNormalization", [data, "gamma", "beta", "mean", "variance"], "normalized", "norm")
    first = writer.node("Relu", [data], "first", "relu1")
    total = writer.node("Add", [writer.conv(first, "body", (8, 8, 3, 3), pads=[1] * 4), first], "sum", "add")
    second = writer.node("Relu", [total], "second", "relu2")
    gated = writer.node("Mul", [writer.node("Sigmoid", [second], "gate", "sigmoid"), second], "gated", "multiply")
    most = writer.node("MaxPool", [gated], "most", "pool", kernel_shape=[2, 2], strides=[2, 2])
    joined = writer.node("Concat", [most, most], "joined", "join", axis=1)
    averages = writer.node("GlobalAveragePool", [joined], "averages", "average")
    weights = [writer.weight("dense.w", 5, 16), writer.weight("dense.b", 5)]
    flat = writer.node("Flatten", [averages], "flat", "flatten")
    return writer.model(writer.node("Gemm", [flat, *weights], "logits", "dense", transB=1))


def single(names: Iterable[str]) -> set[str]:
    return {each for name in names for each in name.split("; ")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("model")
    return it.quantize(saved(float_model(), folder), pictures(8), folder / "q.onnx", round_weights=False)


def test_names_are_kept_to_the_profile_of_a_library_and_back(made: Any, tmp_path: Path) -> None:
    operators = {node.name: node.output[0] for node in float_model().graph.node}
    there = {node.name for node in made.proto.graph.node}
    tensors = {name for node in made.proto.graph.node for name in (*node.input, *node.output)}
    ranges = it.profile(made.file.with_name("m.onnx"), pictures(2), tmp_path / "m.ranges.json").ranges.tensors
    assert {each.node: name for name, each in ranges.items()} == {"": "x", **operators}
    assert made.folded == {"norm": "stem", "relu1": "stem", "relu2": "add"}
    assert made.gone == {"stem.y": "normalized", "normalized": "first", "sum": "second"}
    assert operators.keys() == (there & operators.keys()) | made.folded.keys()
    assert {"x", *operators.values()} <= tensors | made.gone.keys()

    found = [layer.names for layer in it.layers(made.file, target="generic").layers]
    assert found == [("stem; norm; relu1",), ("body; add; relu2",), ("dense",)]

    library = it.compile(made.file, tmp_path / "q.so", results=tmp_path / "none", target="generic")
    taken = library.load().profile([pictures(1)], runs=1)
    assert operators.keys() - {name for call in taken for name in call.layers} == MOVED
    assert operators.keys() <= {name for call in library.about.calls for name in call["layers"]}
    assert [value["name"] for value in library.about.inputs] == ["x"]

    # An operator of a profile is one of the float model, which can be left in float by that name.
    first = next(call.layers[0] for call in taken if set(call.layers) <= LAYERS)
    left = it.quantize(made.file.with_name("m.onnx"), pictures(8), skip=[first], round_weights=False)
    assert f"{first}.w" in {tensor.name for tensor in left.proto.graph.initializer}


@pytest.mark.thorough
def test_names_are_kept_in_the_records_and_the_report_of_a_campaign(made: Any, tmp_path: Path) -> None:
    campaign = it.tune(made.file, results=tmp_path, trials=2, strategy="random", target="generic")
    assert single(campaign.to_pandas()["names"].explode()) == LAYERS
    assert single(it.records(tmp_path).to_pandas()["names"].explode()) == LAYERS
    report = campaign.campaigns[0].report.read_text()
    assert {name for name in LAYERS if name in report} == LAYERS
    library = it.compile(made.file, tmp_path / "q.so", results=tmp_path, target="generic")
    assert {name for call in library.about.calls for name in call["layers"]} >= LAYERS


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"\\u001b[2J": "stem"}', '{"norm": ["stem"]}'])
def test_what_a_file_says_of_folded_names_may_be_anything(text: str, tmp_path: Path) -> None:
    made = it.quantize(saved(float_model(), tmp_path), pictures(2), round_weights=False, equalize=False)
    for entry in made.proto.metadata_props:
        if entry.key == "int8tune.folded":
            entry.value = text
    onnx.save(made.proto, tmp_path / "q.onnx")
    assert it.layers(tmp_path / "q.onnx", target="generic").layers[0].names == ("stem",)

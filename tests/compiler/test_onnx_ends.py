"""Models that end before their outputs, as detectors do whose last operators make as many boxes as they find."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import int8tune as it
from int8tune.compiler.errors import ModelError, OpenEndError
from int8tune.compiler.given import Given
from int8tune.compiler.model import model_bytes, read_model
from tests.support.models.onnx_islands import IslandWriter, assert_close, feed_of
from tests.support.models.onnx_models import values_of
from tests.support.program.cli_program import in_process
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(8)
ENDS = ("boxes.d", "scores.d")


def detector(folder: Path) -> Path:
    """Two convolutions of 40 places, whose boxes and scores NonMaxSuppression chooses from; and the boxes chosen."""
    w = IslandWriter((1, 6, 5, 8))
    made = {}
    for name, channels in (("boxes", 4), ("scores", 3)):
        w.constant(f"{name}.w", RNG.integers(-127, 128, (channels, 6, 1, 1)), np.int8)
        w.node("DequantizeLinear", [f"{name}.w", w.constant(f"{name}.ws", 0.004)], f"{name}.wd")
        w.node("Conv", [w.data, f"{name}.wd"], f"{name}.c")
        made[name] = w.apply("Reshape", w.quantized(f"{name}.c"), np.array([1, channels, -1]))
    w.node("Transpose", [made["boxes"]], "boxes", perm=[0, 2, 1])
    w.node("Sigmoid", [made["scores"]], "scores")
    chosen = w.apply(
        "NonMaxSuppression",
        w.quantized("boxes"),
        w.quantized("scores"),
        np.array([9]),
        np.float32(0.5),
        np.float32(0.6),
    )
    places = w.apply("Squeeze", w.apply("Gather", chosen, np.array([2]), axis=1), np.array([1]))
    picked = w.apply("Gather", "boxes.d", places, axis=1)
    path = folder / "detector.onnx"
    path.write_bytes(w.file(picked, chosen))
    return path


def test_what_comes_before_unknown_shapes_is_named(tmp_path: Path) -> None:
    path = detector(tmp_path)
    shuffled = onnx.ModelProto.FromString(path.read_bytes())
    nodes = list(shuffled.graph.node)[::-1]
    del shuffled.graph.node[:]
    shuffled.graph.node.extend(nodes)
    path.write_bytes(shuffled.SerializeToString())
    with pytest.raises(OpenEndError) as caught:
        read_model(path)
    assert sorted(str(caught.value).split(" --until ")[1:]) == ["boxes.d", "scores.d"]
    with pytest.raises(OpenEndError, match=r"\(NonMaxSuppression\).*: --until boxes.d --until scores.d$"):
        read_model(detector(tmp_path))
    ended = in_process("layers", detector(tmp_path))
    assert ended.code == 1
    assert ended.err.splitlines()[1] == "hint: compile what comes before it: add --until NAME for each value"


@pytest.mark.parametrize("ends", one_in(2, [(ENDS,), (("scores", "boxes.c"),), (("boxes.c.q",),)]))
def test_values_are_those_of_the_whole_model(ends: Sequence[str], tmp_path: Path) -> None:
    path, library = detector(tmp_path), tmp_path / "ends.so"
    it.compile(path, library, until=ends)
    model = it.load(library)
    assert tuple(form["name"] for form in model.about.outputs) == ends
    feed = feed_of((1, 6, 5, 8))
    theirs = values_of(path.read_bytes(), ends, {"x": feed})
    for name, ours in zip(ends, model.run([feed]), strict=True):
        assert ours.dtype == theirs[name].dtype
        if name.endswith((".d", ".q")):
            np.testing.assert_array_equal(ours, theirs[name])
        else:  # no integers, but an island's numbers
            assert_close({name: ours}, {name: theirs[name]})


def test_what_the_values_do_not_need_is_left_out(tmp_path: Path) -> None:
    kept = onnx.ModelProto.FromString(model_bytes(detector(tmp_path), Given(until=("boxes.c",)))).graph
    assert [node.op_type for node in kept.node] == ["QuantizeLinear", *["DequantizeLinear"] * 2, "Conv"]
    assert {tensor.name for tensor in kept.initializer} == {"s", "z", "boxes.w", "boxes.ws"}
    assert [info.name for info in kept.output] == ["boxes.c"]


def test_inputs_that_are_not_needed_are_no_inputs(tmp_path: Path) -> None:
    w = IslandWriter()
    other = w.integer_input("other", (2,))
    first, second = w.quantized(w.data), w.apply("Cast", other, to=1)
    path = tmp_path / "two.onnx"
    path.write_bytes(w.file(first, second))
    assert read_model(path).inputs == ("x", "other")
    assert read_model(path, Given(until=(first,))).inputs == ("x",)


def test_what_graphs_within_nodes_read_is_kept(tmp_path: Path) -> None:
    w = IslandWriter()
    within = w.apply("Relu", w.data)
    branches = {
        branch: onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", [read], [f"{branch}.y"])],
            branch,
            [],
            [onnx.ValueInfoProto(name=f"{branch}.y")],
        )
        for branch, read in (("then_branch", within), ("else_branch", "d"))
    }
    condition = w.apply("Equal", w.apply("Cast", w.data, to=7), np.array(1))
    condition = w.apply("Cast", w.apply("ReduceMax", w.apply("Cast", condition, to=6), keepdims=0), to=9)
    w.nodes.append(onnx.helper.make_node("If", [condition], ["chosen"], **branches))
    last = w.quantized("chosen")
    path = tmp_path / "branches.onnx"
    path.write_bytes(w.file(last))
    kept = onnx.ModelProto.FromString(model_bytes(path, Given(until=("chosen",)))).graph
    assert within in {label for node in kept.node for label in node.output}
    assert last not in {label for node in kept.node for label in node.output}


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (["boxs"], "no node makes a value `boxs`, did you mean `boxes`"),
        (["x"], "no node makes a value `x`"),
        (["scores", "scores"], "it can't end at `scores` twice"),
        (["zzzz\n"], "no node makes a value `zzzz\\n`"),
    ],
)
def test_what_no_node_makes_is_said_so(ends: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        read_model(detector(tmp_path), Given(until=tuple(ends)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_models_end_elsewhere() -> None:
    ended = in_process("layers", "resnet50", "--until", "boxes")
    assert ended.code in (1, 2)
    assert "ends before its outputs" in ended.err


@pytest.mark.parametrize("command", ["layers", "plan"])
def test_commands_take_where_a_model_ends(command: str, tmp_path: Path) -> None:
    ends = [word for name in ENDS for word in ("--until", name)]
    ended = in_process(command, detector(tmp_path), *ends, "--format", "json")
    assert ended.code == 0, ended.err
    assert len(json.loads(ended.out)["layers" if command == "layers" else "tasks"]) == 2


@pytest.mark.thorough
def test_the_runtime_ends_there_too(tmp_path: Path) -> None:
    found = it.accuracy(detector(tmp_path), count=40, until=ENDS)
    assert [output.differing for output in found.outputs] == [0, 0]


@pytest.mark.thorough
def test_files_of_campaigns_say_where_a_model_ends(tmp_path: Path) -> None:
    detector(tmp_path)
    file = tmp_path / "campaign.toml"
    file.write_text('[[networks]]\nnetwork = "detector.onnx"\nuntil = ["boxes.d", "scores.d"]\ntrials = 2\n')
    ended = in_process("plan", file, "--format", "json")
    assert ended.code == 0, ended.err

"""Nodes with graphs within: If, and Loop and Scan of a known number of turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.onnx_inner_graphs import SIZE, loop, scan
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import values_of

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(10)


def branch(name: str, nodes: list[Any], constants: list[Any], output: str) -> Any:
    return onnx.helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=output)], constants)


def decided(condition: Any, inner: Any = None, stored: bool = True) -> bytes:
    """A layer that is taken or not; both branches have the same names, and read a value from outside.

    Args:
        stored: what is made is quantized, so that a sum that is nearly a tie may be one step off.
    """
    w = IslandWriter()
    w.constant("w.s", 0.01)
    weight = onnx.numpy_helper.from_array(RNG.integers(-127, 128, (6, 6, 1, 1)).astype(np.int8), "w")
    layer = [
        onnx.helper.make_node("DequantizeLinear", ["w", "w.s"], ["made"]),
        onnx.helper.make_node("Conv", ["d", "made"], ["out"]),
    ]
    other = inner or [onnx.helper.make_node("Elu", ["d"], ["made"]), onnx.helper.make_node("Neg", ["made"], ["out"])]
    graphs = {
        "then_branch": branch("then", layer, [weight], "out"),
        "else_branch": branch("else", other, [], "out"),
    }
    name = w.constant("condition", condition, bool) if isinstance(condition, bool) else condition(w)
    w.node("If", [name], "chosen", **graphs)
    made = w.apply("Abs", "chosen")
    return w.file(w.quantized(made) if stored else made)


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_of_a_constant_is_taken(condition: bool, tmp_path: Path) -> None:
    file = decided(condition)
    assert len(quantized_layers(read_onnx(file, "branch"))) == condition
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


def test_what_is_decided_at_run_time_is_chosen(tmp_path: Path) -> None:
    file = decided(lambda w: w.apply("Greater", w.apply("ReduceMean", w.data, keepdims=0), 0.05), stored=False)
    assert len(quantized_layers(read_onnx(file, "branch"))) == 1
    model = compiled(file, tmp_path)
    for offset in (-0.5, 0.5):
        feed = (feed_of() * 0.3 + offset).astype(np.float32)
        (made,) = model.run([feed])
        name = model.about.outputs[0]["name"]
        assert_close({name: made}, values_of(file, [name], {"x": feed}))


def nested(output: str = "out") -> list[Any]:
    """An If of an If, whose branches read what the outer branch makes."""
    inner = [
        branch("one", [onnx.helper.make_node("Neg", ["made"], ["o"])], [], "o"),
        branch("other", [onnx.helper.make_node("Elu", ["made"], ["o"])], [], "o"),
    ]
    return [
        onnx.helper.make_node("Abs", ["d"], ["made"]),
        onnx.helper.make_node("ReduceMax", ["made"], ["most"], keepdims=0),
        onnx.helper.make_node("Less", ["most", "s"], ["is_small"]),
        onnx.helper.make_node("If", ["is_small"], [output], then_branch=inner[0], else_branch=inner[1]),
    ]


@pytest.mark.thorough
def test_branches_within_branches_are_chosen(tmp_path: Path) -> None:
    file = decided(lambda w: w.apply("Less", w.apply("ReduceMax", w.data, keepdims=0), 0.0), nested())
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


def by_shape(extent: int) -> bytes:
    """What exporters write for a squeeze of an axis that may have one place."""
    w = IslandWriter((extent, 6))
    place = w.apply("Gather", w.apply("Shape", w.data), np.array(0), axis=0)
    graphs = {
        "then_branch": branch("then", [onnx.helper.make_node("Squeeze", ["d", "axis"], ["o"])], [], "o"),
        "else_branch": branch("else", [onnx.helper.make_node("Identity", ["d"], ["o"])], [], "o"),
    }
    w.constant("axis", [0], np.int64)
    w.node("If", [w.apply("Equal", place, np.array(1))], "y", **graphs)
    return w.file("y")


def test_a_condition_of_shapes_is_known() -> None:
    graph = read_onnx(by_shape(1), "shape")
    assert graph.values[graph.outputs[0]].shape == (6,)
    assert not obstacles(graph)


def test_branches_that_make_other_forms_are_refused() -> None:
    w = IslandWriter((1, 6))
    graphs = {
        "then_branch": branch("then", [onnx.helper.make_node("Squeeze", ["d", "axis"], ["o"])], [], "o"),
        "else_branch": branch("else", [onnx.helper.make_node("Concat", ["d", "d"], ["o"], axis=0)], [], "o"),
    }
    w.constant("axis", [0], np.int64)
    w.node("If", [w.apply("Less", w.apply("ReduceMax", w.data, keepdims=0), 0.0)], "y", **graphs)
    with pytest.raises(ModelError, match="the branches of an If must make values of one form"):
        read_onnx(w.file("y"), "one")


def test_a_loop_of_known_turns_is_its_turns(tmp_path: Path) -> None:
    assert_close(*outputs_of(loop(5, True), tmp_path, {"x": feed_of(SIZE)}))


def test_turns_that_a_shape_says_are_known(tmp_path: Path) -> None:
    file = loop(lambda w: w.apply("Gather", w.apply("Shape", w.data), np.array(1), axis=0))
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of(SIZE)}))


UNKNOWN: dict[str, bytes] = {
    "computed": loop(lambda w: w.apply("Cast", w.apply("ReduceMax", w.data, keepdims=0), to=7)),
    "many": loop(1 << 20),
    "none": loop(0),
    "stopped": loop(4, False),
    "a condition that is computed": loop(4, True, onnx.helper.make_node("Less", ["sum", "half"], ["goes_on"])),
}


@pytest.mark.parametrize("name", list(UNKNOWN))
def test_loops_of_unknown_turns_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="graphs within a node are not supported"):
        read_onnx(UNKNOWN[name], "one")


@pytest.mark.parametrize(("axis", "is_backwards", "is_turned"), [(0, False, False), (0, True, False), (1, False, True)])
@pytest.mark.matrix(at_most=1)
def test_a_scan_is_its_steps(axis: int, is_backwards: bool, is_turned: bool, tmp_path: Path) -> None:
    assert_close(*outputs_of(scan(axis, is_backwards, is_turned), tmp_path, {"x": feed_of(SIZE)}))


@pytest.mark.parametrize("opset", [11, 12])
def test_turns_of_older_files_have_an_axis(opset: int, tmp_path: Path) -> None:
    assert_close(*outputs_of(scan(0, False, False, opset), tmp_path, {"x": feed_of(SIZE)}))

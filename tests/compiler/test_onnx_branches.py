"""If nodes whose condition is a constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.onnx_islands import IslandWriter, assert_close, feed_of, outputs_of

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(10)


def branch(name: str, nodes: list[Any], constants: list[Any], output: str) -> Any:
    return onnx.helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=output)], constants)


def decided(condition: Any, inner: Any = None) -> bytes:
    """A layer that is taken or not; both branches have the same names, and read a value from outside."""
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
    return w.file(w.quantized(w.apply("Abs", "chosen")))


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_of_a_constant_is_taken(condition: bool, tmp_path: Path) -> None:
    file = decided(condition)
    assert len(quantized_layers(read_onnx(file, "branch"))) == condition
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


def test_what_is_decided_at_run_time_is_refused() -> None:
    file = decided(lambda w: w.apply("Greater", w.apply("ReduceMax", w.data, keepdims=0), 0.5))
    with pytest.raises(ModelError, match="graphs within a node are not supported"):
        read_onnx(file, "one")


def test_branches_within_branches_are_refused() -> None:
    inner = branch("inner", [onnx.helper.make_node("Elu", ["d"], ["o"])], [], "o")
    nested = [onnx.helper.make_node("If", ["condition"], ["out"], then_branch=inner, else_branch=inner)]
    with pytest.raises(ModelError, match="graphs within a node are not supported"):
        read_onnx(decided(False, nested), "one")

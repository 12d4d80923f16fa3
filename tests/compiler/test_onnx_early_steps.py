"""What is quantized behind pools, joins and movements is quantized in front of them, where nobody else reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.islands.island import ISLAND
from int8tune.compiler.onnx_reader.file import load
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import assert_equal, outputs_of
from tests.support.models.onnx_models import Writer, onnx, quantized

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which outputs are compared with")

DATA = np.random.default_rng(5).standard_normal((1, 3, 9, 8)).astype(np.float32)


def joined(also: str = "") -> Any:
    """Two branches, one with a pool, whose channels are joined and moved to a layer; `also` is read by others, too."""
    w = Writer([1, 3, 9, 8])
    left = w.node("Relu", [w.conv("x", "left", (4, 3, 3, 3), pads=[1] * 4)], "l", "relu1")
    left = w.node("MaxPool", [left], "pooled", "pool", kernel_shape=[3, 3], pads=[1] * 4)
    right = w.node("Relu", [w.conv("x", "right", (6, 3, 1, 1))], "r", "relu2")
    both = w.node("Concat", [left, right], "both", "join", axis=1)
    turned = w.node("Transpose", [both], "turned", "turn", perm=[0, 1, 3, 2])
    outputs = [w.conv(turned, "mixed", (8, 10, 1, 1))]
    if also:
        outputs.append(w.node("Exp", [also], "exponentials", "exp"))
    return w.model(*outputs)


def with_layers_quantized(model: Any, folder: Path) -> bytes:
    return quantized(model, folder, "u8", "s8", True, operators=("Conv",))


def islands_of(file: bytes) -> int:
    return sum(ISLAND in each.attributes for each in read_onnx(file, "one").operators)


def test_bytes_are_pooled_joined_and_moved(tmp_path: Path) -> None:
    file = with_layers_quantized(joined(), tmp_path)
    kinds = [each.kind for each in read_onnx(file, "one").operators]
    assert islands_of(file) == 0
    assert {Kind.MAX_POOL, Kind.CONCAT} <= set(kinds)
    assert_equal(*outputs_of(file, tmp_path, {"x": DATA}))


@pytest.mark.parametrize("also", ["both", "pooled", "r"])
def test_what_others_read_too_stays_a_number(also: str, tmp_path: Path) -> None:
    file = with_layers_quantized(joined(also), tmp_path)
    assert islands_of(file) > 0
    ours, theirs = outputs_of(file, tmp_path, {"x": DATA})
    np.testing.assert_array_equal(ours["mixed.y"], theirs["mixed.y"])
    np.testing.assert_allclose(ours["exponentials"], theirs["exponentials"], rtol=1e-5)


def test_what_is_quantized_before_is_not_quantized_again(tmp_path: Path) -> None:
    """Pools of bytes need no further steps."""
    w = Writer([1, 3, 9, 8])
    data = w.conv("x", "first", (4, 3, 3, 3), pads=[1] * 4)
    data = w.node("MaxPool", [data], "pooled", "pool", kernel_shape=[2, 2])
    file = quantized(w.model(w.conv(data, "second", (8, 4, 1, 1))), tmp_path, "u8", "s8", True)
    written = [node.op_type for node in onnx.ModelProto.FromString(file).graph.node]
    assert [node.computes for node in load(file, "one").nodes] == written

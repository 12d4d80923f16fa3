"""Functions of ONNX models, and operators that ONNX defines by others: what they are made of stands in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.onnx_functions import called, function, model_of, with_attention, with_layer
from tests.support.models.onnx_islands import IslandWriter, assert_close, feed_of, outputs_of

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")


def test_functions_stand_in_the_place_of_their_calls(tmp_path: Path) -> None:
    file = with_layer()
    assert len(quantized_layers(read_onnx(file, "functions"))) == 1
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of()}))


@pytest.mark.thorough
def test_attention_of_what_functions_make(tmp_path: Path) -> None:
    assert_close(*outputs_of(with_attention(), tmp_path, {"x": feed_of()}))


def test_attention_is_what_onnx_says_that_it_is_made_of(tmp_path: Path) -> None:
    """With a mask of truth values, one that is causal, and fewer heads of keys than of queries."""
    w = IslandWriter((2, 4, 5, 8))
    keys = w.apply("Slice", w.data, np.array([0]), np.array([2]), np.array([1]))
    mask = np.random.default_rng(1).random((5, 5)) < 0.7
    mask[:, 0] = True
    made = w.apply("Attention", w.data, keys, w.apply("Neg", keys), mask, is_causal=1, softcap=2.0)
    assert_close(*outputs_of(model_of(w, made), tmp_path, {"x": feed_of((2, 4, 5, 8))}))


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        # Each function calls the next one twice: two to the power of 40.
        (lambda at: [f"f{at + 1}"] * 2, "its functions make more than 100,000 nodes"),
        (lambda _: ["f0"], "its functions call each other more than 64 deep"),
    ],
)
def test_functions_without_an_end_are_refused(calls: Any, message: str) -> None:
    w = IslandWriter()
    w.nodes.append(called("f0", w.data, "made"))
    functions = [function("f40", onnx.helper.make_node("Neg", ["in"], ["out"]))]
    for at in range(40):
        one, *others = calls(at)
        nodes = [called(one, "in", "out" if not others else "half"), *(called(each, "half", "out") for each in others)]
        functions.append(function(f"f{at}", *nodes))
    with pytest.raises(ModelError, match=message):
        read_onnx(model_of(w, "made", *functions), "endless")

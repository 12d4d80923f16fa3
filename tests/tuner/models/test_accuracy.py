"""Differences of outputs, counted in what one step of a quantized value stands for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from int8tune.compiler.graph import Graph, Kind, Operator, Quantization, Value
from int8tune.tuner.models.accuracy import differences


def test_numbers_that_were_dequantized_differ_by_steps() -> None:
    quantization = Quantization(np.array([0.25], np.float32), np.array([7]))
    values = {
        "q": Value("q", (1, 3), "u8", quantization),
        "steps": Value("steps", (1, 3), "f32"),
        "numbers": Value("numbers", (1, 3), "f32"),
    }
    operators = (
        Operator(Kind.DEQUANTIZE, ("last",), "DequantizeLinear", ("q",), ("steps",), "float"),
        Operator(Kind.DEQUANTIZE, ("other",), "DequantizeLinear", ("q",), ("elsewhere",), "float"),
    )
    graph = Graph("net", values, operators, ("q",), ("steps", "numbers"))
    ours = np.array([[[0.0, 1.0, 2.0]]], np.float32)
    theirs = np.array([[[0.0, 1.5, 1.75]]], np.float32)
    steps, numbers = differences(graph, [ours, ours], [theirs, theirs])
    assert (steps.steps, steps.layers, steps.differing) == (True, ("last",), 2)
    assert (steps.largest, steps.mean) == (2.0, pytest.approx(1.0))
    assert (numbers.steps, numbers.layers, numbers.largest) == (False, (), 0.5)


@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf])
def test_a_number_and_none_are_infinitely_far_apart(other: float) -> None:
    graph = Graph("net", {"y": Value("y", (1, 3), "f32")}, (), ("x",), ("y",))
    ours = np.array([[[np.nan, 1.0, np.inf]]], np.float32)
    (found,) = differences(graph, [ours], [np.array([[[np.nan, other, np.inf]]], np.float32)])
    assert (found.differing, found.largest, found.sqnr_db) == (1, np.inf, None)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["largest"] is None

"""LSTM, GRU and RNN, step by step in float, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import int8_share, obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, feed_of, outputs_of
from tests.support.models.shared_models import more_model
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which islands are compared with")

RNG = np.random.default_rng(8)
STEPS, BATCH, WIDE, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def numbers(*shape: int) -> Any:
    return RNG.normal(0, 0.4, shape)


def recurrent(w: IslandWriter, operator: str, inputs: dict[int, Any], data: str = "d", **attributes: Any) -> list[str]:
    """A node with random weights; names of all that it makes."""
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * HIDDEN
    taken = {1: numbers(count, rows, WIDE), 2: numbers(count, rows, HIDDEN), **inputs}
    listed = [taken.get(index, "") for index in range(1, max(taken) + 1)]
    made = w.apply(operator, data, *listed, outputs=3 if operator == "LSTM" else 2, hidden_size=HIDDEN, **attributes)
    return list(w.nodes[-1].output) or [made]


def written(operator: str, inputs: dict[int, Any], **attributes: Any) -> tuple[IslandWriter, list[str]]:
    w = IslandWriter((BATCH, STEPS, WIDE) if attributes.get("layout") else (STEPS, BATCH, WIDE))
    return w, recurrent(w, operator, inputs, **attributes)


def assert_near(file: bytes, folder: Path, shape: tuple[int, ...]) -> None:
    """Each step adds a few roundings, and functions have their own."""
    ours, theirs = outputs_of(file, folder, {"x": feed_of(shape)})
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape
        np.testing.assert_allclose(ours[name], expected, rtol=1e-5, atol=2e-6, err_msg=name)


def biases(operator: str, count: int = 1) -> Any:
    return numbers(count, 2 * GATES[operator] * HIDDEN)


def states(operator: str, count: int = 1) -> dict[int, Any]:
    return {index: numbers(count, BATCH, HIDDEN) for index in ((5, 6) if operator == "LSTM" else (5,))}


@pytest.mark.thorough
@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_states_and_biases(operator: str, direction: str, tmp_path: Path) -> None:
    count = 2 if direction == "bidirectional" else 1
    inputs = {3: biases(operator, count), **states(operator, count)}
    w, made = written(operator, inputs, direction=direction)
    assert_near(w.file(*made), tmp_path, (STEPS, BATCH, WIDE))


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    one_in(
        9,
        [
            ("GRU", {}, {"linear_before_reset": 1, "clip": 0.2}),
            ("LSTM", {}, {}),
            ("LSTM", {3: biases("LSTM"), 7: numbers(1, 3 * HIDDEN)}, {}),
            ("LSTM", {}, {"clip": 0.3}),
            ("LSTM", {}, {"activations": ["Sigmoid", "Relu", "Sigmoid"]}),
            ("GRU", {3: biases("GRU")}, {"linear_before_reset": 1}),
            ("GRU", {}, {"activations": ["Sigmoid", "Relu"]}),
            ("RNN", {}, {"activations": ["Relu"]}),
            ("RNN", {3: biases("RNN")}, {"clip": 0.5}),
        ],
    ),
)
@pytest.mark.thorough
def test_attributes(operator: str, inputs: dict[int, Any], attributes: Any, tmp_path: Path) -> None:
    w, made = written(operator, inputs, **attributes)
    assert_near(w.file(*made), tmp_path, (STEPS, BATCH, WIDE))


@pytest.mark.parametrize("operator", one_in(3, GATES))
@pytest.mark.parametrize("is_computed", one_in(2, [True, False]))
@pytest.mark.matrix
def test_sequences_of_several_lengths(operator: str, is_computed: bool, tmp_path: Path) -> None:
    """Behind its end a sequence gives zeros, and its last state is that of its end."""
    w = IslandWriter((STEPS, BATCH, WIDE))
    lengths: Any = np.array([2, STEPS, 1], np.int32)
    if is_computed:
        largest = w.apply("ReduceMax", w.apply("Abs", w.data), np.array([0, 2]), keepdims=0)
        lengths = w.apply("Cast", w.apply("Min", w.apply("Ceil", largest), float(STEPS)), to=6)
    made = recurrent(w, operator, {3: biases(operator), 4: lengths, **states(operator)})
    assert_near(w.file(*made), tmp_path, (STEPS, BATCH, WIDE))


@pytest.mark.thorough
def test_weights_that_are_computed(tmp_path: Path) -> None:
    w = IslandWriter((STEPS, BATCH, WIDE))
    part = w.apply("Reshape", w.apply("Slice", w.data, np.array([0]), np.array([3]), np.array([1])), np.array([-1]))
    weight = w.apply(
        "Reshape",
        w.apply("Slice", w.apply("Tile", part, np.array([2])), np.array([0]), np.array([24])),
        np.array([1, HIDDEN, WIDE]),
    )
    made = recurrent(w, "RNN", {1: weight})
    assert_near(w.file(*made), tmp_path, (STEPS, BATCH, WIDE))


@pytest.mark.thorough
def test_a_first_output_that_is_left_out(tmp_path: Path) -> None:
    w, made = written("LSTM", {})
    w.nodes[-1].output[0] = ""
    assert_near(w.file(*made[1:]), tmp_path, (STEPS, BATCH, WIDE))


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("LSTM", {4: np.array([1, 2, 3], np.int32)}, {"direction": "reverse"}, "lengths of sequences can't be given"),
        ("LSTM", {5: numbers(1, BATCH, 1)}, {}, "its input 6 must have the shape (1, 3, 6): (1, 3, 1)"),
        ("LSTM", {}, {"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "its activations must be 3 of Sigmoid, Tanh"),
        ("GRU", {}, {"activation_alpha": [0.5]}, "its activations must be without parameters"),
        ("RNN", {2: numbers(1, HIDDEN, HIDDEN + 1)}, {}, "its weights don't fit data"),
    ],
)
def test_what_is_not_computed_says_why(operator: str, inputs: dict[int, Any], attributes: Any, message: str) -> None:
    w, made = written(operator, inputs, **attributes)
    (found,) = obstacles(read_onnx(w.file(made[0]), "one"))
    assert message in found.reason


def test_long_sequences_are_refused() -> None:
    w = IslandWriter((513, 1, WIDE))
    (found,) = obstacles(read_onnx(w.file(*recurrent(w, "RNN", {})), "long"))
    assert found.reason == "it must have at most 512 steps, of both directions together: 513"


@pytest.mark.thorough
def test_a_whole_model_with_an_lstm(tmp_path: Path) -> None:
    file = more_model("lstm.u8s8.onnx").read_bytes()
    graph = read_onnx(file, "lstm")
    assert float_operators(graph) == {"LSTM": 1}
    share = int8_share(graph)
    assert share is not None
    assert 0 < share < 0.01
    ours, theirs = outputs_of(file, tmp_path, {"x0": feed_of((1, 28, 28))})
    np.testing.assert_array_equal(ours["99"], theirs["99"])

"""Operators on stored values that LiteRT does not compute as numbers: exact, or refused, and never other numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import DTYPES, Writer, values_of

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
ONE_SCALE = "its values must have one scale and zero point: LiteRT looks at stored values only"
AS_STORED = "LiteRT computes it with stored values, not with the numbers that they stand for"
SHAPE = (2, 3, 4)


def values(kind: str, shape: Sequence[int], seed: int = 0) -> Array:
    ends = np.iinfo(DTYPES[kind])
    return np.random.default_rng(seed).integers(ends.min, ends.max + 1, shape).astype(DTYPES[kind])


def written(
    word: str,
    kind: str,
    scales: Sequence[float],
    options: str = "",
    made: tuple[str, Sequence[int]] | None = None,
    constants: Sequence[tuple[Any, ...]] = (),
    shape: Sequence[int] = SHAPE,
    **fields: Any,
) -> bytes:
    """An operator on inputs with these scales, the last of which is its output's."""
    w = Writer()
    taken = [w.input(f"x{at}", kind, shape, scale, 0) for at, scale in enumerate(scales[:-1])]
    before = [w.constant(f"c{at}", *each) for at, each in enumerate(constants) if word.startswith("SELECT")]
    taken = [*before, *taken]
    taken += [w.constant(f"c{at}", *each) for at, each in enumerate(constants) if not word.startswith("SELECT")]
    if made is None:
        output = w.tensor("y", kind, shape, scales[-1], 0)
    else:
        output = w.tensor("y", *made) if made[0] in ("bool", "f32") else w.tensor("y", *made, scales[-1], 0)
    w.operator(word, taken, [output], options, fields.pop("version", 1), **fields)
    return w.model(output)


def reason(file: bytes) -> str:
    (found,) = obstacles(read_tflite(file, "one"))
    return found.reason


WINDOW = {"filterHeight": 1, "filterWidth": 1, "strideH": 1, "strideW": 1}
CONDITION = [("bool", np.arange(24).reshape(SHAPE) % 2)]
REFUSED: dict[str, tuple[bytes, str]] = {
    **{
        f"{word} {kind}": (written(word, kind, (0.1, 0.2), "Pool2D", shape=(1, 3, 4, 2), **WINDOW), "one scale")
        for word in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        for kind in ("u8", "s8", "s16")
    },
    **{
        word: (written(word, "s16", (0.1, 0.2, 0.2), "", ("bool", SHAPE), version=2), ONE_SCALE)
        for word in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    },
    "join": (written("CONCATENATION", "s16", (0.1, 0.2, 0.2), "Concatenation", ("s16", (4, 3, 4)), axis=0), ONE_SCALE),
    **{
        f"select {kind}": (
            written("SELECT_V2", kind, (0.1, 0.2, 0.2), "SelectV2", constants=CONDITION),
            ONE_SCALE,
        )
        for kind in ("u8", "s8", "s16")
    },
    **{
        f"{word} {kind}": (written(word, kind, (0.1, 0.1, 0.1)), AS_STORED)
        for word in ("FLOOR_DIV", "FLOOR_MOD")
        for kind in ("s8", "s16")
    },
    "product": (
        written("REDUCE_PROD", "s8", (0.1, 0.1), "Reducer", ("s8", (2, 3)), [("s32", [2])], version=2),
        AS_STORED,
    ),
    **{f"NEG {kind}": (written("NEG", kind, (0.1, 0.1), "Neg"), AS_STORED) for kind in ("s8", "s16")},
    "slopes": (written("PRELU", "s16", (0.1, 0.1, 0.2)), AS_STORED),
    "shares": (written("SOFTMAX", "u8", (0.1, 0.2), "Softmax", version=2, beta=1.0), "its output's"),
    "table": (
        written(
            "EMBEDDING_LOOKUP", "s16", (0.1,), "", ("f32", (2, 4)), [("s32", [0, 1]), ("s16", np.ones((3, 4)), 0.1)]
        ),
        "LiteRT reads its table as one of 8 bits: s16",
    ),
    "table of u8": (
        written("EMBEDDING_LOOKUP", "s8", (0.1,), "", ("f32", (2, 4)), [("s32", [0, 1]), ("u8", np.ones((3, 4)), 0.1)]),
        "LiteRT reads its table as one of s8: u8",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_other_numbers_than_litert_s_are_refused(name: str) -> None:
    file, message = REFUSED[name]
    assert message in reason(file)


@pytest.mark.parametrize("word", ["CONV_2D", "MAX_POOL_2D", "ADD"])
def test_fused_activations_that_litert_leaves_out_are_refused(word: str) -> None:
    w = Writer()
    w.input("unused", "s8", (1,), 0.1, 0)
    data, made = w.input("x", "f32", (1, 3, 4, 2)), w.tensor("y", "f32", (1, 3, 4, 2))
    weight = [w.constant("w", "f32", np.ones((2, 1, 1, 2)))] if word == "CONV_2D" else []
    taken = [data, *weight] if word != "ADD" else [data, data]
    options = {"CONV_2D": "Conv2D", "MAX_POOL_2D": "Pool2D", "ADD": "Add"}[word]
    steps = {"CONV_2D": {"strideH": 1, "strideW": 1}, "MAX_POOL_2D": WINDOW, "ADD": {}}[word]
    w.operator(word, taken, [made], options, 1, fusedActivationFunction=4, **steps)
    assert reason(w.model(made)) == "fused activation 4 is not supported"


def assert_litert_s(file: bytes) -> None:
    graph = read_tflite(file, "one")
    feeds = {
        name: values(graph.values[name].type, graph.values[name].shape, at) for at, name in enumerate(graph.inputs)
    }
    np.testing.assert_array_equal(run_reference(graph, feeds)["y"], values_of(file, feeds)["y"], strict=True)


def test_values_of_16_bits_and_one_scale_are_selected() -> None:
    assert_litert_s(written("SELECT_V2", "s16", (0.1, 0.1, 0.1), "SelectV2", constants=CONDITION))


@pytest.mark.parametrize("word", ["LESS", "EQUAL", "DIV"])
def test_single_numbers_are_litert_s(word: str) -> None:
    made: tuple[str, Sequence[int]] = ("s8", ()) if word == "DIV" else ("bool", ())
    options, version = ("Div", 2) if word == "DIV" else ("", 2)
    assert_litert_s(written(word, "s8", (0.1, 0.05, 0.2), options, made, shape=(), version=version))


def test_a_shape_of_no_axes_is_read() -> None:
    """A single number, whose shape is a list of nothing."""
    assert_litert_s(written("RESHAPE", "s8", (0.1, 0.1), "", ("s8", ()), [("s32", [])], shape=(1, 1)))


def updates() -> bytes:
    """Parts of data replaced at a place that is not known before, and at one that is."""
    w = Writer()
    place, made = w.input("place", "s32", (3,)), list[int]()
    for kind, form in (("s8", (0.1, 3)), ("s16", (0.001, 0)), ("f32", ())):
        data = w.input(f"x {kind}", kind, (2, 5, 8), *form)
        part = w.input(f"part {kind}", kind, (1, 2, 8), *form)
        known = [w.constant("known", "s32", [1, 0, 2])] if kind == "f32" else []
        for each in (place, *known):
            made.append(w.tensor(f"y{len(made)}", kind, (2, 5, 8), *form))
            w.operator("DYNAMIC_UPDATE_SLICE", [data, part, each], made[-1:], "DynamicUpdateSlice", 1)
    return w.model(*made)


@pytest.mark.thorough
def test_parts_of_data_are_replaced_as_litert_does(tmp_path: Path) -> None:
    """Outside of the data, too: a place is moved to the next one within it."""
    file, feeds = updates(), dict[str, Array]()
    graph, model = read_tflite(file, "updates"), compiled(file, tmp_path)
    for at, name in enumerate(graph.inputs[1:]):
        value = graph.values[name]
        made = values("s16" if value.type == "f32" else value.type, value.shape, at)
        feeds[name] = made.astype(DTYPES[value.type])
    for place in ((0, 1, 0), (-3, 9, 1), (1, 3, 0)):
        feeds["place"] = np.array(place, np.int32)
        theirs, ours = values_of(file, feeds), run_reference(graph, feeds)
        for form, array in zip(model.about.outputs, model.run([feeds[name] for name in graph.inputs]), strict=True):
            np.testing.assert_array_equal(array, theirs[form["name"]], form["name"], strict=True)
            np.testing.assert_array_equal(ours[form["name"]], array, form["name"], strict=True)

"""Every builtin operator of TFLite's schema is computed, or refused for a reason of its own."""

from __future__ import annotations

import re

import pytest

from int8tune.compiler.errors import ModelError, ObstacleError
from int8tune.compiler.obstacles import obstacles, refuse_obstacles
from int8tune.compiler.tflite_reader.floats.operators import READERS
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.compiler.tflite_reader.operators import NO_KERNEL
from int8tune.compiler.tflite_reader.refused import REFUSED, refusal
from tests.support.models.tflite_models import Writer, schema
from tests.support.places import ROOT

tflite = pytest.importorskip("tflite", reason="needs the extra `models`")

KNOWN = sorted(word for word in vars(tflite.BuiltinOperator) if word.isupper() and word != "CUSTOM")
# What says nothing of a graph of its own: it is read with what is around it.
AROUND = ("CALL_ONCE", "ASSIGN_VARIABLE", "STABLEHLO_COMPOSITE")
# Those of constants are computed when a file is read.
OF_CONSTANTS = ("BROADCAST_ARGS", "RANGE", "RANK", "SHAPE", "ZEROS_LIKE")


def said_of(word: str) -> str:
    """Why an operator that has one input and no options is refused, if it is."""
    w = Writer()
    made = w.tensor("y", "s8", (4,), 0.5, 1)
    w.operator(word, [w.input("x", "s8", (4,), 0.5, 1)], [made], version=1)
    try:
        graph = read_tflite(w.model(made), "one")
    except ModelError as fault:
        return str(fault)
    return "; ".join(each.reason for each in obstacles(graph))


def test_every_operator_is_computed_or_refused_for_a_reason() -> None:
    for word in KNOWN:
        reason, said = refusal(word, ""), said_of(word)
        assert NO_KERNEL not in said, word
        assert word in (*AROUND, *OF_CONSTANTS) or reason in said, (word, said)
    assert not REFUSED.keys() & READERS.keys()


def test_the_documentation_names_every_operator() -> None:
    named = set(re.findall(r"[A-Z][A-Z0-9_]+", (ROOT / "docs" / "models.md").read_text()))
    pools = {"RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"}
    words = {word for word in vars(schema.BuiltinOperator) if word.isupper()} - pools - {"CUSTOM"}
    assert sorted(word for word in words - named if not word.startswith("STABLEHLO_")) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ethos-u", "Vela made it for an Ethos-U: give the model that it was made of"),
        ("edgetpu-custom-op", "Coral's compiler made it for an Edge TPU: give the model that it was made of"),
        ("XC_conv2d_v2", "XMOS' compiler made it for an xcore: give the model that it was made of"),
        ("FlexRoll", "TensorFlow itself computes it: convert the model without SELECT_TF_OPS"),
        ("rather own", NO_KERNEL),
    ],
)
def test_operators_of_other_compilers_are_named_with_their_count(name: str, reason: str) -> None:
    """They may read memory that nothing makes, as those of Vela do."""
    w = Writer()
    data, scratch = w.input("x", "s8", (4,), 0.5, 1), w.tensor("scratch", "s8", (64,))
    made = [w.tensor(each, "s8", (4,), 0.5, 1) for each in "abc"]
    for read, makes in zip([data, *made], made[:2], strict=False):
        w.custom(name, [read, scratch], [makes], {})
    w.operator("ABS", [made[1]], [made[2]], version=1)
    graph = read_tflite(w.model(made[2]), "net")
    (found,) = obstacles(graph)
    assert (found.operator, found.reason, found.layers) == (f"CUSTOM {name}", reason, ("a", "b"))
    with pytest.raises(ObstacleError, match=r"^net: 2 of 3 operators can't be compiled\n2 CUSTOM"):
        refuse_obstacles(graph)

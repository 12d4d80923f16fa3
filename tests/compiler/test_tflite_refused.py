"""Every builtin operator of TFLite's schema is computed, or refused for a reason of its own."""

from __future__ import annotations

import re

import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacles
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

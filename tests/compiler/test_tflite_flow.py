"""IF and WHILE of TFLite files: what they run stands in their place, and computes what LiteRT computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.onnx_islands import assert_close
from tests.support.models.tflite_flow import (
    FORM,
    SHAPE,
    file_with_list,
    file_with_loop,
    joined,
    made_by_litert,
    while_loop,
)
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]


def taken(w: Writer, inputs: Sequence[int], outputs: Sequence[int], index: int) -> None:
    """Run a subgraph by an IF both of whose branches it is."""
    condition = w.constant(f"yes{len(w.tensors)}", "bool", [True])
    w.operator("IF", [condition, *inputs], outputs, "If", 1, thenSubgraphIndex=index, elseSubgraphIndex=index)


def repeated() -> bytes:
    """A subgraph that is run twice, and gives back what it is given, too."""
    w = Writer()
    other = w.other()
    one, two = (other.input(name, *FORM) for name in ("a", "b"))
    other.outputs = [joined(other, "MUL", one, two, "product"), one]
    data = w.input("x", *FORM)
    first, same, second, again = (w.tensor(name, *FORM) for name in ("first", "same", "second", "again"))
    taken(w, [data, data], [first, same], 1)
    taken(w, [first, same], [second, again], 1)
    return w.model(second, again, joined(w, "ADD", second, first, "y"), others=[other])


def branched() -> bytes:
    """A condition that constants say, once true and once false, one of them within a branch."""
    w = Writer()
    more, less, inner = w.other(), w.other(), w.other()
    for graph, word in ((more, "ADD"), (less, "SUB")):
        data = graph.input("a", *FORM)
        graph.outputs = [joined(graph, word, data, data, "made")]
    data = inner.input("a", *FORM)
    made = inner.tensor("taken", *FORM)
    inner.operator(
        "IF", [inner.constant("yes", "bool", [True]), data], [made], "If", 1, thenSubgraphIndex=1, elseSubgraphIndex=2
    )
    inner.outputs = [joined(inner, "MUL", made, data, "product")]
    data, one, two = w.input("x", *FORM), w.constant("one", "s32", [1]), w.constant("two", "s32", [2])
    is_less, y = w.tensor("is less", "bool", (1,)), w.tensor("y", *FORM)
    w.operator("GREATER", [one, two], [is_less], "Greater", 1)
    w.operator("IF", [is_less, data], [y], "If", 1, thenSubgraphIndex=2, elseSubgraphIndex=3)
    return w.model(joined(w, "ADD", y, data, "sum"), y, others=[more, less, inner])


def composed() -> bytes:
    """An operator of another dialect, which a runtime need not know."""
    w = Writer()
    parts = w.other()
    one, two = (parts.input(name, *FORM) for name in ("a", "b"))
    parts.outputs = [joined(parts, "MUL", one, two, "product")]
    data, made = w.input("x", *FORM), w.tensor("made", *FORM)
    w.composite("odml.unheard_of", [data, data], [made], 1)
    return w.model(joined(w, "ADD", made, data, "y"), others=[parts])


@pytest.mark.parametrize(
    "build", [repeated, branched, composed, file_with_list, file_with_loop, lambda: file_with_loop(turns=0)]
)
@pytest.mark.matrix(at_most=2)
def test_what_is_run_is_litert_s(build: Callable[[], bytes], tmp_path: Path) -> None:
    file, rng = build(), np.random.default_rng(5)
    model = compiled(file, tmp_path)
    assert "WHILE" not in {each.operator for each in read_tflite(file, "flow").operators}
    for _ in range(4):
        feed = {form["name"]: rng.integers(-128, 128, form["shape"]).astype(np.int8) for form in model.about.inputs}
        names = [form["name"] for form in model.about.outputs]
        ours = dict(zip(names, model.run([feed[form["name"]] for form in model.about.inputs]), strict=True))
        theirs = made_by_litert(file, feed)
        for name in names:
            if ours[name].dtype == np.int8:
                np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)
        assert_close({name: ours[name] for name in names}, {name: theirs[name] for name in names})


def reason_of(w: Writer, made: int, *others: Writer) -> str:
    try:
        return obstacles(read_tflite(w.model(made, others=others), "one"))[0].reason
    except ModelError as fault:
        return str(fault)


def test_a_condition_that_data_decides_is_refused() -> None:
    w = Writer()
    branch = w.other()
    branch.outputs = [branch.input("a", *FORM)]
    data, made, answer = w.input("x", *FORM), w.tensor("y", *FORM), w.input("yes", "bool", (1,))
    w.operator("IF", [answer, data], [made], "If", 1, thenSubgraphIndex=1, elseSubgraphIndex=1)
    assert reason_of(w, made, branch) == "its condition is not known before the model runs"


def test_calls_are_refused() -> None:
    """LiteRT can't read such files."""
    w = Writer()
    other = w.other()
    other.outputs = [other.input("a", *FORM)]
    y = w.tensor("y", *FORM)
    w.operator("CALL", [w.input("x", *FORM)], [y], "Call", 1, subgraph=1)
    assert reason_of(w, y, other) == "no runtime computes it"


def test_a_loop_without_an_end_is_refused() -> None:
    w = Writer()
    made, *others = while_loop(w, w.input("x", *FORM), turns=5000)
    assert reason_of(w, made, *others) == "it turns more than 1024 times"


def test_subgraphs_that_run_themselves_are_refused() -> None:
    w = Writer()
    other = w.other()
    data = other.input("a", *FORM)
    made = other.tensor("made", *FORM)
    taken(other, [data], [made], 1)
    other.outputs = [made]
    y = w.tensor("y", *FORM)
    taken(w, [w.input("x", *FORM)], [y], 1)
    assert reason_of(w, y, other) == "subgraphs run each other more than 8 deep"


@pytest.mark.parametrize(
    ("index", "form", "message"),
    [
        (0, FORM, "it must run another subgraph: 0"),
        (1, ("s8", SHAPE, 0.5, -3), "its subgraph has values of another form: s8[2, 3], s8[2, 3]"),
        (1, ("s8", (3, 2), *FORM[2:]), "its subgraph has values of another form: s8[3, 2], s8[2, 3]"),
    ],
)
def test_subgraphs_that_do_not_fit_are_refused(index: int, form: Any, message: str) -> None:
    w = Writer()
    other = w.other()
    other.outputs = [other.input("a", *form)]
    y = w.tensor("y", *FORM)
    taken(w, [w.input("x", *FORM)], [y], index)
    assert reason_of(w, y, other) == message


def test_variables_within_a_loop_are_refused() -> None:
    """Each turn would need what the one before left."""
    w = Writer()
    other = w.other()
    data, memory = other.input("a", *FORM), other.tensor("memory", *FORM)
    other.tensors[memory].isVariable = True
    other.outputs = [joined(other, "ADD", data, memory, "sum")]
    y = w.tensor("y", *FORM)
    taken(w, [w.input("x", *FORM)], [y], 1)
    assert reason_of(w, y, other) == "its subgraph has variables of its own"

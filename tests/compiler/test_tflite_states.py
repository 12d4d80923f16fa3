"""Variables of TFLite files: each run goes on where the one before ended, as LiteRT's does, until a reset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import int8tune as it
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.errors import ModelError
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.interpreter import kept_values, run_reference
from int8tune.compiler.model import read_model
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.shared_models import more_model
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, litert
from tests.support.run.thinned import one_in

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
WAKE_WORDS = ("wake_word_vad.tflite", "wake_word_okay_nabu.tflite")
CALLS = 210
FORM = ("s8", (1, 4), 0.25, -3)
INITIAL = [[5, -7, 100, -128]]


def interpreter_of(file: bytes) -> Any:
    made = litert.Interpreter(model_content=file, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    made.allocate_tensors()
    return made


def called(interpreter: Any, data: Array) -> list[Array]:
    """The outputs of LiteRT's next call."""
    (form,) = interpreter.get_input_details()
    interpreter.set_tensor(form["index"], data)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


def stream(shape: tuple[int, ...], calls: int) -> list[Array]:
    """Smooth sounds, noise, and the ends of the type, in stretches as long as a word."""
    rng, made, level = np.random.default_rng(5), [], np.zeros(shape)
    for index in range(calls):
        level = 0.9 * level + rng.normal(0, 20, shape)
        kinds = [level, rng.integers(-128, 128, shape), np.full(shape, rng.choice([-128, 127]))]
        kinds.append(rng.choice([-128, 127], shape))
        made.append(np.clip(kinds[index // 15 % len(kinds)], -128, 127).astype(np.int8))
    return made


def assert_same_calls(model: CompiledModel, file: bytes, inputs: list[Array]) -> list[Array]:
    """Every call gives what LiteRT's does; the first outputs."""
    interpreter, made = interpreter_of(file), []
    for index, data in enumerate(inputs):
        ours = model.run([data])
        for one, other in zip(ours, called(interpreter, data), strict=True):
            np.testing.assert_array_equal(one, other, f"call {index}", strict=True)
        made.append(ours[0])
    return made


@pytest.mark.parametrize("name", one_in(2, WAKE_WORDS))
def test_wake_words_are_litert_s_call_by_call(name: str, tmp_path: Path) -> None:
    path = more_model(name)
    it.compile(path, tmp_path / "model.so", results=tmp_path / "results")
    model = it.load(tmp_path / "model.so")
    inputs = stream(tuple(model.about.inputs[0]["shape"]), CALLS)
    first = assert_same_calls(model, path.read_bytes(), inputs)
    assert len({made.tobytes() for made in first}) > 8
    model.reset()
    assert_same_calls(model, path.read_bytes(), inputs[::-1])


@pytest.mark.thorough
@pytest.mark.parametrize("layers", [True, False])
def test_samples_are_consecutive_calls(layers: bool, tmp_path: Path) -> None:
    found = it.accuracy(more_model(WAKE_WORDS[0]), count=40, layers=layers, results=tmp_path)
    assert found.is_exact


def variable(w: Writer, name: str = "memory") -> int:
    made = w.tensor(f"{name}.handle", "resource", ())
    w.operator("VAR_HANDLE", [], [made], "VarHandle", 1, sharedName=name)
    return made


def assigned(w: Writer, handle: int, value: int) -> None:
    w.operator("ASSIGN_VARIABLE", [handle, value], [], version=1)


def read(w: Writer, handle: int, name: str, form: Any = FORM) -> int:
    made = w.tensor(name, *form)
    w.operator("READ_VARIABLE", [handle], [made], version=1)
    return made


def set_first(w: Writer, form: Any = FORM, values: Any = INITIAL, name: str = "memory") -> Writer:
    """The operator and the subgraph that set a variable before the first run."""
    once = w.other()
    kind, _, *quantization = form
    assigned(once, variable(once, name), once.constant("first", kind, values, *quantization))
    w.operator("CALL_ONCE", [], [], "CallOnce", 1, initSubgraphIndex=1)
    return once


def joined(w: Writer, word: str, one: int, other: int, name: str, form: Any = FORM) -> int:
    made = w.tensor(name, *form)
    w.operator(word, [one, other], [made], word.title(), 2 if form[0] == "s8" else 1)
    return made


def running_sum() -> bytes:
    """A sum of all inputs, which is read and set twice in a call; the first output is what was kept."""
    w = Writer()
    data = w.input("x", *FORM)
    once, handle = set_first(w), variable(w)
    before = read(w, handle, "before")
    assigned(w, handle, joined(w, "ADD", before, data, "sum"))
    middle = read(w, handle, "middle")
    assigned(w, handle, joined(w, "SUB", middle, before, "rest"))
    return w.model(before, joined(w, "ADD", read(w, handle, "again"), middle, "y"), others=[once])


def moving_average() -> bytes:
    """In float, where half of a number is exact; what is kept is made inside of an island."""
    w, form = Writer(), ("f32", (1, 4))
    number = w.tensor("number", *form)
    w.operator("DEQUANTIZE", [w.input("x", *FORM)], [number])
    once, handle = set_first(w, form, [[1.5, 0, -2, 8]]), variable(w)
    share = joined(w, "MUL", read(w, handle, "before", form), w.constant("share", "f32", [0.5]), "share of it", form)
    made = joined(w, "ADD", share, number, "kept", form)
    assigned(w, handle, made)
    return w.model(joined(w, "ADD", made, number, "y", form), others=[once])


def last_input() -> bytes:
    """What only the next call needs: the input in the shape that it has, and a sum that nothing else reads."""
    w = Writer()
    data = w.input("x", *FORM)
    once, handle = set_first(w), variable(w)
    same = w.tensor("same", *FORM)
    w.operator("RESHAPE", [data, w.constant("shape", "s32", [1, 4])], [same], "Reshape", 1)
    before = read(w, handle, "before")
    assigned(w, handle, same)
    made = joined(w, "ADD", before, before, "y")
    assigned(w, handle, joined(w, "SUB", same, before, "rest"))
    return w.model(made, others=[once])


def repeated_input() -> bytes:
    """What is kept is made by a movement that changes nothing."""
    w = Writer()
    data = w.input("x", *FORM)
    once, handle = set_first(w), variable(w)
    same = w.tensor("same", *FORM)
    w.operator("RESHAPE", [data, w.constant("shape", "s32", [1, 4])], [same], "Reshape", 1)
    made = joined(w, "ADD", read(w, handle, "before"), data, "y")
    assigned(w, handle, same)
    return w.model(made, others=[once])


@pytest.mark.parametrize("build", [running_sum, moving_average, last_input, repeated_input])
def test_variables_are_litert_s(build: Callable[[], bytes], tmp_path: Path) -> None:
    file, inputs = build(), stream((1, 4), 40)
    model = compiled(file, tmp_path)
    assert [state["name"] for state in model.about.states] == ["memory"]
    made = assert_same_calls(model, file, inputs)
    bound = model.bind([inputs[0]])
    model.reset()
    bound.run()
    np.testing.assert_array_equal(bound.outputs()[0], made[0])
    model.profile([inputs[1]], 3)
    np.testing.assert_array_equal(model.run([inputs[1]])[0], made[1])


def test_the_reference_keeps_what_the_model_keeps(tmp_path: Path) -> None:
    (tmp_path / "sum.tflite").write_bytes(running_sum())
    graph = with_file_layouts(read_model(tmp_path / "sum.tflite"))
    interpreter, kept = interpreter_of(running_sum()), dict[str, Array]()
    for data in stream((1, 4), 12):
        values = run_reference(graph, {"x": data}, kept=kept)
        kept = kept_values(graph, values)
        for name, expected in zip(graph.outputs, called(interpreter, data), strict=True):
            np.testing.assert_array_equal(values[name], expected)


def test_a_variable_that_nothing_sets_again_is_a_constant(tmp_path: Path) -> None:
    w = Writer()
    data = w.input("x", *FORM)
    once, handle = set_first(w), variable(w)
    file = w.model(joined(w, "ADD", read(w, handle, "before"), data, "y"), others=[once])
    model = compiled(file, tmp_path)
    assert model.about.states == ()
    assert_same_calls(model, file, stream((1, 4), 3))


def reason_of(w: Writer, *outputs: int, once: Writer | None = None) -> str:
    """Why a model is refused: an operator of it, or all of it."""
    file = w.model(*outputs, others=[once] if once else [])
    try:
        return obstacles(read_tflite(file, "one"))[0].reason
    except ModelError as fault:
        return str(fault)


def test_variables_that_are_refused_say_why() -> None:
    w = Writer()
    w.input("x", *FORM)
    assert "nothing sets its variable before" in reason_of(w, read(w, variable(w), "before"))
    w = Writer()
    once, handle = set_first(w), variable(w)
    assert "another form: s8[1, 4]" in reason_of(w, read(w, handle, "y", ("s8", (4, 1), 0.25, -3)), once=once)
    w = Writer()
    once, handle = set_first(w), variable(w)
    assigned(w, handle, w.input("x", "s8", (1, 4), 0.5, -3))
    assert "another form" in reason_of(w, read(w, handle, "y"), once=once)
    w = Writer()
    handle = variable(w)
    assigned(w, handle, w.input("x", *FORM))
    made = read(w, handle, "y")
    assert "used before it sets them" in reason_of(w, made, once=set_first(w))
    w = Writer()
    once = set_first(w)
    joined(once, "ADD", 1, 1, "sum")
    assert "set variables to constants only: ADD" in reason_of(w, w.input("x", *FORM), once=once)
    w = Writer()
    w.operator("CALL_ONCE", [], [], "CallOnce", 1, initSubgraphIndex=0)
    assert "it must run another subgraph: 0" in reason_of(w, w.input("x", *FORM))

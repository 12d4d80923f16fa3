"""LSTM and SVDF in float and with 8-bit weights: every call goes on where the one before ended, as LiteRT's does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.errors import ModelError
from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.onnx_islands import assert_close
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, litert, schema
from tests.support.models.tflite_recurrent import LstmForm, SvdfForm, lstm, svdf

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
CALLS = 6
PROJECTED = LstmForm(has_projection=True, outputs=4)
FORMS = {
    "plain": LstmForm(),
    "asymmetric": LstmForm(is_asymmetric=True),
    "coupled": LstmForm(is_coupled=True),
    "peepholes": LstmForm(has_peepholes=True),
    "coupled peepholes": LstmForm(has_peepholes=True, is_coupled=True),
    "projected": replace(PROJECTED, projection_clip=0.3, is_asymmetric=True),
    "projected without a bias": replace(PROJECTED, has_projection_bias=False),
    "clipped": LstmForm(cell_clip=0.4),
    "relu6": LstmForm(activation=3),
    "relu": LstmForm(activation=1, cell_clip=0.7),
    "time first": LstmForm(is_time_major=True),
    "one sequence": LstmForm(batch=1),
    "one step of a sequence": LstmForm(steps=1),
    "normalized": LstmForm(has_norms=True),
    "normalized, everything": replace(PROJECTED, has_norms=True, has_peepholes=True, is_coupled=True, cell_clip=0.8),
    "one step": LstmForm(steps=0),
    "one step, everything": replace(PROJECTED, steps=0, has_peepholes=True, activation=1, cell_clip=0.9),
}
FILTERS = {
    "filters": SvdfForm(),
    "asymmetric filters": SvdfForm(is_asymmetric=True),
    "last input only": SvdfForm(memory=1),
    "one rank": SvdfForm(rank=1, has_bias=False, activation=0, batch=1),
    "bounded": SvdfForm(activation=3, memory=9),
}


# Those that the others say nothing of.
FEW = (
    "asymmetric",
    "coupled peepholes",
    "normalized, everything",
    "projected",
    "one step, everything",
    "filters",
    "asymmetric filters",
)


def model_of(element: str, names: Sequence[str]) -> tuple[bytes, dict[str, tuple[int, ...]]]:
    """Operators on inputs of their shapes; the file, and these shapes."""
    w, inputs = Writer(), dict[tuple[int, ...], int]()
    w.input("unused", "s8", (1,), 0.1, 0)

    def data(shape: tuple[int, ...]) -> int:
        if shape not in inputs:
            inputs[shape] = w.input(str(shape), "f32", shape)
        return inputs[shape]

    made = [
        lstm(w, data(form.shape), replace(form, element=element), name, index)
        for index, (name, form) in enumerate(FORMS.items())
        if name in names
    ]
    for index, (name, filters) in enumerate((name, form) for name, form in FILTERS.items() if name in names):
        shape = filters.batch, filters.values
        made.append(svdf(w, data(shape), replace(filters, element=element), name, index))
    return w.model(*made), {str(shape): shape for shape in inputs}


def interpreter_of(file: bytes, is_reference: bool) -> Any:
    kinds = litert.OpResolverType
    resolver = kinds.BUILTIN_REF if is_reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = litert.Interpreter(model_content=file, experimental_op_resolver_type=resolver)
    made.allocate_tensors()
    return made


def called(interpreter: Any, feed: dict[str, Array]) -> dict[str, Array]:
    for form in interpreter.get_input_details():
        interpreter.set_tensor(form["index"], feed[form["name"]])
    interpreter.invoke()
    return {each["name"]: interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()}


def run(model: CompiledModel, feed: dict[str, Array]) -> dict[str, Array]:
    made = model.run([feed[form["name"]] for form in model.about.inputs])
    return dict(zip([form["name"] for form in model.about.outputs], made, strict=True))


def drawn(shapes: dict[str, tuple[int, ...]]) -> list[dict[str, Array]]:
    """Calls with numbers of several sizes, and with zeros."""
    rng, sizes = np.random.default_rng(7), [1.0, 1.0, 0.01, 0.0, 30.0, 1.0]
    made = [{name: rng.normal(0, 1, shape) * size for name, shape in shapes.items()} for size in sizes[:CALLS]]
    feeds = [{name: array.astype(np.float32) for name, array in each.items()} for each in made]
    return [{**each, "unused": np.zeros(1, np.int8)} for each in feeds]


@pytest.mark.parametrize(
    ("element", "names"),
    [
        pytest.param("f32", FEW, marks=pytest.mark.thorough),
        ("s8", ("normalized, everything", "asymmetric filters")),
        pytest.param("s8", ("coupled peepholes",), marks=pytest.mark.thorough),
        pytest.param("s8", FEW, marks=pytest.mark.thorough),
        *(pytest.param(element, [*FORMS, *FILTERS], marks=pytest.mark.thorough) for element in ("f32", "s8")),
    ],
)
def test_calls_go_on_as_litert_s(element: str, names: Sequence[str], tmp_path: Path) -> None:
    file, shapes = model_of(element, names)
    feeds = drawn(shapes)
    assert sum(float_operators(read_tflite(file, "recurrent")).values()) == len(names)
    model, first = compiled(file, tmp_path), None
    assert len(model.about.states) == sum(2 if name in FORMS else 1 for name in names)
    for is_reference in (True, False):
        interpreter = interpreter_of(file, is_reference)
        model.reset()
        for feed in feeds:
            ours = run(model, feed)
            assert_close(ours, called(interpreter, feed))
            first = first or ours
    model.reset()
    for name, array in run(model, feeds[0]).items():
        np.testing.assert_array_equal(array, first[name] if first else None)


@pytest.mark.thorough
def test_steps_share_kernels(tmp_path: Path) -> None:
    form = LstmForm(steps=100)
    w = Writer()
    w.input("unused", "s8", (1,), 0.1, 0)
    file = w.model(lstm(w, w.input("x", "f32", form.shape), form))
    model = compiled(file, tmp_path)
    kernels = {call["kernel"] for call in model.about.calls}
    assert len(kernels) < 20 < 300 < len(model.about.calls)
    (feed, *_), interpreter = drawn({"x": form.shape}), interpreter_of(file, is_reference=True)
    assert_close(run(model, feed), called(interpreter, feed))


def obstacle(file: bytes) -> str:
    try:
        return obstacles(read_tflite(file, "one"))[0].reason
    except ModelError as fault:
        return str(fault)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot": (20, 12)}, "its input 20 must be left out: (6,)"),
        ({"slot": (23, 12)}, "its input 20 must be (6,): left out"),
        ({"slot": (2, 12)}, "diagonal ones are not supported"),
        ({"slot": (14, -1)}, "its input 14 must be (6,): left out"),
        ({"slot": (9, 12)}, "its input 9 must be left out: (6,)"),
        ({"slot": (18, 1)}, "its input 18 must be a variable"),
        ({"slot": (18, 19)}, "a variable that nothing else has"),
        ({"steps": 513}, "it must have at most 512 steps: 513"),
        ({"cell_clip": -1.0}, "its bounds must be finite, and not below 0"),
        ({"activation": 0}, "fused activation 0 is not supported"),
        ({"activation": 5}, "fused activation 5 is not supported"),
        ({"outputs": 5}, "its input 18 must be (2, 6): (2, 5)"),
    ],
)
def test_forms_that_are_refused_say_why(change: dict[str, Any], message: str) -> None:
    slot = change.pop("slot", None)
    form, w = LstmForm(**change), Writer()
    made = lstm(w, w.input("x", "f32", form.shape), replace(form, outputs=6) if form.outputs == 5 else form)
    (operator,) = w.operators
    operator.inputs += [-1] * 4
    w.tensors[operator.inputs[18]].shape = [form.batch, form.outputs]
    w.input("unused", "s8", (1,), 0.1, 0)
    if slot is not None:
        place, source = slot
        operator.inputs[place] = operator.inputs[source] if source > 0 else source
    assert message in obstacle(w.model(made))


def test_the_basic_kernel_is_refused() -> None:
    w, form = Writer(), LstmForm(steps=0)
    w.input("unused", "s8", (1,), 0.1, 0)
    made = lstm(w, w.input("x", "f32", form.shape), form)
    w.operators[0].builtinOptions.kernelType = schema.LSTMKernelType.BASIC
    assert obstacle(w.model(made)) == "its kernel must be the full one"


def test_variables_that_others_read_are_refused() -> None:
    """They would read what the operator leaves, or what it found."""
    w, form = Writer(), LstmForm(steps=0)
    w.input("unused", "s8", (1,), 0.1, 0)
    made = lstm(w, w.input("x", "f32", form.shape), form)
    state, total = w.operators[0].inputs[18], w.tensor("total", "f32", form.made)
    w.operator("ADD", [made, state], [total], "Add", 1)
    assert "it reads `lstm.state`, which nothing makes before" in obstacle(w.model(total))
    w.operators.pop()
    assert "its output `lstm.state` is made by no operator" in obstacle(w.model(made, state))
    w = Writer()
    w.input("unused", "s8", (1,), 0.1, 0)
    data, made = w.input("x", "f32", (1, 4)), w.tensor("y", "f32", (1, 4))
    memory = w.tensor("memory", "f32", (1, 4))
    w.tensors[memory].isVariable = True
    w.operator("ADD", [data, memory], [made], "Add", 1)
    assert "it reads `memory`, which nothing makes before" in obstacle(w.model(made))

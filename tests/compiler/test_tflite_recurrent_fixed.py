"""LSTM and SVDF of 8-bit values: every call is LiteRT's, bit for bit, and so is what is kept for the next one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.graph import Kind
from int8tune.compiler.interpreter import kept_values, run_reference
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, litert
from tests.support.models.tflite_recurrent import (
    LstmForm,
    SvdfForm,
    all_gates,
    fixed_lstm,
    fixed_svdf,
    lost_deviations,
)
from tests.support.run.thinned import one_in

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]
CALLS = 12
# With the power of two of cells, and the scale and zero point of what outputs are rounded to.
FORMS: dict[str, tuple[LstmForm, dict[str, Any]]] = {
    "sequence": (LstmForm(steps=30, cells=33, outputs=33, values=19), {}),
    "time first": (LstmForm(is_time_major=True, batch=3), {"hidden": (0.0078125, -17)}),
    "one step": (LstmForm(steps=0, cells=20, outputs=20), {"cell_power": -12, "hidden": (0.011, 0)}),
    "clipped": (LstmForm(cell_clip=1.5), {"cell_power": -10}),
    "clipped beyond 16 bits": (LstmForm(cell_clip=100.0), {"cell_power": -9}),
    "cells below 1": (LstmForm(steps=9, batch=1), {"cell_power": -15}),
    "coupled": (LstmForm(is_coupled=True), {}),
    "peepholes": (LstmForm(has_peepholes=True), {}),
    "coupled peepholes, time first": (LstmForm(has_peepholes=True, is_coupled=True, is_time_major=True, batch=3), {}),
    "projected": (LstmForm(has_projection=True, cells=17, outputs=5), {"hidden": (0.0078125, -17)}),
    "projected to more": (LstmForm(has_projection=True, cells=5, outputs=9, has_projection_bias=False), {}),
    "projected and clipped": (LstmForm(has_projection=True, cells=8, outputs=4, projection_clip=0.3), {}),
    "projected with peepholes": (LstmForm(has_projection=True, has_peepholes=True, cells=9, outputs=5), {}),
    "projected with peepholes, time first": (
        LstmForm(has_projection=True, has_peepholes=True, cells=9, outputs=4, batch=3, is_time_major=True),
        {},
    ),
    "normalized": (LstmForm(has_norms=True, cells=32, outputs=32), {}),
    "one step, everything": (
        LstmForm(0, 3, 7, 20, 6, is_coupled=True, has_peepholes=True, has_projection=True, has_norms=True),
        {"cell_power": -12},
    ),
    "everything": (
        LstmForm(5, 2, 7, 21, 6, has_peepholes=True, has_projection=True, has_norms=True, cell_clip=3.0),
        {"hidden": (0.0078125, -17)},
    ),
}
# With the scale of weights of time: sums of the last one wrap around 32 bits.
FILTERS = {
    "filters": (SvdfForm(), 3e-5),
    "last input only": (SvdfForm(memory=1, rank=1, has_bias=False), 3e-5),
    "long memory": (SvdfForm(memory=40, batch=3, values=33, outputs=7), 3e-6),
}


def lstm_model(name: str) -> tuple[bytes, tuple[int, ...]]:
    w, (form, others) = Writer(), FORMS[name]
    return w.model(fixed_lstm(w, w.input("x", "s8", form.shape, 0.02, -5), form, **others)), form.shape


def svdf_model(name: str) -> tuple[bytes, tuple[int, ...]]:
    w, (form, time) = Writer(), FILTERS[name]
    shape = form.batch, form.values
    return w.model(fixed_svdf(w, w.input("x", "s8", shape, 0.02, -5), form, time=time)), shape


def inputs_of(shape: tuple[int, ...]) -> list[Array]:
    """Noise, and both ends of the type for several calls."""
    rng = np.random.default_rng(4)
    made = [rng.integers(-128, 128, shape) for _ in range(CALLS)]
    made[3:6] = [np.full(shape, end) for end in (127, 127, -128)]
    return [each.astype(np.int8) for each in made]


def interpreter_of(file: bytes, is_reference: bool = True) -> Any:
    kinds = litert.OpResolverType
    resolver = kinds.BUILTIN_REF if is_reference else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = litert.Interpreter(
        model_content=file, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True
    )
    made.allocate_tensors()
    return made


def called(interpreter: Any, data: Array, *names: str) -> dict[str, Array]:
    """Values behind LiteRT's next call."""
    (form,) = interpreter.get_input_details()
    interpreter.set_tensor(form["index"], data)
    interpreter.invoke()
    places = {each["name"]: each["index"] for each in interpreter.get_tensor_details()}
    return {name: interpreter.get_tensor(places[name]) for name in names}


def assert_calls_are_litert_s(model: CompiledModel, file: bytes, inputs: list[Array], is_reference: bool) -> None:
    """Outputs and variables are LiteRT's, of the compiled model and of its reference."""
    graph, interpreter, kept = read_tflite(file, "fixed"), interpreter_of(file, is_reference), dict[str, Array]()
    (name,), states = graph.outputs, [state.name for state in graph.states]
    for index, data in enumerate(inputs):
        theirs, values = called(interpreter, data, name, *states), run_reference(graph, {"x": data}, kept=kept)
        kept = kept_values(graph, values)
        np.testing.assert_array_equal(model.run([data])[0], theirs[name], f"call {index}", strict=True)
        np.testing.assert_array_equal(values[name], theirs[name], f"call {index}", strict=True)
        for state in graph.states:
            np.testing.assert_array_equal(kept[state.read], theirs[state.name], f"call {index}", strict=True)


@pytest.mark.parametrize("name", one_in(6, [*FORMS, *FILTERS]))
@pytest.mark.matrix(at_most=2)
def test_calls_are_litert_s(name: str, tmp_path: Path) -> None:
    file, shape = lstm_model(name) if name in FORMS else svdf_model(name)
    (operator,) = read_tflite(file, "fixed").operators
    assert operator.kind is (Kind.LSTM if name in FORMS else Kind.SVDF)
    model, inputs = compiled(file, tmp_path), inputs_of(shape)
    assert_calls_are_litert_s(model, file, inputs, is_reference=True)
    model.reset()
    assert_calls_are_litert_s(model, file, inputs[::-1], is_reference=False)


@pytest.mark.thorough
@pytest.mark.parametrize("gate", [0, 2])
def test_gates_of_every_number_are_litert_s(gate: int, tmp_path: Path) -> None:
    """A sigmoid and a tanh of all 65,536 numbers."""
    file, data = all_gates(gate), np.arange(-128, 128, dtype=np.int8).reshape(256, 1)
    theirs = called(interpreter_of(file), data, "fixed.cell")["fixed.cell"]
    assert len(np.unique(theirs)) > 9000
    graph = read_tflite(file, "gates")
    kept = kept_values(graph, run_reference(graph, {"x": data}))
    np.testing.assert_array_equal(kept["fixed.cell"], theirs)
    model = compiled(file, tmp_path)
    model.run([data])
    np.testing.assert_array_equal(model.bind([data])._kept[1].numpy(), theirs)


@pytest.mark.thorough
def test_normalization_of_lost_deviations_is_litert_s(tmp_path: Path) -> None:
    file, shape = lost_deviations()
    assert_calls_are_litert_s(compiled(file, tmp_path), file, inputs_of(shape), is_reference=True)


def reason_of(w: Writer, made: int) -> str:
    return obstacles(read_tflite(w.model(made), "one"))[0].reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": 1}, "it must have tanh and 5 intermediates: activation 1, 5"),
        ({"intermediates": 4}, "it must have tanh and 5 intermediates: activation 4, 4"),
        ({"slots": {1: -1, 5: -1}}, "its input 12 must be left out: (6,)"),
        ({"slots": {9: 12, 10: 12, 11: 12}}, "its peepholes must be s16, with one scale and no zero point: s32"),
        ({"slots": {20: 12}}, "its input 20 must be left out: (6,)"),
        (
            {"slots": {at: at - 8 for at in range(20, 24)}},
            "its normalization must be s16, with one scale and no zero point: s32",
        ),
        ({"cell_scale": 0.0006}, "its cells must be s16, their scale a power of two: s16, 0.0006"),
        ({"bias": "f32"}, "its bias must be s32: f32"),
        ({"weight": 3}, "its weights must be s8, with one scale and no zero point: s8"),
    ],
)
def test_forms_that_are_refused_say_why(change: dict[str, Any], message: str) -> None:
    w, form = Writer(), replace(LstmForm(), activation=change.get("activation", 4))
    made = fixed_lstm(w, w.input("x", "s8", form.shape, 0.02, -5), form)
    (operator,) = w.operators
    del operator.intermediates[change.get("intermediates", 5) :]
    if "cell_scale" in change:
        w.tensors[operator.inputs[19]].quantization.scale = [change["cell_scale"]]
    if "bias" in change:
        operator.inputs[13] = w.constant("bias", "f32", np.zeros(6))
    if "weight" in change:
        w.tensors[operator.inputs[2]].quantization.zeroPoint = [change["weight"]]
    for slot, source in change.get("slots", {}).items():
        operator.inputs[slot] = source if source < 0 else operator.inputs[source]
    assert reason_of(w, made) == message


def test_filters_that_are_refused_say_why() -> None:
    w, form = Writer(), SvdfForm(activation=3)
    made = fixed_svdf(w, w.input("x", "s8", (2, 9), 0.02, -5), form)
    assert reason_of(w, made) == "fused activation 3 is not supported"
    w.operators[0].builtinOptions.fusedActivationFunction = 1
    w.tensors[w.operators[0].inputs[2]].quantization.zeroPoint = [1]
    assert reason_of(w, made) == "its weights and memory must have no zero point"
    w.tensors[w.operators[0].inputs[2]].quantization.zeroPoint = [0]
    w.operators[0].builtinOptions.rank = 3
    assert reason_of(w, made) == "its weights must be matrices of whole ranks of 3: (8, 9), (8, 5)"

"""TFLite models with LSTM and SVDF, whose variables go on from call to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.models.tflite_models import Writer

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LstmForm:
    """An LSTM to write; `steps` 0 is the operator of one step. `element` is the type of its weights."""

    steps: int = 3
    batch: int = 2
    values: int = 7
    cells: int = 6
    outputs: int = 6
    is_time_major: bool = False
    is_coupled: bool = False
    has_peepholes: bool = False
    has_projection: bool = False
    has_projection_bias: bool = True
    activation: int = 4
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    is_asymmetric: bool = False
    element: str = "f32"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._ends(self.values)

    @property
    def made(self) -> tuple[int, ...]:
        return self._ends(self.outputs)

    def _ends(self, last: int) -> tuple[int, ...]:
        if not self.steps:
            return self.batch, last
        return (self.steps, self.batch, last) if self.is_time_major else (self.batch, self.steps, last)


def variable(w: Writer, name: str, *form: Any) -> int:
    made = w.tensor(name, *form)
    w.tensors[made].isVariable = True
    return made


def matrix(w: Writer, rng: np.random.Generator, name: str, shape: tuple[int, ...], element: str) -> int:
    numbers = rng.normal(0, 0.6, shape)
    if element == "f32":
        return w.constant(name, "f32", numbers)
    scale = float(np.abs(numbers).max() / 127)
    return w.constant(name, element, np.round(numbers / scale), scale)


def lstm(w: Writer, data: int, form: LstmForm, name: str = "lstm", seed: int = 0) -> int:
    """The output of an LSTM on numbers."""
    rng, slots = np.random.default_rng(seed), [-1] * 20
    gates = range(1 if form.is_coupled else 0, 4)
    slots[0] = data
    for gate in gates:
        slots[1 + gate] = matrix(w, rng, f"{name}.x{gate}", (form.cells, form.values), form.element)
        slots[5 + gate] = matrix(w, rng, f"{name}.h{gate}", (form.cells, form.outputs), form.element)
        slots[12 + gate] = w.constant(f"{name}.b{gate}", "f32", rng.normal(0, 0.5, form.cells))
    if form.has_peepholes:
        for gate, slot in ((0, 9), (1, 10), (3, 11)):
            if gate in gates:
                slots[slot] = matrix(w, rng, f"{name}.c{gate}", (form.cells,), form.element)
    if form.has_projection:
        slots[16] = matrix(w, rng, f"{name}.p", (form.outputs, form.cells), form.element)
        if form.has_projection_bias:
            slots[17] = w.constant(f"{name}.pb", "f32", rng.normal(0, 0.5, form.outputs))
    slots[18] = variable(w, f"{name}.state", "f32", (form.batch, form.outputs))
    slots[19] = variable(w, f"{name}.cell", "f32", (form.batch, form.cells))
    made = w.tensor(name, "f32", form.made)
    write(w, slots, made, form)
    return made


def write(w: Writer, slots: list[int], made: int, form: LstmForm) -> None:
    """The operator with these inputs."""
    fields: dict[str, Any] = {
        "fusedActivationFunction": form.activation,
        "cellClip": form.cell_clip,
        "projClip": form.projection_clip,
        "asymmetricQuantizeInputs": form.is_asymmetric,
    }
    if form.steps:
        fields["timeMajor"] = form.is_time_major
        w.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", slots, [made], "UnidirectionalSequenceLSTM", 3, **fields)
    else:
        w.operator("LSTM", slots, [made], "LSTM", 4, **fields)


@dataclass(frozen=True)
class SvdfForm:
    """An SVDF to write."""

    batch: int = 2
    values: int = 9
    outputs: int = 4
    rank: int = 2
    memory: int = 5
    has_bias: bool = True
    activation: int = 1
    is_asymmetric: bool = False
    element: str = "f32"


def svdf(w: Writer, data: int, form: SvdfForm, name: str = "svdf", seed: int = 0) -> int:
    """The output of an SVDF on numbers."""
    rng, filters = np.random.default_rng(seed), form.outputs * form.rank
    feature = matrix(w, rng, f"{name}.w", (filters, form.values), form.element)
    time = matrix(w, rng, f"{name}.t", (filters, form.memory), form.element)
    bias = w.constant(f"{name}.b", "f32", rng.normal(size=form.outputs)) if form.has_bias else -1
    kept = variable(w, f"{name}.state", "f32", (form.batch, form.memory * filters))
    made = w.tensor(name, "f32", (form.batch, form.outputs))
    fields = {"rank": form.rank, "fusedActivationFunction": form.activation}
    fields["asymmetricQuantizeInputs"] = form.is_asymmetric
    w.operator("SVDF", [data, feature, time, bias, kept], [made], "SVDF", 3, **fields)
    return made


def file_with_recurrent(element: str = "s8") -> bytes:
    """An LSTM of several steps and one of one step, and an SVDF, each with a variable."""
    w = Writer()
    sequence, one = LstmForm(element=element, has_peepholes=True), LstmForm(steps=0, element=element)
    data = w.input("x", "s8", sequence.shape, 0.03125, -7)
    numbers, row = w.tensor("numbers", "f32", sequence.shape), w.tensor("row", "f32", one.shape)
    w.operator("DEQUANTIZE", [data], [numbers])
    w.operator("MEAN", [numbers, w.constant("axis", "s32", [1])], [row], "Reducer", 1)
    made = lstm(w, numbers, sequence, "sequence")
    return w.model(made, lstm(w, row, one, "one", 1), svdf(w, row, SvdfForm(values=7, element=element)))

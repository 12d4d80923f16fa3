"""TFLite models with LSTM and SVDF, whose variables go on from call to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.models.tflite_models import Writer

Array = npt.NDArray[Any]
# The places of the weights that gates look at cells by.
PEEPHOLES = {0: 9, 1: 10, 3: 11}


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
    has_norms: bool = False
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
    rng, slots = np.random.default_rng(seed), [-1] * (24 if form.has_norms else 20)
    gates = range(1 if form.is_coupled else 0, 4)
    slots[0] = data
    for gate in gates:
        slots[1 + gate] = matrix(w, rng, f"{name}.x{gate}", (form.cells, form.values), form.element)
        slots[5 + gate] = matrix(w, rng, f"{name}.h{gate}", (form.cells, form.outputs), form.element)
        slots[12 + gate] = w.constant(f"{name}.b{gate}", "f32", rng.normal(0, 0.5, form.cells))
        if form.has_norms:
            slots[20 + gate] = w.constant(f"{name}.n{gate}", "f32", rng.normal(0, 1, form.cells))
    if form.has_peepholes:
        for gate, slot in PEEPHOLES.items():
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


def fixed_lstm(
    w: Writer,
    data: int,
    form: LstmForm,
    name: str = "fixed",
    seed: int = 0,
    cell_power: int = -11,
    hidden: tuple[float, int] = (0.0081, 3),
) -> int:
    """The output of an LSTM of 8-bit values with cells of 16 bits; `hidden` is what it rounds outputs to."""
    rng, slots = np.random.default_rng(seed), [-1] * 24
    scale, state, gates = w.tensors[data].quantization.scale[0], (0.0081, 3), range(1 if form.is_coupled else 0, 4)
    slots[0] = data
    for gate in gates:
        for first, width in ((1, form.values), (5, form.outputs)):
            shape, most = (form.cells, width), float(rng.uniform(0.004, 0.03))
            made = w.constant(f"{name}.{first + gate}", "s8", rng.integers(-127, 128, shape), most)
            slots[first + gate] = made
        bias_scale = scale * w.tensors[slots[1 + gate]].quantization.scale[0]
        slots[12 + gate] = w.constant(f"{name}.b{gate}", "s32", rng.integers(-4000, 4000, form.cells), bias_scale)
    _fixed_extras(w, form, name, rng, slots)
    slots[18] = variable(w, f"{name}.state", "s8", (form.batch, form.outputs), *state)
    slots[19] = variable(w, f"{name}.cell", "s16", (form.batch, form.cells), 2.0**cell_power)
    made = w.tensor(name, "s8", form.made, *state)
    write(w, slots, made, form)
    steps = [0.0011, 0.0007, 0.0013, 0.002] if form.has_norms else [2.0**-12] * 4
    w.operators[-1].intermediates = [w.tensor(f"{name}.i{at}", "s16", (0,), each) for at, each in enumerate(steps)]
    w.operators[-1].intermediates.append(w.tensor(f"{name}.hidden", "s8", (0,), *hidden))
    return made


def _fixed_extras(w: Writer, form: LstmForm, name: str, rng: np.random.Generator, slots: list[int]) -> None:
    """What not every LSTM has: peepholes and normalization of 16 bits, and a projection of 8."""
    for gate in range(1 if form.is_coupled else 0, 4):
        if form.has_peepholes and gate in PEEPHOLES:
            weights = rng.integers(-32767, 32768, form.cells)
            slots[PEEPHOLES[gate]] = w.constant(f"{name}.c{gate}", "s16", weights, 4e-5)
        if form.has_norms:
            slots[20 + gate] = w.constant(f"{name}.n{gate}", "s16", rng.integers(-32767, 32768, form.cells), 6e-5)
            w.buffers[w.tensors[slots[12 + gate]].buffer].data = (
                rng.integers(-(1 << 25), 1 << 25, form.cells).astype(np.int32).view(np.uint8)
            )
    if form.has_projection:
        slots[16] = w.constant(f"{name}.p", "s8", rng.integers(-127, 128, (form.outputs, form.cells)), 0.011)
        if form.has_projection_bias:
            slots[17] = w.constant(f"{name}.pb", "s32", rng.integers(-3000, 3000, form.outputs), 0.011 * 0.0081)


def all_gates(swept: int) -> bytes:
    """An LSTM of one step, a gate of which has every number of 16 bits: one for each of 256 cells and 256 rows.

    The other gates are as far open as they go, and the cells hold what the gate lets through.
    """
    w = Writer()
    data = w.input("x", "s8", (256, 1), 2.0**-4, 0)
    made = fixed_lstm(w, data, LstmForm(steps=0, batch=256, values=1, cells=256, outputs=256), cell_power=-15)
    for gate in range(4):
        for first in (1, 5):
            tensor = w.tensors[w.operators[-1].inputs[first + gate]]
            tensor.quantization.scale = [2.0**-8]
            weight = (
                np.full(256, int(first == 1 and gate == swept), np.int8) if first == 1 else np.zeros(1 << 16, np.int8)
            )
            w.buffers[tensor.buffer].data = weight.view(np.uint8)
        bias = np.arange(256) * 256 - (1 << 15) + 128 if gate == swept else np.full(256, (1 << 15) - 1)
        w.buffers[w.tensors[w.operators[-1].inputs[12 + gate]].buffer].data = bias.astype(np.int32).view(np.uint8)
    return w.model(made)


def lost_deviations() -> tuple[bytes, tuple[int, ...]]:
    """An LSTM whose gates are nearly equal in all cells, and far from 0: LiteRT's integers lose what they differ by.

    Variances are below 0 then, and normalized numbers need more than 32 bits.
    """
    w, form, rng = (
        Writer(),
        LstmForm(steps=4, values=1, cells=100, outputs=100, has_norms=True),
        np.random.default_rng(3),
    )
    made = fixed_lstm(w, w.input("x", "s8", form.shape, 0.02, 0), form)
    (operator,) = w.operators
    for gate in range(4):
        weight, recurrent = (w.tensors[operator.inputs[first + gate]] for first in (1, 5))
        w.buffers[weight.buffer].data = rng.integers(122, 124, form.cells).astype(np.uint8)
        w.buffers[recurrent.buffer].data = np.zeros(form.cells * form.outputs, np.uint8)
        weight.quantization.scale = [0.0965]
        w.tensors[operator.intermediates[gate]].quantization.scale = [0.001]
        w.tensors[operator.inputs[20 + gate]].quantization.scale = [3e-6 if gate % 2 else 9e-5]
    return w.model(made), form.shape


def fixed_svdf(w: Writer, data: int, form: SvdfForm, name: str = "memory", seed: int = 0, time: float = 3e-5) -> int:
    """The output of an SVDF of 8-bit values, with a memory of 16 bits; `time` is the scale of its weights of time."""
    rng, filters = np.random.default_rng(seed), form.outputs * form.rank
    feature = w.constant(f"{name}.w", "s8", rng.integers(-127, 128, (filters, form.values)), 0.01)
    weights = rng.integers(-32767, 32768, (filters, form.memory))
    inputs = [data, feature, w.constant(f"{name}.t", "s16", weights, time), -1]
    if form.has_bias:
        inputs[3] = w.constant(f"{name}.b", "s32", rng.integers(-(1 << 20), 1 << 20, form.outputs), 1e-8)
    kept = variable(w, f"{name}.state", "s16", (form.batch, form.memory * filters), 0.0008)
    made = w.tensor(name, "s8", (form.batch, form.outputs), 0.11, -4)
    fields = {"rank": form.rank, "fusedActivationFunction": form.activation}
    w.operator("SVDF", [*inputs, kept], [made], "SVDF", 3, **fields)
    return made


def file_with_fixed_recurrent() -> bytes:
    """An LSTM and an SVDF in integers."""
    w, sequence = Writer(), LstmForm()
    data, row = w.input("x", "s8", sequence.shape, 0.02, -5), w.tensor("row", "s8", (2, 7), 0.02, -5)
    w.operator("MEAN", [data, w.constant("axis", "s32", [1])], [row], "Reducer", 2)
    return w.model(fixed_lstm(w, data, sequence), fixed_svdf(w, row, SvdfForm(values=7)))

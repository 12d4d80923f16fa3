"""LSTM and SVDF on numbers, as ONNX nodes, step by step; what goes on from run to run is made, too.

With 8-bit weights, data and states are quantized at each step. Sources: kernels/lstm_eval.cc, kernels/svdf.cc and
reference/svdf.h of TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Value
from int8tune.compiler.tflite_reader.floats.hybrid import asymmetric, symmetric
from int8tune.compiler.tflite_reader.floats.nodes import Nodes, Reader
from int8tune.compiler.tflite_reader.slots import Lstm, Svdf

Numbers = npt.NDArray[np.float32]

MOST_STEPS, TANH = 512, 4
# What is added to variances of normalized rows.
LEAST_VARIANCE = 1e-8
# Of the gates: input, forget, cell, output.
INPUT, FORGET, CELL, OUTPUT = range(4)


@dataclass(frozen=True, slots=True)
class _Product:
    """Constants that rows are multiplied by: several weights of the file's, beside each other.

    Attributes:
        numbers: [values of a row, outputs]; integers where `scale` is one for each output.
    """

    numbers: str
    scale: str


class _Weights:
    """Reads weights, and writes products with them."""

    def __init__(self, at: Nodes, *, is_asymmetric: bool) -> None:
        self._at, self._is_asymmetric = at, is_asymmetric

    def joined(self, slots: Sequence[int]) -> _Product:
        parts = [self._part(slot) for slot in slots]
        scales = [scale for _, scale in parts if scale is not None]
        self._at.require(len(scales) in (0, len(parts)), "its weights must have one type")
        numbers = self._at.constant(np.concatenate([numbers for numbers, _ in parts], axis=1))
        return _Product(numbers, self._at.constant(np.concatenate(scales)) if scales else "")

    def applied(self, product: _Product, rows: str) -> str:
        """Rows times weights; rows have two axes."""
        at = self._at
        if not product.scale:
            return at.apply("MatMul", rows, product.numbers)
        quantized = (asymmetric if self._is_asymmetric else symmetric)(at, rows)
        sums = at.apply("MatMul", quantized.steps(at), product.numbers)
        return at.apply("Mul", sums, at.apply("Mul", quantized.scale, product.scale))

    def _part(self, slot: int) -> tuple[Numbers, Numbers | None]:
        """Weights [values of a row, outputs], and the scale of each output where they are integers."""
        value = self._at.step.slot(slot)
        self._at.require(value is not None and value.constant is not None, "its weights must be constant")
        assert value is not None
        assert value.constant is not None
        if value.type != "s8" or value.quantization is None:
            self._at.require(value.type == "f32", f"its weights must be f32 or s8: {value.type}")
            return value.constant.T, None
        is_single = not value.quantization.per_channel and not value.quantization.zero_point.any()
        self._at.require(is_single, "its weights must have one scale, and no zero point")
        scale = np.full(len(value.constant), value.quantization.scale[0], np.float32)
        return value.constant.T.astype(np.float32), scale


class _LstmWriter:
    """Writes the steps of an LSTM."""

    def __init__(self, at: Nodes, form: Lstm) -> None:
        self._at, self._form = at, form
        self._weights = _Weights(at, is_asymmetric=form.is_asymmetric)
        self._gates = [gate for gate in range(4) if gate != INPUT or not form.is_coupled]
        self._recurrent = self._weights.joined([form.recurrent_slot(gate) for gate in self._gates])
        if form.projection:
            self._projection = self._weights.joined([form.projection])

    def run(self) -> list[str]:
        """The output of every step, and what the last one leaves."""
        at, form = self._at, self._form
        gates = self._by_step(self._of_data())
        state, cell = (at.input(at.step.inputs.index(value)) for value in form.states(at.step))
        made = []
        for own in gates:
            state, cell = self._step(own, state, cell)
            made.append(state)
        whole = made[0] if len(made) == 1 else at.apply("Concat", *made, axis=0)
        return [self._in_order(whole), state, cell]

    def _of_data(self) -> str:
        """What the gates have of the data and their bias, the rows of each step after those of the step before."""
        at, form = self._at, self._form
        data = at.input(0)
        if not form.is_time_major and form.batch > 1 and form.steps > 1:
            data = at.transposed(at.shaped(data, (form.batch, form.steps, form.values)), (1, 0, 2))
        rows = at.shaped(data, (form.steps * form.batch, form.values))
        product = self._weights.applied(self._weights.joined([form.data_slot(gate) for gate in self._gates]), rows)
        if form.has_norms:  # which have the bias behind them
            return product
        bias = np.concatenate([form.bias(at.step, gate) for gate in self._gates])
        return at.apply("Add", product, at.constant(bias))

    def _by_step(self, rows: str) -> list[str]:
        """The rows of each step."""
        steps = self._form.steps
        if steps == 1:
            return [rows]
        name = self._at.apply("Split", rows, outputs=steps, axis=0, num_outputs=steps)
        return [name, *(f"{name}.{step}" for step in range(1, steps))]

    def _in_order(self, rows: str) -> str:
        """The outputs of all steps as the file has them."""
        at, form = self._at, self._form
        shape = at.outputs[0].shape
        if form.is_time_major or form.batch == 1 or form.steps == 1:
            return at.shaped(rows, shape)
        return at.transposed(at.shaped(rows, (form.steps, form.batch, form.outputs)), (1, 0, 2))

    def _step(self, of_data: str, state: str, cell: str) -> tuple[str, str]:
        """The state and the cell behind a step."""
        at, form = self._at, self._form
        sums = at.apply("Add", of_data, self._weights.applied(self._recurrent, state))
        width = form.cells
        parts = {
            gate: self._slice(sums, index * width, (index + 1) * width, 1) for index, gate in enumerate(self._gates)
        }
        forget = at.apply("Sigmoid", self._gate(parts, FORGET, cell))
        if form.is_coupled:
            share = at.apply("Sub", at.number(1.0), forget)
        else:
            share = at.apply("Sigmoid", self._gate(parts, INPUT, cell))
        new = at.apply("Mul", _activated(at, self._normalized(parts[CELL], CELL), form.activation), share)
        cell = self._clipped(at.apply("Add", at.apply("Mul", forget, cell), new), form.cell_clip)
        output = at.apply("Sigmoid", self._gate(parts, OUTPUT, cell))
        state = at.apply("Mul", output, _activated(at, cell, form.activation))
        if form.projection:
            state = self._weights.applied(self._projection, state)
            if (bias := form.projection_bias(at.step)) is not None:
                state = at.apply("Add", state, at.constant(bias))
            state = self._clipped(state, form.projection_clip)
        return state, cell

    def _gate(self, parts: dict[int, str], gate: int, cell: str) -> str:
        """What a sigmoid is taken of."""
        weight, name = self._form.peephole(self._at.step, gate), parts[gate]
        if weight is not None:
            name = self._at.apply("Add", name, self._at.apply("Mul", cell, self._at.constant(weight)))
        return self._normalized(name, gate)

    def _normalized(self, name: str, gate: int) -> str:
        """Each row with a mean of 0 and a deviation of 1, weighted, and its bias; as it is without normalization."""
        at, weight = self._at, self._form.norm(self._at.step, gate)
        if weight is None:
            return name
        centred = at.apply("Sub", name, at.apply("ReduceMean", name, at.places([1]), keepdims=1))
        variance = at.apply("ReduceMean", at.apply("Mul", centred, centred), at.places([1]), keepdims=1)
        deviation = at.apply("Sqrt", at.apply("Add", variance, at.number(LEAST_VARIANCE)))
        weighted = at.apply("Mul", at.apply("Div", centred, deviation), at.constant(weight))
        return at.apply("Add", weighted, at.constant(self._form.bias(at.step, gate)))

    def _clipped(self, name: str, most: float) -> str:
        return self._at.clipped(name, -most, most) if most > 0 else name

    def _slice(self, name: str, begin: int, end: int, axis: int) -> str:
        return self._at.apply("Slice", name, *(self._at.places([each]) for each in (begin, end, axis)))


def _lstm(at: Nodes) -> Sequence[str]:
    at.require_types("f32")
    form = Lstm.of(at.step)
    at.require(not isinstance(form, str), str(form))
    assert isinstance(form, Lstm)
    at.require(form.steps <= MOST_STEPS, f"it must have at most {MOST_STEPS} steps: {form.steps}")
    return _LstmWriter(at, form).run()


def _svdf(at: Nodes) -> Sequence[str]:
    """A memory of what each filter made of the last inputs, weighted and added."""
    at.require_types("f32")
    form = Svdf.of(at.step)
    at.require(not isinstance(form, str), str(form))
    assert isinstance(form, Svdf)
    weights = _Weights(at, is_asymmetric=form.is_asymmetric)
    made = weights.applied(weights.joined([Svdf.FEATURE]), at.shaped(at.input(0), (form.batch, form.values)))
    newest = at.shaped(made, (form.batch, form.filters, 1))
    memory = newest
    if form.memory > 1:
        kept = at.shaped(at.input(at.step.inputs.index(form.state)), (form.batch, form.filters, form.memory))
        places = (at.places([each]) for each in (1, form.memory, 2))
        memory = at.apply("Concat", at.apply("Slice", kept, *places), newest, axis=2)
    weighted = at.apply("Mul", memory, at.constant(_number(form.time)))
    sums = at.apply("ReduceSum", weighted, at.places([2]), keepdims=0)
    ranks = at.shaped(sums, (form.batch, form.filters // form.rank, form.rank))
    total = at.apply("ReduceSum", ranks, at.places([2]), keepdims=0)
    if form.bias is not None:
        total = at.apply("Add", total, at.constant(_number(form.bias)))
    whole = at.shaped(_activated(at, total, form.activation), at.outputs[0].shape)
    return [whole, at.shaped(memory, form.state.shape)]


def _activated(at: Nodes, name: str, activation: int) -> str:
    return at.apply("Tanh", name) if activation == TANH else at.activated(name, activation)


def _number(value: Value) -> npt.NDArray[Any]:
    assert value.constant is not None
    return value.constant if value.quantization is None else value.quantization.numbers(value.constant)


READERS: dict[str, Reader] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm, "LSTM": _lstm, "SVDF": _svdf}

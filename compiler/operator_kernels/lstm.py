"""LSTM of 8-bit values, written as loops: each step needs the one before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import TYPES, OperatorKernel
from int8tune.compiler.operator_kernels.lstm_normalization import NormalizationWriter
from int8tune.compiler.operators.fixed_gates import HIGH, LOW, sigmoid_table, tanh_table
from int8tune.compiler.operators.lstm import CELL_GATE, GATE_BITS, OUTPUT_GATE, FixedLstm, GateSums, lstm_of
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def lstm(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:  # noqa: ARG001
    """Gates of a row, then its cells and outputs, step by step."""
    form = lstm_of(operator)
    constants = _constants(form)
    ends = [graph.values[name] for name in (*operator.inputs, *operator.outputs)]
    forms = [(math.prod(value.shape), value.shape, TYPES[value.type]) for value in ends]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _LstmWriter(form, forms, constants).write()
    return OperatorKernel(builder.get(), operator.inputs, tuple(constants.values()))


def _constants(form: FixedLstm) -> dict[str, np.ndarray]:
    """What the kernel reads besides the operator's inputs."""
    made: dict[str, np.ndarray] = {
        "data": form.data.weight,
        "data bias": form.data.bias,
        "state": form.state.weight,
        "state bias": form.state.bias,
        "sigmoid": sigmoid_table(GATE_BITS),
        "tanh": tanh_table(GATE_BITS),
        "cell tanh": tanh_table(form.cell_bits),
    }
    if form.peepholes is not None:
        made["peepholes"] = form.peepholes.weight
    if form.norms is not None:
        made |= {"norms": form.norms.weight, "norms bias": form.norms.bias}
    if form.projection is not None:
        made |= {"projection": form.projection.weight, "projection bias": form.projection.bias}
    return made


class _LstmWriter:
    """Emits the kernel `main`."""

    def __init__(self, form: FixedLstm, ends: list[Any], constants: dict[str, np.ndarray]) -> None:
        self._form = form
        T.func_name("main")
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        taken = [T.arg(f"in{index}", T.buffer(shape, kind)) for index, (_, shape, kind) in enumerate(ends[:3])]
        known = [T.arg(f"c{at}", T.buffer(one.shape, str(one.dtype))) for at, one in enumerate(constants.values())]
        made = [T.arg(f"out{index}", T.buffer(shape, kind)) for index, (_, shape, kind) in enumerate(ends[3:])]
        self._data, self._first_state, self._first_cell = taken
        self._known = dict(zip(constants, known, strict=True))
        self._made, self._state, self._cell = made

    def write(self) -> None:
        form, known = self._form, self._known
        self._gates = T.alloc_buffer((len(form.gates), form.cells), "int32")
        self._hidden = T.alloc_buffer((form.cells,), "int8")
        self._total = T.alloc_buffer((1,), "int32", scope="local")
        self._norms = None
        if form.norms is not None:
            self._norms = NormalizationWriter(form.norms, known["norms"], known["norms bias"])
        with T.serial(0, form.batch) as row:
            with T.serial(0, form.outputs) as at:
                T.buffer_store(self._state, self._first_state[row, at], [row, at])
            with T.serial(0, form.cells) as cell:
                T.buffer_store(self._cell, self._first_cell[row, cell], [row, cell])
        with T.serial(0, form.steps) as step, T.serial(0, form.batch) as row:
            self._step(step, row)

    def _step(self, step: Any, row: Any) -> None:
        """A row behind a step; its output gate sees the new cells."""
        form, place = self._form, self._place(step, row)
        for gate in form.gates[:-1]:
            self._gate(gate, row, place)
        with T.serial(0, form.cells) as cell:
            self._update(row, cell)
        self._gate(OUTPUT_GATE, row, place)
        with T.serial(0, form.cells) as cell:
            T.buffer_store(self._hidden, self._output(row, cell), [cell])
        with T.serial(0, form.outputs) as at:
            made = self._hidden[at] if form.projection is None else self._projected(at)
            T.buffer_store(self._state, made, [row, at])
            T.buffer_store(self._made, self._state[row, at], [*place, at])

    def _place(self, step: Any, row: Any) -> tuple[Any, ...]:
        """The axes of data and outputs before the last one."""
        if len(self._data.shape) == 2:
            return (row,)
        return (step, row) if self._form.is_time_major else (row, step)

    def _gate(self, gate: int, row: Any, place: tuple[Any, ...]) -> None:
        """A gate of all cells, as Q0."""
        form, index = self._form, self._form.gates.index(gate)
        table = self._known["tanh" if gate == CELL_GATE else "sigmoid"]
        with T.serial(0, form.cells) as cell:
            sums = self._sum("data", form.data, index, cell, lambda at: self._data[(*place, at)])
            T.buffer_store(self._gates, _within(sums), [index, cell])
            sums = self._sum("state", form.state, index, cell, lambda at: self._state[row, at])
            T.buffer_store(self._gates, _within(sums + self._gates[index, cell]), [index, cell])
            if form.peepholes is not None and gate in form.peepholes.gates:
                self._look(gate, row, cell)
        if self._norms is not None:
            self._norms.write(self._gates, index)
        with T.serial(0, form.cells) as cell:
            entry = self._gates[index, cell] - LOW
            T.buffer_store(self._gates, table[entry].astype("int32"), [index, cell])

    def _sum(self, name: str, sums: GateSums, index: int, cell: Any, value: Any) -> Any:
        """What a gate has of a row, in the steps of its sums."""
        weight, total = self._known[name], self._total
        T.buffer_store(total, self._known[f"{name} bias"][index, cell], [0])
        with T.serial(0, sums.weight.shape[2]) as at:
            product = value(at).astype("int32") * weight[index, cell, at].astype("int32")
            T.buffer_store(total, total[0] + product, [0])
        return _scaled(total[0], sums.scales[index])

    def _look(self, gate: int, row: Any, cell: Any) -> None:
        """Add what a gate has of its cell."""
        peepholes, index = self._form.peepholes, self._form.gates.index(gate)
        assert peepholes is not None
        place = peepholes.gates.index(gate)
        weight = self._known["peepholes"][place, row if peepholes.weight.shape[1] > 1 else 0, cell]
        product = weight.astype("int32") * self._cell[row, cell].astype("int32")
        sums = _scaled(product, peepholes.scales[place]) + self._gates[index, cell]
        T.buffer_store(self._gates, _within(sums), [index, cell])

    def _update(self, row: Any, cell: Any) -> None:
        """The cell behind a step."""
        form = self._form
        *share, forget, new = (self._gates[index, cell] for index in range(len(form.gates) - 1))
        let_in = share[0] if share else HIGH - forget
        kept = _divided(forget * self._cell[row, cell].astype("int32"), 15)
        most = form.cell_clip or HIGH
        total = _within(kept + _divided(let_in * new, form.share_shift))
        total = tirx.min(tirx.max(total, -most if form.cell_clip else LOW), most)
        T.buffer_store(self._cell, total.astype("int16"), [row, cell])

    def _output(self, row: Any, cell: Any) -> Any:
        """What the output gate lets out of a cell."""
        form = self._form
        entry = self._cell[row, cell].astype("int32") - LOW
        product = self._gates[len(form.gates) - 1, cell] * self._known["cell tanh"][entry].astype("int32")
        return _stored(_scaled(product, form.scale) + form.zero_point)

    def _projected(self, at: Any) -> Any:
        """An output of all values that gates let out."""
        projection, total = self._form.projection, self._total
        assert projection is not None
        T.buffer_store(total, self._known["projection bias"][at], [0])
        with T.serial(0, self._form.cells) as cell:
            product = self._hidden[cell].astype("int32") * self._known["projection"][at, cell].astype("int32")
            T.buffer_store(total, total[0] + product, [0])
        made = _stored(_scaled(total[0], projection.scale) + projection.zero_point)
        if not projection.clip:
            return made
        return tirx.min(tirx.max(made, tirx.const(-projection.clip, "int8")), tirx.const(projection.clip, "int8"))


def _scaled(value: Any, scale: tuple[int, int]) -> Any:
    multiplier, shift = (tirx.const(each) for each in scale)
    return scale_fixed_point(value, multiplier, shift)


def _stored(value: Any) -> Any:
    """An int32 within 8 bits."""
    low, high = RANGES["s8"]
    return tirx.min(tirx.max(value, low), high).astype("int8")


def _within(value: Any) -> Any:
    """An int32 within 16 bits."""
    return tirx.min(tirx.max(value, LOW), HIGH)


def _divided(value: Any, bits: int) -> Any:
    """Divided by a power of two, halves away from zero."""
    mask = (1 << bits) - 1
    is_more = tirx.bitwise_and(value, tirx.const(mask)) > (mask >> 1) + tirx.Cast("int32", value < 0)
    return (value >> bits) + tirx.Cast("int32", is_more)

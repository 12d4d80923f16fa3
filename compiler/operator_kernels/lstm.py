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
from int8tune.compiler.operators.fixed_gates import HIGH, LOW, sigmoid_table, tanh_table
from int8tune.compiler.operators.lstm import CELL_GATE, GATE_BITS, GATES, FixedLstm, GateSums, lstm_of
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def lstm(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:  # noqa: ARG001
    """Sums of all gates of a row, then its cells and outputs, step by step."""
    form = lstm_of(operator)
    constants = (
        *(array for sums in (form.data, form.state) for array in (sums.weight, sums.bias)),
        *(sigmoid_table(GATE_BITS), tanh_table(GATE_BITS), tanh_table(form.cell_bits)),
    )
    ends = [graph.values[name] for name in (*operator.inputs, *operator.outputs)]
    forms = [(math.prod(value.shape), value.shape, TYPES[value.type]) for value in ends]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _LstmWriter(form, forms, constants).write()
    return OperatorKernel(builder.get(), operator.inputs, constants)


class _LstmWriter:
    """Emits the kernel `main`."""

    def __init__(self, form: FixedLstm, ends: list[Any], constants: tuple[np.ndarray, ...]) -> None:
        self._form = form
        T.func_name("main")
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        taken = [T.arg(f"in{index}", T.buffer(shape, kind)) for index, (_, shape, kind) in enumerate(ends[:3])]
        known = [T.arg(f"c{at}", T.buffer(each.shape, str(each.dtype))) for at, each in enumerate(constants)]
        made = [T.arg(f"out{index}", T.buffer(shape, kind)) for index, (_, shape, kind) in enumerate(ends[3:])]
        self._data, self._first_state, self._first_cell = taken
        self._weights, self._biases, self._tables = known[0:4:2], known[1:4:2], known[4:]
        self._made, self._state, self._cell = made

    def write(self) -> None:
        form = self._form
        self._gates = T.alloc_buffer((GATES, form.cells), "int32")
        self._total = T.alloc_buffer((1,), "int32", scope="local")
        with T.serial(0, form.batch) as row, T.serial(0, form.cells) as cell:
            T.buffer_store(self._state, self._first_state[row, cell], [row, cell])
            T.buffer_store(self._cell, self._first_cell[row, cell], [row, cell])
        with T.serial(0, form.steps) as step, T.serial(0, form.batch) as row:
            self._step(step, row)

    def _step(self, step: Any, row: Any) -> None:
        cells, place = self._form.cells, self._place(step, row)
        for gate in range(GATES):
            with T.serial(0, cells) as cell:
                sums = self._sum(self._form.data, 0, gate, cell, lambda at: self._data[(*place, at)])
                T.buffer_store(self._gates, _within(sums), [gate, cell])
                sums = self._sum(self._form.state, 1, gate, cell, lambda at: self._state[row, at])
                table = self._tables[1 if gate == CELL_GATE else 0]
                entry = _within(sums + self._gates[gate, cell]) - LOW
                T.buffer_store(self._gates, table[entry].astype("int32"), [gate, cell])
        with T.serial(0, cells) as cell:
            self._update(row, cell, place)

    def _place(self, step: Any, row: Any) -> tuple[Any, ...]:
        """The axes of data and outputs before the last one."""
        if len(self._data.shape) == 2:
            return (row,)
        return (step, row) if self._form.is_time_major else (row, step)

    def _sum(self, sums: GateSums, index: int, gate: int, cell: Any, value: Any) -> Any:
        """What a gate has of a row, as Q3."""
        weight, total = self._weights[index], self._total
        T.buffer_store(total, self._biases[index][gate, cell], [0])
        with T.serial(0, sums.weight.shape[2]) as at:
            product = value(at).astype("int32") * weight[gate, cell, at].astype("int32")
            T.buffer_store(total, total[0] + product, [0])
        multiplier, shift = (tirx.const(each) for each in sums.scales[gate])
        return scale_fixed_point(total[0], multiplier, shift)

    def _update(self, row: Any, cell: Any, place: tuple[Any, ...]) -> None:
        """The cell behind a step, and the output."""
        form = self._form
        share, forget, new, output = (self._gates[gate, cell] for gate in range(GATES))
        kept = _divided(forget * self._cell[row, cell].astype("int32"), 15)
        most = form.cell_clip or HIGH
        total = _within(kept + _divided(share * new, form.share_shift))
        total = tirx.min(tirx.max(total, -most if form.cell_clip else LOW), most)
        T.buffer_store(self._cell, total.astype("int16"), [row, cell])
        entry = self._cell[row, cell].astype("int32") - LOW
        product = output * self._tables[2][entry].astype("int32")
        multiplier, shift = (tirx.const(each) for each in form.scale)
        low, high = RANGES["s8"]
        made = tirx.min(tirx.max(scale_fixed_point(product, multiplier, shift) + form.zero_point, low), high)
        T.buffer_store(self._state, made.astype("int8"), [row, cell])
        T.buffer_store(self._made, self._state[row, cell], [*place, cell])


def _within(value: Any) -> Any:
    """An int32 within 16 bits."""
    return tirx.min(tirx.max(value, LOW), HIGH)


def _divided(value: Any, bits: int) -> Any:
    """Divided by a power of two, halves away from zero."""
    mask = (1 << bits) - 1
    is_more = tirx.bitwise_and(value, tirx.const(mask)) > (mask >> 1) + tirx.Cast("int32", value < 0)
    return (value >> bits) + tirx.Cast("int32", is_more)

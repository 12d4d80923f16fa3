"""LSTM of 8-bit values in integers, with cells of 16 bits, as TFLite's reference kernel computes it (8x8_16).

Gates are numbers of 16 bits as Q3 (`compiler.operators.fixed_gates`), their products are rounded to the steps of cells,
which are a power of two. Source: kernels/lstm_eval.cc and reference/portable_tensor_utils.cc of TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array, LongArray
from int8tune.compiler.operators.fixed_gates import HIGH, LOW, MOST_SUM, divided, rescaled, sigmoid_table, tanh_table
from int8tune.schedules.numerics import RANGES

# Of the gates: input, forget, cell, output; the cell gate is a tanh, the others are sigmoids.
GATES, CELL_GATE, GATE_BITS = 4, 2, 3
MOST_BITS = 6


@dataclass(frozen=True, slots=True, eq=False)
class GateSums:
    """What all gates have of the data, or of the state.

    Attributes:
        weight: int8 [4, cells, values of a row].
        bias: int32 [4, cells], without what the zero point of the rows takes.
        scales: the multiplier and shift of each gate.
    """

    weight: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int32]
    scales: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class FixedLstm:
    """What an integer LSTM knows before it runs.

    Attributes:
        cell_bits: before the binary point of a cell.
        cell_clip: the bound of a cell in both directions; 0 for none.
        scale: the multiplier and shift of an output, which is a product as Q0.
        zero_point: of outputs.
    """

    steps: int
    batch: int
    is_time_major: bool
    data: GateSums
    state: GateSums
    cell_bits: int
    cell_clip: int
    scale: tuple[int, int]
    zero_point: int

    @property
    def cells(self) -> int:
        return int(self.data.weight.shape[1])

    @property
    def share_shift(self) -> int:
        """The bits that a product of two gates has more than a cell."""
        return 15 + self.cell_bits


def lstm_of(operator: Operator) -> FixedLstm:
    found = operator.attributes["lstm"]
    assert isinstance(found, FixedLstm)
    return found


def fault(operator: Operator, inputs: Sequence[Value], outputs: Sequence[Value]) -> str | None:
    form, (data, state, cell), (made, next_state, next_cell) = lstm_of(operator), inputs, outputs
    types = tuple(value.type for value in (*inputs, *outputs))
    if types != ("s8", "s8", "s16", "s8", "s8", "s16"):
        return f"its data, state and cell must be s8, s8 and s16: {', '.join(types)}"
    ends = (form.steps, form.batch) if form.is_time_major else (form.batch, form.steps)
    rows = form.batch, form.cells
    shapes = {state.shape, cell.shape, next_state.shape, next_cell.shape, (*made.shape[-1:], form.batch)[::-1]}
    if shapes != {rows} or made.shape[:-1] not in (ends, (form.batch,)) or data.shape[:-1] != made.shape[:-1]:
        return f"its states must have shape {rows}: {state.shape}, {cell.shape}"
    if not 0 <= form.cell_bits <= MOST_BITS:
        return f"its cells must have 0 to {MOST_BITS} bits before their point: {form.cell_bits}"
    for sums in (form.data, form.state):
        most = np.abs(sums.weight.astype(np.int64)).sum(axis=2) * 128 + np.abs(sums.bias.astype(np.int64))
        if most.max() > MOST_SUM:
            return f"its sums must be below 2^31: {most.max()}"
    return None


def reference(
    operator: Operator,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    arrays: Sequence[Array],
) -> tuple[Array, ...]:
    form, (data, state, cell) = lstm_of(operator), arrays
    rows = data.reshape(*((form.steps, form.batch) if form.is_time_major else (form.batch, form.steps)), -1)
    state, cell = state.astype(np.int64), cell.astype(np.int64)
    made = np.zeros((*rows.shape[:2], form.cells), np.int8)
    for step in range(form.steps):
        at = (step, slice(None)) if form.is_time_major else (slice(None), step)
        state, cell = _step(form, rows[at].astype(np.int64), state, cell)
        made[at] = state
    assert len(inputs) == len(outputs)
    return made.reshape(outputs[0].shape), state.astype(np.int8), cell.astype(np.int16)


def _step(form: FixedLstm, rows: LongArray, state: LongArray, cell: LongArray) -> tuple[LongArray, LongArray]:
    """The state and the cell behind a step."""
    gates = []
    for gate in range(GATES):
        sums = np.clip(_scaled(form.data, gate, rows), LOW, HIGH)
        sums = np.clip(_scaled(form.state, gate, state) + sums, LOW, HIGH)
        table = tanh_table(GATE_BITS) if gate == CELL_GATE else sigmoid_table(GATE_BITS)
        gates.append(table[sums - LOW].astype(np.int64))
    share, forget, new, output = gates
    cell = np.clip(divided(forget * cell, 15) + divided(share * new, form.share_shift), LOW, HIGH)
    if form.cell_clip:
        cell = np.clip(cell, -form.cell_clip, form.cell_clip)
    product = output * tanh_table(form.cell_bits)[cell - LOW].astype(np.int64)
    state = np.clip(rescaled(product, form.scale) + form.zero_point, *RANGES["s8"])
    return state, cell


def _scaled(sums: GateSums, gate: int, rows: LongArray) -> LongArray:
    """What a gate has of rows, as Q3."""
    totals = rows @ sums.weight[gate].astype(np.int64).T + sums.bias[gate]
    return rescaled(totals, sums.scales[gate])

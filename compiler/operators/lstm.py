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
from int8tune.compiler.operators.fixed_normalization import Normalizations, normalized
from int8tune.schedules.numerics import RANGES

# Of the gates: input, forget, cell, output; the cell gate is a tanh, the others are sigmoids.
GATES, CELL_GATE, OUTPUT_GATE, GATE_BITS = 4, 2, 3, 3
MOST_BITS = 6


@dataclass(frozen=True, slots=True, eq=False)
class GateSums:
    """What gates have of the data, or of the state.

    Attributes:
        weight: int8 [gates, cells, values of a row]; without the input gate where that is 1 - forget gate.
        bias: int32 [gates, cells], without what the zero point of the rows takes.
        scales: the multiplier and shift of each gate.
    """

    weight: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int32]
    scales: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Peepholes:
    """What gates have of the cells, each of its own.

    Attributes:
        gates: those that have them.
        weight: int16 [gates, rows, cells]; one row for all of a batch, or one for each.
        scales: the multiplier and shift of each gate.
    """

    gates: tuple[int, ...]
    weight: npt.NDArray[np.int16]
    scales: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """What makes outputs of as many values as cells.

    Attributes:
        weight: int8 [outputs, cells].
        bias: int32 [outputs], without what the zero point of the values takes.
        scale: a multiplier and a shift.
        zero_point: of outputs.
        clip: the bound of a stored output in both directions; 0 for none.
    """

    weight: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int32]
    scale: tuple[int, int]
    zero_point: int
    clip: int


@dataclass(frozen=True, slots=True, eq=False)
class FixedLstm:
    """What an integer LSTM knows before it runs.

    Attributes:
        cell_bits: before the binary point of a cell.
        cell_clip: the bound of a cell in both directions; 0 for none.
        scale: the multiplier and shift of an output, which is a product as Q0; or of what is projected.
        zero_point: what is added to it.
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
    peepholes: Peepholes | None = None
    norms: Normalizations | None = None
    projection: Projection | None = None

    @property
    def cells(self) -> int:
        return int(self.data.weight.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.state.weight.shape[2])

    @property
    def gates(self) -> tuple[int, ...]:
        """Those that are computed, in the order of weights."""
        return tuple(range(GATES - len(self.data.weight), GATES))

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
    cells, states = (form.batch, form.cells), (form.batch, form.outputs)
    if (state.shape, next_state.shape, cell.shape, next_cell.shape) != (states, states, cells, cells):
        return f"its states must have shapes {states} and {cells}: {state.shape}, {cell.shape}"
    if made.shape not in ((*ends, form.outputs), states) or data.shape[:-1] != made.shape[:-1]:
        return f"its output must have shape {(*ends, form.outputs)}: {made.shape}"
    if not 0 <= form.cell_bits <= MOST_BITS:
        return f"its cells must have 0 to {MOST_BITS} bits before their point: {form.cell_bits}"
    for sums in (form.data, form.state, form.projection):
        if sums is None:
            continue
        most = np.abs(sums.weight.astype(np.int64)).sum(axis=-1) * 128 + np.abs(sums.bias.astype(np.int64))
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
    made = np.zeros((*rows.shape[:2], form.outputs), np.int8)
    for step in range(form.steps):
        at = (step, slice(None)) if form.is_time_major else (slice(None), step)
        state, cell = _step(form, rows[at].astype(np.int64), state, cell)
        made[at] = state
    assert len(inputs) == len(outputs)
    return made.reshape(outputs[0].shape), state.astype(np.int8), cell.astype(np.int16)


def _step(form: FixedLstm, rows: LongArray, state: LongArray, cell: LongArray) -> tuple[LongArray, LongArray]:
    """The state and the cell behind a step."""
    parts = {gate: _gate(form, gate, rows, state, cell) for gate in form.gates[:-1]}
    share, forget, new = parts.get(0), parts[1], parts[CELL_GATE]
    share = HIGH - forget if share is None else share
    cell = np.clip(divided(forget * cell, 15) + divided(share * new, form.share_shift), LOW, HIGH)
    if form.cell_clip:
        cell = np.clip(cell, -form.cell_clip, form.cell_clip)
    product = _gate(form, OUTPUT_GATE, rows, state, cell) * tanh_table(form.cell_bits)[cell - LOW].astype(np.int64)
    hidden = np.clip(rescaled(product, form.scale) + form.zero_point, *RANGES["s8"])
    return (hidden if form.projection is None else _projected(form.projection, hidden)), cell


def _gate(form: FixedLstm, gate: int, rows: LongArray, state: LongArray, cell: LongArray) -> LongArray:
    """A gate, as Q0."""
    index = form.gates.index(gate)
    sums = np.clip(_scaled(form.data, index, rows), LOW, HIGH)
    sums = np.clip(_scaled(form.state, index, state) + sums, LOW, HIGH)
    if form.peepholes is not None and gate in form.peepholes.gates:
        place = form.peepholes.gates.index(gate)
        product = form.peepholes.weight[place].astype(np.int64) * cell
        sums = np.clip(rescaled(product, form.peepholes.scales[place]) + sums, LOW, HIGH)
    if form.norms is not None:
        sums = normalized(form.norms, index, sums)
    table = tanh_table(GATE_BITS) if gate == CELL_GATE else sigmoid_table(GATE_BITS)
    return table[sums - LOW].astype(np.int64)


def _projected(projection: Projection, hidden: LongArray) -> LongArray:
    totals = hidden @ projection.weight.astype(np.int64).T + projection.bias
    made = np.clip(rescaled(totals, projection.scale) + projection.zero_point, *RANGES["s8"])
    return np.clip(made, -projection.clip, projection.clip) if projection.clip else made


def _scaled(sums: GateSums, index: int, rows: LongArray) -> LongArray:
    """What a gate has of rows, in the steps of its sums."""
    totals = rows @ sums.weight[index].astype(np.int64).T + sums.bias[index]
    return rescaled(totals, sums.scales[index])

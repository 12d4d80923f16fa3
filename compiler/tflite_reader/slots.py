"""What the inputs of LSTM and SVDF are: each has its place in the schema, and some may be left out.

Sources: kernels/lstm_shared.h, unidirectional_sequence_lstm.cc, lstm.cc and svdf.cc of TensorFlow Lite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Value
from int8tune.compiler.tflite_reader.steps import Reason, Step

# Of the first gate of four: input, forget, cell, output.
DATA, RECURRENT, PEEPHOLE, BIAS = 1, 5, 9, 12
# Peepholes leave the cell gate out.
PEEPHOLES = {0: PEEPHOLE, 1: PEEPHOLE + 1, 3: PEEPHOLE + 2}
PROJECTION, PROJECTION_BIAS, STATE, CELL_STATE, NORMS = 16, 17, 18, 19, (20, 21, 22, 23)
LSTM_SLOTS = (20, 24)
FULL_KERNEL = 0


@dataclass(frozen=True, slots=True)
class Lstm:
    """An LSTM whose inputs fit each other.

    Attributes:
        values: of a row of data.
        outputs: of a row of the state; as many as cells without a projection.
        is_coupled: without an input gate, which is 1 - forget gate.
        projection: the place of its weights; 0 for none.
        activation: of the cell gate, and of the cell.
        cell_clip, projection_clip: bounds in both directions; 0 for none.
    """

    steps: int
    batch: int
    values: int
    cells: int
    outputs: int
    is_time_major: bool
    is_coupled: bool
    has_peepholes: bool
    has_norms: bool
    projection: int
    activation: int
    cell_clip: float
    projection_clip: float
    is_asymmetric: bool

    @classmethod
    def of(cls, step: Step) -> Lstm | Reason:
        """The form of an operator, or why it has none that is supported."""
        is_sequence, shape = step.plain.operator != "LSTM", step.inputs[0].shape
        options = step.options("UnidirectionalSequenceLSTMOptions" if is_sequence else "LSTMOptions")
        if len(step.slots) not in LSTM_SLOTS or len(shape) != (3 if is_sequence else 2):
            return (
                f"it must have 20 or 24 inputs, and data of {3 if is_sequence else 2} axes: {len(step.slots)}, {shape}"
            )
        if not is_sequence and options.KernelType() != FULL_KERNEL:
            return "its kernel must be the full one"
        forget, recurrent = step.slot(DATA + 1), step.slot(RECURRENT + 1)
        if forget is None or recurrent is None or not len(forget.shape) == len(recurrent.shape) == 2:
            return "its weights must be matrices; diagonal ones are not supported"
        is_time_major = is_sequence and bool(options.TimeMajor())
        steps, batch = (shape[:2] if is_time_major else shape[1::-1]) if is_sequence else (1, shape[0])
        form = cls(
            steps=steps,
            batch=batch,
            values=shape[-1],
            cells=forget.shape[0],
            outputs=recurrent.shape[1],
            is_time_major=is_time_major,
            is_coupled=step.slot(DATA) is None,
            has_peepholes=step.slot(PEEPHOLES[3]) is not None,
            has_norms=step.slot(NORMS[3]) is not None,
            projection=PROJECTION if step.slot(PROJECTION) is not None else 0,
            activation=int(options.FusedActivationFunction()),
            cell_clip=float(options.CellClip()),
            projection_clip=float(options.ProjClip()),
            is_asymmetric=bool(options.AsymmetricQuantizeInputs()),
        )
        return form._fault(step) or form

    def _fault(self, step: Step) -> Reason | None:
        """Why inputs are there that should not be, or the other way round, or don't fit."""
        expected = self._shapes()
        for slot in range(len(step.slots)):
            value, shape = step.slot(slot), expected.get(slot)
            if slot == 0 or (slot == PROJECTION_BIAS and value is None):
                continue
            found = None if value is None else value.shape
            if found != shape:
                return f"its input {slot} must be {shape or 'left out'}: {found or 'left out'}"
            if value is not None and (value.constant is None) != (slot in (STATE, CELL_STATE)):
                return f"its input {slot} must be {'a variable' if slot in (STATE, CELL_STATE) else 'constant'}"
        if self.activation == 0:  # LiteRT takes what happens to be in memory then
            return "fused activation 0 is not supported"
        clips = self.cell_clip, self.projection_clip
        if not all(math.isfinite(clip) and clip >= 0 for clip in clips):
            return f"its bounds must be finite, and not below 0: {clips}"
        if not self.projection and self.outputs != self.cells:
            return f"without a projection it must have as many outputs as cells: {self.outputs}, {self.cells}"
        ends = (self.steps, self.batch) if self.is_time_major else (self.batch, self.steps)
        made = (*(ends if step.plain.operator != "LSTM" else (self.batch,)), self.outputs)
        return None if step.output.shape == made else f"its output must be {made}: {step.output.shape}"

    def _shapes(self) -> dict[int, tuple[int, ...]]:
        """The shapes of inputs that must be there, and of a projection's bias, which may be left out."""
        gates = range(1 if self.is_coupled else 0, 4)
        shapes: dict[int, tuple[int, ...]] = {DATA + gate: (self.cells, self.values) for gate in gates}
        shapes |= {RECURRENT + gate: (self.cells, self.outputs) for gate in gates}
        shapes |= {BIAS + gate: (self.cells,) for gate in gates}
        if self.has_peepholes:
            shapes |= {slot: (self.cells,) for gate, slot in PEEPHOLES.items() if gate in gates}
        if self.has_norms:
            shapes |= {NORMS[gate]: (self.cells,) for gate in gates}
        if self.projection:
            shapes |= {PROJECTION: (self.outputs, self.cells), PROJECTION_BIAS: (self.outputs,)}
        return shapes | {STATE: (self.batch, self.outputs), CELL_STATE: (self.batch, self.cells)}

    def data_slot(self, gate: int) -> int:
        return DATA + gate

    def recurrent_slot(self, gate: int) -> int:
        return RECURRENT + gate

    def states(self, step: Step) -> tuple[Value, Value]:
        """The state and the cell as the run before left them."""
        state, cell = step.slot(STATE), step.slot(CELL_STATE)
        assert state is not None
        assert cell is not None
        return state, cell

    def bias(self, step: Step, gate: int) -> npt.NDArray[np.float32]:
        found = _numbers(step.slot(BIAS + gate))
        assert found is not None
        return found

    def projection_bias(self, step: Step) -> npt.NDArray[np.float32] | None:
        return _numbers(step.slot(PROJECTION_BIAS))

    def peephole(self, step: Step, gate: int) -> npt.NDArray[np.float32] | None:
        return _numbers(step.slot(PEEPHOLES[gate]))

    def norm(self, step: Step, gate: int) -> npt.NDArray[np.float32] | None:
        return _numbers(step.slot(NORMS[gate])) if self.has_norms else None


@dataclass(frozen=True, slots=True, eq=False)
class Svdf:
    """An SVDF whose inputs fit each other.

    Attributes:
        filters: as many as outputs, times `rank`.
        memory: how many inputs a filter looks at, the last one among them.
        time: the weights of these, [filters, memory].
    """

    batch: int
    values: int
    filters: int
    rank: int
    memory: int
    time: Value
    bias: Value | None
    state: Value
    activation: int
    is_asymmetric: bool

    FEATURE = 1  # the place of the weights of data

    @classmethod
    def of(cls, step: Step) -> Svdf | Reason:
        """The form of an operator, or why it has none that is supported."""
        options, rank, shape = step.options("SVDFOptions"), 0, step.inputs[0].shape
        feature, time, bias, state = (step.slot(slot) for slot in (1, 2, 3, 4))
        rank = options.Rank()
        if len(step.slots) != 5 or feature is None or time is None or state is None or len(shape) != 2:
            return f"it must have 5 inputs, and data of 2 axes: {len(step.slots)}, {shape}"
        if len(feature.shape) != 2 or len(time.shape) != 2 or rank < 1 or feature.shape[0] % rank:
            return f"its weights must be matrices of whole ranks of {rank}: {feature.shape}, {time.shape}"
        (batch, values), filters, memory = shape, feature.shape[0], time.shape[1]
        shapes: dict[str, tuple[int, ...]] = {
            "weights": feature.shape,
            "weights of time": time.shape,
            "variable": state.shape,
        }
        expected: dict[str, tuple[int, ...]] = {"weights": (filters, values), "weights of time": (filters, memory)}
        expected |= {"variable": (batch, memory * filters), "output": (batch, filters // rank)}
        shapes["output"] = step.output.shape
        if bias is not None:
            shapes |= {"bias": bias.shape}
            expected |= {"bias": (filters // rank,)}
        wrong = [name for name in shapes if shapes[name] != expected[name]]
        if wrong:
            return f"its {wrong[0]} must have shape {expected[wrong[0]]}: {shapes[wrong[0]]}"
        if any(value is not None and value.constant is None for value in (feature, time, bias)):
            return "its weights must be constant"
        activation = int(options.FusedActivationFunction())
        how = bool(options.AsymmetricQuantizeInputs())
        return cls(batch, values, filters, rank, memory, time, bias, state, activation, how)


def _numbers(value: Value | None) -> npt.NDArray[np.float32] | None:
    """What a constant stands for."""
    if value is None or value.constant is None:
        return None
    if value.quantization is None:
        return value.constant.astype(np.float32)
    return value.quantization.numbers(value.constant)

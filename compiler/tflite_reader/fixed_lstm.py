"""LSTM of 8-bit values and weights, with cells of 16 bits: what its integer kernel knows before it runs.

Sources: PopulateQuantizedLstmParams8x8_16 in kernels/lstm.cc and unidirectional_sequence_lstm.cc of TensorFlow Lite,
which compute scales in binary32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Quantization, Value
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.fixed_normalization import Normalizations
from int8tune.compiler.operators.lstm import GATES, FixedLstm, GateSums, Peepholes, Projection
from int8tune.compiler.tflite_reader.slots import (
    BIAS,
    DATA,
    NORMS,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RECURRENT,
    Lstm,
)
from int8tune.compiler.tflite_reader.steps import Step
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import MAX_SHIFT, quantize_multiplier

TANH = 4
# Values inside of the operator that it says: the sums of four gates, which only normalization needs, and the output.
INTERMEDIATES, HIDDEN = 5, 4
# A step of the sums of gates without normalization: they are Q3.
GATE_STEP = np.float32(2.0**-12)
# How far the scale of cells may be from a power of two, in powers of two.
SCALE_TOLERANCE = 1e-3
MOST_CELL_CLIP, MOST_CLIP = (1 << 15) - 1, 127
# Bits that normalized numbers have behind their point, and what a variance of 0 is in steps of a gate's weights.
NORMALIZED_BITS, GUARD = 12, np.float32(10000)


def fixed_lstm(step: Step, inside: Sequence[Quantization | None], values: Mapping[str, Value]) -> Operator:
    """The operator with its kind, or one of kind OTHER with the reason why it has none.

    Args:
        inside: the scales of the operator's values that the file calls intermediates.
    """
    form = Lstm.of(step)
    try:
        found = form if isinstance(form, str) else _Reader(step, form, inside).read()
    except (OperandError, _UnsupportedError) as error:
        found = str(error)
    if isinstance(found, str):
        return other(step.plain, found)
    assert isinstance(form, Lstm)
    inputs = (step.inputs[0].name, *(value.name for value in form.states(step)))
    return checked(replace(step.plain, kind=Kind.LSTM, inputs=inputs, attributes={"lstm": found}), values)


class _UnsupportedError(Exception):
    """Why an LSTM has no integer kernel, in one line."""


class _Reader:
    """Makes what an integer LSTM knows of an operator's inputs."""

    def __init__(self, step: Step, form: Lstm, inside: Sequence[Quantization | None]) -> None:
        self._step, self._form = step, form
        self._gates = tuple(range(1 if form.is_coupled else 0, GATES))
        if form.activation != TANH or len(inside) != INTERMEDIATES:
            raise _UnsupportedError(
                f"it must have tanh and {INTERMEDIATES} intermediates: activation {form.activation}, {len(inside)}"
            )
        self._state, self._cell = form.states(step)
        self._hidden = self._checked(inside)
        # The scales of the sums of gates.
        self._steps = [GATE_STEP] * GATES
        if form.has_norms:
            self._steps = [np.float32(_single(each).scale[0]) for each in inside[:GATES]]

    def read(self) -> FixedLstm:
        form, cell = self._form, self._cell
        clip = min(np.float32(form.cell_clip) / scale_of(cell), np.float32(MOST_CELL_CLIP))
        # The bytes of an output are those of the state, whatever the file says that they stand for.
        hidden = np.float32(2.0**-15 / float(self._hidden.scale[0]) * 2.0**-15)
        zero_point = int(self._hidden.zero_point[0])
        return FixedLstm(
            steps=form.steps,
            batch=form.batch,
            is_time_major=form.is_time_major,
            data=self._sums(DATA, self._step.inputs[0]),
            state=self._sums(RECURRENT, self._state),
            cell_bits=15 + round(math.log2(float(scale_of(cell)))),
            cell_clip=int(clip),
            scale=quantize_multiplier(float(hidden)),
            zero_point=-zero_point if form.projection else zero_point,
            peepholes=self._peepholes() if form.has_peepholes else None,
            norms=self._norms() if form.has_norms else None,
            projection=self._projection() if form.projection else None,
        )

    def _checked(self, inside: Sequence[Quantization | None]) -> Quantization:
        """The scale of what is projected, or of outputs, if the values have the types that a kernel needs."""
        hidden, cell = _single(inside[HIDDEN]), self._cell
        for value in (self._step.inputs[0], self._state, cell, self._step.output):
            _single(value.quantization)
        power = math.log2(float(scale_of(cell)))
        if cell.type != "s16" or zero_point_of(cell) or abs(power - round(power)) > SCALE_TOLERANCE:
            raise _UnsupportedError(
                f"its cells must be s16, their scale a power of two: {cell.type}, {scale_of(cell):.6g}"
            )
        return hidden

    def _sums(self, first: int, rows: Value) -> GateSums:
        """What gates have of rows by matrices of weights, and by biases for those of data."""
        weights, biases, scales = [], [], []
        for gate in self._gates:
            value = self._weight(first + gate, "s8", "weights")
            # Normalization has the bias behind it.
            bias = self._bias(BIAS + gate) if first == DATA and not self._form.has_norms else 0
            weights.append(_constant(value))
            biases.append(_effective(value, -zero_point_of(rows), bias))
            scales.append(_multiplier(scale_of(value) * scale_of(rows) / self._steps[gate]))
        return GateSums(np.stack(weights), np.stack(biases), tuple(scales))

    def _peepholes(self) -> Peepholes:
        """Weights of cells, which LiteRT counts as if there were as many as outputs, from row to row of a batch."""
        form, found = self._form, {gate: slot for gate, slot in PEEPHOLES.items() if gate in self._gates}
        if form.outputs > form.cells:
            raise _UnsupportedError(f"with peepholes it must have at least as many cells: {form.cells}, {form.outputs}")
        rows = form.batch if form.is_time_major or self._step.plain.operator == "LSTM" else 1
        values = [self._weight(slot, "s16", "peepholes") for slot in found.values()]
        places = np.arange(rows * form.cells)
        weights = [_constant(value)[places % form.outputs] * (places < rows * form.outputs) for value in values]
        cell = 2.0 ** round(math.log2(float(scale_of(self._cell))))
        scales = [
            _multiplier(np.float32(cell * float(scale_of(value)) / float(self._steps[gate])))
            for gate, value in zip(found, values, strict=True)
        ]
        stacked = np.stack(weights).astype(np.int16).reshape(len(weights), rows, form.cells)
        return Peepholes(tuple(found), stacked, tuple(scales))

    def _norms(self) -> Normalizations:
        values = [self._weight(NORMS[gate], "s16", "normalization") for gate in self._gates]
        multipliers = [_multiplier(scale_of(value)) for value in values]
        if max(shift for _, shift in multipliers) > MAX_SHIFT - NORMALIZED_BITS:
            raise _UnsupportedError(f"scales of its normalization must be below 2^{MAX_SHIFT - NORMALIZED_BITS}")
        return Normalizations(
            weight=np.stack([_constant(value) for value in values]).astype(np.int16),
            bias=np.stack([self._bias(BIAS + gate) for gate in self._gates]).astype(np.int32),
            scales=tuple((multiplier, shift + NORMALIZED_BITS) for multiplier, shift in multipliers),
            guards=tuple(max(1, int(GUARD * scale_of(value))) for value in values),
        )

    def _projection(self) -> Projection:
        value, made = self._weight(PROJECTION, "s8", "weights"), self._step.output
        has_bias = self._step.slot(PROJECTION_BIAS) is not None
        bias = self._bias(PROJECTION_BIAS) if has_bias else np.zeros(self._form.outputs, np.int32)
        clip = min(np.float32(self._form.projection_clip) / scale_of(made), np.float32(MOST_CLIP))
        return Projection(
            weight=_constant(value).astype(np.int8),
            bias=_effective(value, int(self._hidden.zero_point[0]), bias),
            scale=_multiplier(scale_of(value) * np.float32(self._hidden.scale[0]) / scale_of(self._state)),
            zero_point=zero_point_of(self._state),
            clip=int(clip),
        )

    def _weight(self, slot: int, element: str, what: str) -> Value:
        value = self._step.slot(slot)
        assert value is not None
        quantization = value.quantization
        if value.type != element or quantization is None or quantization.per_channel or quantization.zero_point.any():
            raise _UnsupportedError(f"its {what} must be {element}, with one scale and no zero point: {value.type}")
        return value

    def _bias(self, slot: int) -> np.ndarray:
        value = self._step.slot(slot)
        assert value is not None
        if value.type != "s32":
            raise _UnsupportedError(f"its bias must be s32: {value.type}")
        return _constant(value)


def _single(quantization: Quantization | None) -> Quantization:
    if quantization is None or quantization.per_channel:
        raise _UnsupportedError("its values must have one scale each")
    return quantization


def _constant(value: Value) -> np.ndarray:
    assert value.constant is not None
    return value.constant


def _effective(value: Value, zero_point: int, bias: np.ndarray | int) -> np.ndarray:
    """A bias, and what a zero point adds to sums with weights."""
    total = zero_point * _constant(value).astype(np.int64).sum(axis=1) + bias
    if np.abs(total).max() >= 1 << 31:
        raise _UnsupportedError(f"its sums must be below 2^31: {np.abs(total).max()}")
    made: np.ndarray = total.astype(np.int32)
    return made


def _multiplier(real: np.float32) -> tuple[int, int]:
    return quantize_multiplier(float(np.float32(real)))

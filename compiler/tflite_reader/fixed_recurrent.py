"""LSTM and SVDF of 8-bit values and weights, with 16 bits inside: what integer kernels know before they run.

Sources: PopulateQuantizedLstmParams8x8_16 in kernels/lstm.cc, and kernels/svdf.cc of TensorFlow Lite, which compute
scales in binary32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Quantization, Value
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.lstm import GATES, FixedLstm, GateSums
from int8tune.compiler.operators.svdf import FixedSvdf
from int8tune.compiler.tflite_reader.slots import BIAS, DATA, RECURRENT, Lstm, Svdf
from int8tune.compiler.tflite_reader.steps import Reason, Step
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier

RELU, TANH = 1, 4
# Values inside of the operator that it says: four of the gates, which only normalization needs, and the output.
INTERMEDIATES, HIDDEN = 5, 4
# How far the scale of cells may be from a power of two, in powers of two.
SCALE_TOLERANCE = 1e-3
MOST_CLIP = (1 << 15) - 1


def is_fixed(step: Step) -> bool:
    """Whether an operator computes on stored values."""
    return step.inputs[0].type == "s8" and step.inputs[0].quantization is not None


def fixed_lstm(step: Step, inside: Sequence[Quantization | None], values: Mapping[str, Value]) -> Operator:
    """The operator with its kind, or one of kind OTHER with the reason why it has none.

    Args:
        inside: the scales of the operator's values that the file calls intermediates.
    """
    try:
        found = _form(step, inside)
    except OperandError as error:
        found = str(error)
    if isinstance(found, str):
        return other(step.plain, found)
    form = Lstm.of(step)
    assert isinstance(form, Lstm)
    inputs = (step.inputs[0].name, *(value.name for value in form.states(step)))
    return checked(replace(step.plain, kind=Kind.LSTM, inputs=inputs, attributes={"lstm": found}), values)


def _form(step: Step, inside: Sequence[Quantization | None]) -> FixedLstm | Reason:
    form = Lstm.of(step)
    if isinstance(form, str):
        return form
    if form.is_coupled or form.has_peepholes or form.projection:
        what = "coupled gates" if form.is_coupled else "peepholes" if form.has_peepholes else "projections"
        return f"{what} of an integer LSTM are not supported"
    if form.activation != TANH or len(inside) != INTERMEDIATES:
        return f"it must have tanh and {INTERMEDIATES} intermediates: activation {form.activation}, {len(inside)}"
    state, cell = form.states(step)
    made, stored = inside[HIDDEN], (*step.inputs[:1], state, cell, step.output)
    scales = [made, *(value.quantization for value in stored)]
    if made is None or any(each is None or each.per_channel for each in scales):
        return "its values must have one scale each"
    power = math.log2(float(scale_of(cell)))
    if cell.type != "s16" or zero_point_of(cell) or abs(power - round(power)) > SCALE_TOLERANCE:
        return f"its cells must be s16, their scale a power of two: {cell.type}, {scale_of(cell):.6g}"
    parts = [_sums(step, first, rows) for first, rows in ((DATA, step.inputs[0]), (RECURRENT, state))]
    for part in parts:
        if isinstance(part, str):
            return part
    data, recurrent = (part for part in parts if isinstance(part, GateSums))
    # The bytes of an output are those of the state, whatever the file says that they stand for.
    hidden = np.float32(2.0**-15 / float(made.scale[0]) * 2.0**-15)
    clip = min(form.cell_clip / float(scale_of(cell)), float(MOST_CLIP))
    return FixedLstm(
        steps=form.steps,
        batch=form.batch,
        is_time_major=form.is_time_major,
        data=data,
        state=recurrent,
        cell_bits=15 + round(power),
        cell_clip=int(clip),
        scale=quantize_multiplier(float(hidden)),
        zero_point=int(made.zero_point[0]),
    )


def _sums(step: Step, first: int, rows: Value) -> GateSums | Reason:
    """What gates have of rows by four matrices of weights, and by four biases for those of data."""
    weights, biases, scales = [], [], []
    for gate in range(GATES):
        value, bias = step.slot(first + gate), step.slot(BIAS + gate)
        assert value is not None
        assert bias is not None
        quantization = value.quantization
        if value.type != "s8" or quantization is None or quantization.per_channel or quantization.zero_point.any():
            return f"its weights must be s8, with one scale and no zero point: {value.type}"
        if bias.type != "s32":
            return f"its bias must be s32: {bias.type}"
        assert value.constant is not None
        assert bias.constant is not None
        total = -zero_point_of(rows) * value.constant.astype(np.int64).sum(axis=1)
        total += bias.constant.astype(np.int64) if first == DATA else 0
        if np.abs(total).max() >= 1 << 31:
            return f"its sums must be below 2^31: {np.abs(total).max()}"
        weights.append(value.constant)
        biases.append(total.astype(np.int32))
        effective = np.float32(quantization.scale[0]) * scale_of(rows) / np.float32(2.0**-12)
        scales.append(quantize_multiplier(float(np.float32(effective))))
    return GateSums(np.stack(weights), np.stack(biases), tuple(scales))


def fixed_svdf(step: Step, values: Mapping[str, Value]) -> Operator:
    """The operator with its kind, or one of kind OTHER with the reason why it has none."""
    form = Svdf.of(step)
    try:
        found = form if isinstance(form, str) else _svdf(step, form)
    except OperandError as error:
        found = str(error)
    if isinstance(found, str):
        return other(step.plain, found)
    assert isinstance(form, Svdf)
    inputs = step.inputs[0].name, form.state.name
    return checked(replace(step.plain, kind=Kind.SVDF, inputs=inputs, attributes={"svdf": found}), values)


def _svdf(step: Step, form: Svdf) -> FixedSvdf | Reason:
    feature, data, output = step.slot(Svdf.FEATURE), step.inputs[0], step.output
    assert feature is not None
    stored = (data, feature, form.time, form.state, output)
    if any(value.quantization is None or value.quantization.per_channel for value in stored):
        return "its values must have one scale each"
    bias = np.zeros(form.filters // form.rank, np.int32) if form.bias is None else form.bias.constant
    types = tuple(value.type for value in (feature, form.time, form.state, output))
    if types != ("s8", "s16", "s16", "s8") or (form.bias is not None and form.bias.type != "s32"):
        return f"its weights, memory and output must be s8, s16, s16 and s8: {', '.join(types)}"
    if any(zero_point_of(value) for value in stored[1:4]):
        return "its weights and memory must have no zero point"
    if form.activation != RELU:
        return f"fused activation {form.activation} is not supported"
    assert feature.constant is not None
    assert form.time.constant is not None
    assert bias is not None
    offset = -zero_point_of(data) * feature.constant.astype(np.int64).sum(axis=1)
    remembered = scale_of(data) * scale_of(feature) / scale_of(form.state)
    made = scale_of(form.state) * scale_of(form.time) / scale_of(output)
    return FixedSvdf(
        rank=form.rank,
        feature=feature.constant,
        offset=offset.astype(np.int32),
        time=form.time.constant,
        bias=bias,
        feature_scale=quantize_multiplier(float(remembered)),
        scale=quantize_multiplier(float(made)),
        zero_point=zero_point_of(output),
    )

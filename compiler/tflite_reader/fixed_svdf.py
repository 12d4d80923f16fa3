"""SVDF of 8-bit values and weights, with a memory of 16 bits: what its integer kernel knows before it runs.

Source: kernels/svdf.cc of TensorFlow Lite, which computes scales in binary32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.operators.svdf import FixedSvdf
from int8tune.compiler.tflite_reader.slots import Svdf
from int8tune.compiler.tflite_reader.steps import Reason, Step
from int8tune.schedules.errors import OperandError
from int8tune.schedules.operands import quantize_multiplier

RELU = 1


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

"""SVDF of 8-bit values in integers, with a memory of 16 bits, as TFLite's reference kernel computes it.

Source: EvalIntegerSVDF in reference/svdf.h of TensorFlow Lite. Its sums over time wrap around 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import Array
from int8tune.compiler.operators.fixed_gates import HIGH, LOW, MOST_SUM, rescaled
from int8tune.schedules.numerics import RANGES


@dataclass(frozen=True, slots=True, eq=False)
class FixedSvdf:
    """What an integer SVDF knows before it runs.

    Attributes:
        feature: int8 [filters, values of a row].
        offset: int32 [filters], what the zero point of the data takes.
        time: int16 [filters, memory].
        bias: int32 [outputs].
        feature_scale, scale: the multiplier and shift of what is remembered, and of outputs.
        zero_point: of outputs.
    """

    rank: int
    feature: npt.NDArray[np.int8]
    offset: npt.NDArray[np.int32]
    time: npt.NDArray[np.int16]
    bias: npt.NDArray[np.int32]
    feature_scale: tuple[int, int]
    scale: tuple[int, int]
    zero_point: int


def svdf_of(operator: Operator) -> FixedSvdf:
    found = operator.attributes["svdf"]
    assert isinstance(found, FixedSvdf)
    return found


def fault(operator: Operator, inputs: Sequence[Value], outputs: Sequence[Value]) -> str | None:
    form, types = svdf_of(operator), tuple(value.type for value in (*inputs, *outputs))
    if types != ("s8", "s16", "s8", "s16"):
        return f"its data and memory must be s8 and s16: {', '.join(types)}"
    (data, memory), (made, next_memory) = inputs, outputs
    batch, (filters, length) = data.shape[0], form.time.shape
    shapes = data.shape, memory.shape, made.shape, next_memory.shape
    kept = batch, filters * length
    if shapes != ((batch, form.feature.shape[1]), kept, (batch, filters // form.rank), kept):
        return f"its memory must have shape {kept}: {memory.shape}"
    most = np.abs(form.feature.astype(np.int64)).sum(axis=1) * 128 + np.abs(form.offset.astype(np.int64))
    return None if most.max() <= MOST_SUM else f"its sums must be below 2^31: {most.max()}"


def reference(
    operator: Operator,
    inputs: Sequence[Value],  # noqa: ARG001
    outputs: Sequence[Value],  # noqa: ARG001
    arrays: Sequence[Array],
) -> tuple[Array, ...]:
    form, (data, memory) = svdf_of(operator), arrays
    filters, length = form.time.shape
    totals = data.astype(np.int64) @ form.feature.astype(np.int64).T + form.offset
    newest = np.clip(rescaled(totals, form.feature_scale), LOW, HIGH)
    kept = memory.reshape(-1, filters, length)[:, :, 1:]
    kept = np.concatenate([kept, newest[:, :, None].astype(np.int16)], axis=2)
    sums = (kept.astype(np.int64) * form.time).sum(axis=2)
    sums = sums.reshape(len(data), -1, form.rank).sum(axis=2) + form.bias
    steps = rescaled(sums.astype(np.int32).astype(np.int64), form.scale) + form.zero_point
    return np.clip(steps, *RANGES["s8"]).astype(np.int8), kept.reshape(memory.shape)

"""TRANSPOSE_CONV as a graph's operators.

Source: reference/transpose_conv.h and kernels/transpose_conv.cc of TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import BYTES, Array, byte_fault
from int8tune.compiler.operators.word_sums import SUMS, WordSums
from int8tune.compiler.padding import same_padding
from int8tune.compiler.tflite_reader.operators import SAME, VALID, activation_bounds
from int8tune.compiler.tflite_reader.steps import Reason, Step, integers
from int8tune.compiler.tflite_reader.wide import is_wide, wide_sums
from int8tune.compiler.transposed import (
    Part,
    Plan,
    Transposed,
    part_attributes,
    part_kind,
    part_quantization,
    plan_of,
    spread_fault,
)

Values = MutableMapping[str, Value]


def transposed_operators(step: Step, values: Values) -> tuple[Operator, ...]:
    """The operators of a TRANSPOSE_CONV, or one of kind OTHER."""
    clamp = activation_bounds(step.output, step.options("TransposeConvOptions").FusedActivationFunction())
    plan = clamp if isinstance(clamp, str) else _plan(step)
    sums = wide_sums(step) if is_wide(step) else None
    for found in (plan, sums):
        if isinstance(found, str):
            return (other(step.plain, found),)
    assert isinstance(plan, Plan)
    assert not isinstance(clamp, str)
    assert not isinstance(sums, str)
    return _Writer(step, values, clamp, sums).operators(plan)


def _plan(step: Step) -> Plan | Reason:
    if len(step.inputs) not in (3, 4) or len(step.plain.outputs) != 1:
        return f"it must have a shape, weights, data and perhaps a bias: {len(step.inputs)} inputs"
    sizes, weight, data, *bias = step.inputs
    if not is_wide(step) and (wrong := _bytes_fault(data, step.output, bias, weight.shape[0])):
        return wrong
    if weight.type not in BYTES or weight.quantization is None or weight.constant is None or integers(sizes) is None:
        return "its weights must be constant, of 8 bits and quantized, and its shape constant"
    if any(len(value.shape) != 4 for value in (data, weight, step.output)) or weight.quantization.axis not in (None, 0):
        return (
            f"its image and weights must have four axes, and scales for output channels: {data.shape}, {weight.shape}"
        )
    if integers(sizes) != list(step.output.shape):
        return f"its output must have the shape that it says, {integers(sizes)}: {list(step.output.shape)}"
    options = step.options("TransposeConvOptions")
    stride, made, kernel = (options.StrideH(), options.StrideW()), step.output.shape[1:3], weight.shape[1:3]
    if min(stride) < 1 or options.Padding() not in (SAME, VALID) or data.shape[3] != weight.shape[3]:
        return f"stride {stride}, padding {options.Padding()} or weights {weight.shape} are out of range"
    if (data.shape[0], weight.shape[0]) != step.output.shape[::3]:
        return f"its output must have shape {(data.shape[0], *made, weight.shape[0])}: {step.output.shape}"
    padding = [0, 0]
    if options.Padding() == SAME:
        padding = [same_padding(made[axis], kernel[axis], stride[axis], 1)[0] for axis in (0, 1)]
    layer = Transposed(
        (data.shape[1], data.shape[2]), (made[0], made[1]), stride, (padding[0], padding[1]), (1, 1), groups=1
    )
    if fault := spread_fault(layer, weight.shape):
        return fault
    return plan_of(layer, weight.constant, int(weight.quantization.zero_point[0]))


def _bytes_fault(data: Value, output: Value, bias: list[Value], channels: int) -> Reason | None:
    """Why data, bias and output are none of a layer of bytes."""
    if wrong := byte_fault(data, output):
        return wrong
    if bias and (bias[0].type != "s32" or bias[0].constant is None or bias[0].constant.size != channels):
        return "its bias must be a constant of 32 bits for each channel"
    return None


class _Writer:
    """Operators of one plan; values grow by what is between them."""

    def __init__(self, step: Step, values: Values, clamp: tuple[int, int], sums: WordSums | None) -> None:
        self._plain, self._values, self._clamp, self._sums = step.plain, values, clamp, sums
        self._output, (_, self._weight, self._data, *self._bias) = step.output, step.inputs

    def operators(self, plan: Plan) -> tuple[Operator, ...]:
        output, (rows, columns), block = self._output, plan.size, plan.block
        batch, *_, channels = output.shape
        whole = (batch, rows * block[0], columns * block[1], channels)
        is_cut, is_moved = whole != output.shape, block != (1, 1)
        placed = self._like("whole", whole) if is_cut else output.name
        phases = (batch, *plan.size, channels * block[0] * block[1])
        joined = self._like("phases", phases) if is_moved else placed
        names = [joined]
        if len(plan.parts) > 1:
            names = [self._like(f"phase {index}", (*phases[:3], channels)) for index in range(len(plan.parts))]
        made = [self._part(part, name, index) for index, (part, name) in enumerate(zip(plan.parts, names, strict=True))]
        if len(plan.parts) > 1:
            made.append(self._moved(Kind.CONCAT, names, joined, {"axis": 3}))
        if is_moved:
            made.append(self._moved(Kind.DEPTH_TO_SPACE, [joined], placed, {"block": block, "minor": plan.minor}))
        if is_cut:
            begin = (0, *plan.begin, 0)
            end = tuple(first + extent for first, extent in zip(begin, output.shape, strict=True))
            made.append(
                self._moved(Kind.SLICE, [placed], output.name, {"begin": begin, "end": end, "strides": (1,) * 4})
            )
        return tuple(made)

    def _part(self, part: Part, made: str, index: int) -> Operator:
        inputs = [self._data.name, self._constant(self._weight, part, part.weight, index)]
        kind, attributes = part_kind(part, 1, self._data.shape[3]), part_attributes(part, 1)
        if self._sums is not None:
            attributes = {**attributes, SUMS: self._sums.of_channels(part.channels)}
        for bias in self._bias if self._sums is None else []:
            assert bias.constant is not None
            inputs.append(self._constant(bias, part, bias.constant.reshape(-1)[part.channels], index))
        operator = replace(self._plain, kind=kind, inputs=tuple(inputs), outputs=(made,), clamp=self._clamp)
        return replace(operator, attributes=attributes)

    def _constant(self, value: Value, part: Part, array: Array, index: int) -> str:
        name = free_name(f"{value.name}/{index} of {self._output.name}", self._values)
        quantization = part_quantization(part, value.quantization)
        self._values[name] = Value(name, array.shape, value.type, quantization, array)
        return name

    def _moved(self, kind: Kind, inputs: list[str], made: str, attributes: dict[str, Any]) -> Operator:
        moved = replace(self._plain, kind=kind, layers=(made,), inputs=tuple(inputs), outputs=(made,))
        return checked(replace(moved, attributes=attributes), self._values)

    def _like(self, name: str, shape: tuple[int, ...]) -> str:
        name = free_name(f"{self._output.name}/{name}", self._values)
        self._values[name] = replace(self._output, name=name, shape=shape)
        return name

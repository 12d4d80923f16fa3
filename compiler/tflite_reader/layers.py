"""TFLite's convolutions, dense layers and additions on 8-bit values, as a graph has them.

Sources: schema.fbs of TensorFlow Lite, its quantization specification, and kernels/kernel_util.cc for the bounds of
fused activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.operators import checked
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.operators.word_arithmetic import ADD
from int8tune.compiler.operators.word_sums import SUMS
from int8tune.compiler.tflite_reader.operators import SAME, VALID, activation_bounds, window_padding, word_operator
from int8tune.compiler.tflite_reader.steps import Reason, Step
from int8tune.compiler.tflite_reader.weights import filters_first
from int8tune.compiler.tflite_reader.wide import is_wide, wide_sums
from int8tune.results.text import clipped

Values = MutableMapping[str, Value]


class Layers:
    """Reads layers; weights among `values` get the axes that a graph has them in."""

    def __init__(self, values: Values) -> None:
        self._values = values
        # Weights of depthwise convolutions, [1, KH, KW, OC] in the file, that have their axes as a graph has them.
        self._moved: set[str] = set()
        self._readers: dict[str, Callable[[Step], Operator | Reason]] = {
            "CONV_2D": self._conv,
            "DEPTHWISE_CONV_2D": self._depthwise,
            "FULLY_CONNECTED": self._dense,
            "BATCH_MATMUL": self._matmul,
            "ADD": self._add,
        }

    def reads(self, word: str) -> bool:
        return word in self._readers

    def read(self, step: Step) -> Operator | Reason:
        """The operator, or why it is none on 8-bit integers."""
        if is_wide(step):
            return self._wide(step)
        if step.plain.operator == "ADD" and step.output.type == "s16":
            return self._word_add(step)
        if step.output.type == "s16":
            return "its activations are int16 (int16x8 quantization)"
        if step.output.type not in BYTES and any(value.type in BYTES for value in step.inputs[1:2]):
            return "its data is quantized at run time (dynamic-range quantization)"
        if step.output.type not in BYTES:
            return f"its output must be 8-bit integers: {step.output.type}"
        if step.plain.operator in ("ADD", "BATCH_MATMUL"):
            return self._readers[step.plain.operator](step)
        if len(step.inputs) not in (2, 3):
            return f"it must have data, weights and perhaps a bias: {len(step.inputs)} inputs"
        return self.of_bytes(step)

    def of_bytes(self, step: Step) -> Operator | Reason:
        """The operator of a layer with weights, whose output has bytes, or is its sums."""
        return _operands_fault(step) or self._readers[step.plain.operator](step)

    def _wide(self, step: Step) -> Operator | Reason:
        """A layer of 16-bit data, as operators of bytes take the place of later."""
        sums = wide_sums(step)
        if isinstance(sums, str):
            return sums
        made = _axes_fault(step) or self._readers[step.plain.operator](step)
        if isinstance(made, str):
            return made
        return replace(made, inputs=made.inputs[:2], attributes={**made.attributes, SUMS: sums})

    def _conv(self, step: Step) -> Operator | Reason:
        data, weight = step.inputs[:2]
        if data.shape[3] % weight.shape[3]:
            return f"{data.shape[3]} channels can't be shared by filters of {weight.shape[3]}"
        return _convolution(Kind.CONV2D, step, weight, "Conv2DOptions", data.shape[3] // weight.shape[3])

    def _depthwise(self, step: Step) -> Operator | Reason:
        data, weight = step.inputs[:2]
        if weight.name not in self._moved:
            if weight.shape[0] != 1 or weight.shape[3] % data.shape[3]:
                return f"weights {weight.shape} don't fit {data.shape[3]} channels"
            weight = filters_first(weight)
        made = _convolution(Kind.DEPTHWISE, step, weight, "DepthwiseConv2DOptions", data.shape[3])
        if isinstance(made, Operator):
            self._moved.add(weight.name)
            self._values[weight.name] = weight
        return made

    def _dense(self, step: Step) -> Operator | Reason:
        options, (data, weight) = step.options("FullyConnectedOptions"), step.inputs[:2]
        if options.WeightsFormat():
            return "shuffled weights are not supported"
        if math.prod(data.shape) % weight.shape[1]:
            return f"data {data.shape} are no rows of {weight.shape[1]} values"
        rows = math.prod(data.shape) // weight.shape[1]
        if (math.prod(step.output.shape), step.output.shape[-1:]) != (rows * weight.shape[0], weight.shape[:1]):
            return f"its output must have {rows} rows of {weight.shape[0]} values: {step.output.shape}"
        return _made(Kind.DENSE, step, options.FusedActivationFunction(), {})

    def _matmul(self, step: Step) -> Operator | Reason:
        """`products` has transposed the first matrices where that is to be."""
        *batch, row, column = range(len(step.inputs[1].shape))
        order = (*batch, column, row) if step.options("BatchMatMulOptions").AdjY() else (*batch, row, column)
        return checked(step.made(Kind.MATMUL, {"order": order}, 2), self._values)

    def _add(self, step: Step) -> Operator | Reason:
        made = _made(Kind.ADD, step, step.options("AddOptions").FusedActivationFunction(), {})
        return made if isinstance(made, str) else checked(made, self._values)

    def _word_add(self, step: Step) -> Operator | Reason:
        options = step.options("AddOptions")
        made = word_operator(step, ADD, options.FusedActivationFunction(), options.PotScaleInt16())
        return made if isinstance(made, str) else checked(made, self._values)


def _convolution(kind: Kind, step: Step, weight: Value, options_of: str, groups: int) -> Operator | Reason:
    options, data = step.options(options_of), step.inputs[0]
    stride = options.StrideH(), options.StrideW()
    dilation = options.DilationHFactor(), options.DilationWFactor()
    if min(stride + dilation) < 1 or options.Padding() not in (SAME, VALID):
        return f"stride {stride}, dilation {dilation} or padding {options.Padding()} is out of range"
    kernel = weight.shape[1], weight.shape[2]
    padding = window_padding(options.Padding(), data.shape, kernel, stride, dilation)
    reach = [steps * (taps - 1) + 1 for steps, taps in zip(dilation, kernel, strict=True)]
    sizes = [
        (data.shape[1 + axis] + padding[axis] + padding[2 + axis] - reach[axis]) // stride[axis] + 1 for axis in (0, 1)
    ]
    expected = (data.shape[0], *sizes, weight.shape[0])
    if step.output.shape != expected:
        return f"its output must have shape {expected}: {step.output.shape}"
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _made(kind, step, options.FusedActivationFunction(), attributes)


def _made(kind: Kind, step: Step, activation: int, attributes: dict[str, Any]) -> Operator | Reason:
    clamp = None if step.output.type == "s32" else activation_bounds(step.output, activation)
    if isinstance(clamp, str):
        return clamp
    return replace(step.plain, kind=kind, clamp=clamp, attributes=attributes)


def _axes_fault(step: Step) -> Reason | None:
    """Why data and weights have not the axes that a kernel needs."""
    data_axes, weight_axes = (None, 2) if step.plain.operator == "FULLY_CONNECTED" else (4, 4)
    for role, value, axes in zip(("data", "weights"), step.inputs, (data_axes, weight_axes), strict=False):
        if axes is not None and len(value.shape) != axes:
            return f"its {role} must have {axes} axes: {value.shape}"
    return None


def _operands_fault(step: Step) -> Reason | None:
    """Why data and weights are not what a kernel needs."""
    data, weight, *bias = step.inputs
    for role, value in (("data", data), ("weights", weight)):
        if value.type not in BYTES or value.quantization is None:
            what = f"`{clipped(value.name)}` is {value.type}" + " without a scale" * (value.quantization is None)
            return f"its {role} must be 8-bit and quantized, {what}"
    if wrong := _axes_fault(step):
        return wrong
    if data.quantization is not None and data.quantization.per_channel:
        return "its data must have one scale"
    if weight.constant is None:
        return "its weights must be constant"
    if bias and (bias[0].type != "s32" or bias[0].constant is None):
        return "its bias must be a constant of 32 bits"
    if bias and math.prod(bias[0].shape) != math.prod(step.output.shape[-1:]):
        return f"its bias must have {math.prod(step.output.shape[-1:])} values: {math.prod(bias[0].shape)}"
    return None

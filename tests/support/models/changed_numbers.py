"""Quantized models with other numbers in them: what trainings and quantizers leave, and nobody draws.

Channels without weights, scales that are far apart, biases that decide, activations that are nearly always clamped. The
graph stays as it is, and a bias keeps the scale of its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rng = np.random.Generator

SHARES = (0.05, 0.3, 0.8)
CHANGED = 0.6
ACTIVATIONS = 0.3
# Of TFLite, by the numbers of its types.
STORED: dict[int, type[np.integer[Any]]] = {2: np.int32, 3: np.uint8, 9: np.int8}


@dataclass(slots=True)
class Numbers:
    """Those of a layer, to be changed in place.

    Attributes:
        weight: stored, channels first.
        zero: what stands for 0 in it.
        scale: one, or one for each channel.
        bias: int32, or None.
        sum_scale: what a sum times the weights' scale is multiplied by, to become an output.
    """

    weight: Array
    zero: int
    scale: Array
    bias: Array | None
    sum_scale: float

    @property
    def has_channel_scales(self) -> bool:
        return len(self.scale) == len(self.weight)


def _far(numbers: Numbers, at: Array, rng: Rng) -> None:
    if numbers.has_channel_scales:
        numbers.scale[at] = 10.0 ** rng.uniform(-9, -3)


def _apart(numbers: Numbers, at: Array, rng: Rng) -> None:
    if numbers.has_channel_scales:
        numbers.scale[at] *= 2.0 ** rng.uniform(-12, 3, at.sum())


def _other(numbers: Numbers, at: Array, rng: Rng) -> None:  # noqa: ARG001
    numbers.scale *= numbers.scale.dtype.type(2.0 ** rng.uniform(-6, 4))


def _dead(numbers: Numbers, at: Array, rng: Rng) -> None:  # noqa: ARG001
    numbers.weight[at] = numbers.zero


def _full(numbers: Numbers, at: Array, rng: Rng) -> None:
    limits = np.iinfo(numbers.weight.dtype)
    numbers.weight[at] = rng.choice([limits.min + 1, limits.max])


def _biased(numbers: Numbers, at: Array, rng: Rng) -> None:
    if numbers.bias is not None:
        low, high = (1 << int(each) for each in rng.integers(4, 31, 2))
        numbers.bias[at] = rng.integers(-low, high, at.sum())


def _decided(numbers: Numbers, at: Array, rng: Rng) -> None:
    """Sums that are biases and little else, near any output."""
    if numbers.bias is not None and numbers.has_channel_scales:
        numbers.scale[at] = 10.0 ** rng.uniform(-7, -4)
        factor = numbers.sum_scale * numbers.scale[at].astype(np.float64)
        numbers.bias[at] = np.clip(rng.uniform(-140, 140, at.sum()) / factor, -(2**30), 2**30)


CHANGES: tuple[Callable[[Numbers, Array, Rng], None], ...] = (_far, _apart, _other, _dead, _full, _biased, _decided)


def _change(numbers: Numbers, rng: Rng) -> None:
    if rng.random() < CHANGED:
        at = rng.random(len(numbers.weight)) < rng.choice(SHARES)
        CHANGES[rng.integers(len(CHANGES))](numbers, at, rng)


def _point(limits: Any, rng: Rng) -> int:
    return int(rng.choice([limits.min, limits.max, rng.integers(limits.min, limits.max + 1)]))


def changed_tflite(file: bytes, rng: Rng) -> bytes:
    """A TFLite model with other numbers in its convolutions, dense layers and additions."""
    return _Tflite(file).changed(rng)


class _Tflite:
    """A model's file, whose arrays are written where they are."""

    def __init__(self, file: bytes) -> None:
        import tflite

        self._file, self._words = bytearray(file), tflite.BuiltinOperator
        self._model = tflite.Model.GetRootAs(self._file, 0)
        self._graph = self._model.Subgraphs(0)

    def changed(self, rng: Rng) -> bytes:
        words = self._words
        layers = (words.CONV_2D, words.DEPTHWISE_CONV_2D, words.FULLY_CONNECTED)
        for operator in self._operators((*layers, words.ADD)) if rng.random() < 0.5 else ():
            scale, point = self._quantization(operator.Outputs(0))
            if len(scale) == 1 and rng.random() < ACTIVATIONS:
                scale *= np.float32(2.0 ** rng.uniform(-2, 2))
                limits = np.iinfo(STORED.get(self._graph.Tensors(operator.Outputs(0)).Type(), np.int8))
                point[:] = _point(limits, rng)
        for operator in self._operators(layers):
            self._change(operator, 3 if self._word(operator) == words.DEPTHWISE_CONV_2D else 0, rng)
        return bytes(self._file)

    def _operators(self, words: tuple[int, ...]) -> Iterator[Any]:
        operators = (self._graph.Operators(at) for at in range(self._graph.OperatorsLength()))
        return (each for each in operators if self._word(each) in words)

    def _word(self, operator: Any) -> int:
        code = self._model.OperatorCodes(operator.OpcodeIndex())
        return int(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))

    def _quantization(self, tensor: int) -> tuple[Array, Array]:
        found = self._graph.Tensors(tensor).Quantization()
        if not found or not found.ScaleLength():
            return np.zeros(0, np.float32), np.zeros(0, np.int64)
        return found.ScaleAsNumpy(), found.ZeroPointAsNumpy()

    def _constant(self, tensor: int) -> Array | None:
        found = self._graph.Tensors(tensor)
        data = self._model.Buffers(found.Buffer()).DataAsNumpy()
        dtype = STORED.get(found.Type())
        if isinstance(data, int) or dtype is None:
            return None
        array: Array = data.view(dtype).reshape(found.ShapeAsNumpy())
        return array

    def _change(self, operator: Any, axis: int, rng: Rng) -> None:
        inputs = [operator.Inputs(at) for at in range(operator.InputsLength())]
        weight, (scale, point) = self._constant(inputs[1]), self._quantization(inputs[1])
        data, made = (self._quantization(each)[0] for each in (inputs[0], operator.Outputs(0)))
        if weight is None or not len(scale) or len(data) != 1 or len(made) != 1:
            return
        bias = self._constant(inputs[2]) if len(inputs) > 2 and inputs[2] >= 0 else None
        numbers = Numbers(np.moveaxis(weight, axis, 0), int(point[0]), scale, bias, float(data[0]) / float(made[0]))
        _change(numbers, rng)
        if bias is not None:
            self._quantization(inputs[2])[0][:] = (data.astype(np.float64) * scale).astype(np.float32)


def changed_onnx(file: bytes, rng: Rng) -> bytes:
    """A QDQ model with other numbers in its Convs, Gemms and MatMuls."""
    return _Onnx(file).changed(rng)


class _Onnx:
    def __init__(self, file: bytes) -> None:
        import onnx

        self._onnx, self._model = onnx, onnx.load_from_string(file)
        graph = self._model.graph
        self._constants = {each.name: each for each in graph.initializer}
        self._made_by = {name: node for node in graph.node for name in node.output}

    def changed(self, rng: Rng) -> bytes:
        nodes = self._model.graph.node
        for node in nodes if rng.random() < 0.5 else ():
            is_data = node.op_type == "QuantizeLinear" and node.input[0] not in self._constants
            if is_data and self._array(node.input[1]).size == 1 and rng.random() < ACTIVATIONS:
                self._write(node.input[1], self._array(node.input[1]) * np.float32(2.0 ** rng.uniform(-2, 2)))
                point = self._array(node.input[2])
                self._write(node.input[2], np.full(point.shape, _point(np.iinfo(point.dtype), rng)))
        for node in nodes:
            if node.op_type in ("Conv", "Gemm", "MatMul"):
                self._change(node, rng)
        made: bytes = self._model.SerializeToString()
        return made

    def _array(self, name: str) -> Array:
        return np.array(self._onnx.numpy_helper.to_array(self._constants[name]))

    def _write(self, name: str, values: Array) -> None:
        before = self._array(name)
        stored = np.broadcast_to(values, before.shape).astype(before.dtype)
        self._constants[name].CopyFrom(self._onnx.numpy_helper.from_array(stored, name))

    def _change(self, node: Any, rng: Rng) -> None:
        made = [self._made_by.get(name) for name in node.input]
        stored = [each if each is not None and each.op_type == "DequantizeLinear" else None for each in made]
        data, weight, bias = (*stored, None)[:3]
        if data is None or weight is None or weight.input[0] not in self._constants or len(weight.input) < 3:
            return
        is_row = node.op_type == "Conv" or any(each.name == "transB" and each.i for each in node.attribute)
        values, scale = self._array(weight.input[0]), self._array(weight.input[1]).reshape(-1)
        if values.dtype not in (np.int8, np.uint8):
            return
        biases = self._array(bias.input[0]).reshape(-1) if bias is not None else None
        zero, data_scale = int(self._array(weight.input[2]).reshape(-1)[0]), self._array(data.input[1]).reshape(-1)[0]
        _change(Numbers(np.moveaxis(values, 0 if is_row else -1, 0), zero, scale, biases, float(data_scale)), rng)
        shape = self._array(weight.input[1]).shape
        self._write(weight.input[0], values)
        self._write(weight.input[1], scale.reshape(shape))
        if bias is not None and biases is not None:
            self._write(bias.input[0], biases.reshape(self._array(bias.input[0]).shape))
            self._write(bias.input[1], (data_scale * scale).reshape(-1 if len(scale) > 1 else shape))

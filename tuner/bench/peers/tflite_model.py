"""TFLite models of one quantized operator, written as flatbuffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.operands import Operands
from int8tune.schedules.workload import Dense, DepthwiseConv2d, Workload
from int8tune.tuner.bench.peers.base import Array
from int8tune.tuner.bench.peers.forms import same_padding

VERSION = 3
IDENTIFIER = b"TFL3"
# Of an operator with int8 data and a scale for each channel, or later.
OPERATOR_VERSION = 5


class OperatorModel:
    """A TFLite model of one operator; its tensors are added in the operator's order, the output last."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema = schema
        self._buffers = [schema.BufferT()]
        self._tensors: list[Any] = []

    def add(
        self,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        scales: Array,
        zero_point: int,
        axis: int = 0,
        values: Array | None = None,
    ) -> None:
        """Add a tensor, constant where it has values."""
        schema = self._schema
        kinds = {"uint8": schema.TensorType.UINT8, "int8": schema.TensorType.INT8, "int32": schema.TensorType.INT32}
        tensor = schema.TensorT()
        tensor.name = f"tensor{len(self._tensors)}"
        tensor.shape = list(shape)
        tensor.type = kinds[str(np.dtype(dtype))]
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = [float(scale) for scale in scales]
        tensor.quantization.zeroPoint = [zero_point] * len(scales)
        tensor.quantization.quantizedDimension = axis
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(values.tobytes(), np.uint8)
            tensor.buffer = len(self._buffers)
            self._buffers.append(buffer)
        self._tensors.append(tensor)

    def serialize(self, workload: Workload, activation: int = 0) -> bytes:
        """The model whose operator computes the workload, with a fused activation of the schema."""
        import flatbuffers

        schema = self._schema
        code, options_type, options = _operator(schema, workload)
        options.fusedActivationFunction = activation
        operator_code = schema.OperatorCodeT()
        operator_code.builtinCode = operator_code.deprecatedBuiltinCode = code
        operator_code.version = OPERATOR_VERSION
        operator = schema.OperatorT()
        operator.inputs, operator.outputs = list(range(len(self._tensors) - 1)), [len(self._tensors) - 1]
        operator.builtinOptionsType, operator.builtinOptions = options_type, options
        graph = schema.SubGraphT()
        graph.tensors, graph.operators = self._tensors, [operator]
        graph.inputs, graph.outputs = [0], operator.outputs
        model = schema.ModelT()
        model.version, model.operatorCodes = VERSION, [operator_code]
        model.subgraphs, model.buffers = [graph], self._buffers
        builder = flatbuffers.Builder(4096)
        builder.Finish(model.Pack(builder), IDENTIFIER)
        return bytes(builder.Output())


def layer_model(
    workload: Workload,
    operands: Operands,
    weight_scales: Array,
    data_scale: float = 1.0,
    output_scale: float = 1.0,
    activation: int = 0,
) -> bytes:
    """The model of a layer: its sums times `data_scale * weight_scales / output_scale` are its outputs.

    Padding is SAME where the workload's padding is that, and VALID otherwise.
    """
    unit = np.array([data_scale], np.float32)
    weight, axis = operands.weight, 0
    if isinstance(workload, DepthwiseConv2d):
        weight, axis = np.ascontiguousarray(weight.transpose(1, 2, 0))[None], 3
    output = {"u8": np.uint8, "s8": np.int8}[workload.numerics.output]
    model = OperatorModel()
    model.add(workload.data_shape, operands.data.dtype, unit, operands.data_zero_point)
    model.add(weight.shape, weight.dtype, weight_scales, operands.weight_zero_point, axis, weight)
    model.add(operands.bias.shape, np.int32, unit * weight_scales, 0, 0, operands.bias)
    model.add(workload.output_shape, output, np.array([output_scale]), operands.output_zero_point)
    return model.serialize(workload, activation)


def _operator(schema: Any, workload: Workload) -> tuple[int, int, Any]:
    """The schema's code, kind of options and options of a workload's operator."""
    codes, kinds = schema.BuiltinOperator, schema.BuiltinOptions
    if isinstance(workload, Dense):
        return codes.FULLY_CONNECTED, kinds.FullyConnectedOptions, schema.FullyConnectedOptionsT()
    if isinstance(workload, DepthwiseConv2d):
        options = schema.DepthwiseConv2DOptionsT()
        options.depthMultiplier = workload.multiplier
        code = codes.DEPTHWISE_CONV_2D, kinds.DepthwiseConv2DOptions
    else:
        options = schema.Conv2DOptionsT()
        code = codes.CONV_2D, kinds.Conv2DOptions
    window = workload.window
    is_same = window == same_padding(workload)
    options.padding = schema.Padding.SAME if is_same else schema.Padding.VALID
    options.strideH, options.strideW = window.stride
    options.dilationHFactor, options.dilationWFactor = window.dilation
    return *code, options

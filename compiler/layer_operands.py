"""The values of a model's layers, as the oracle and the kernels take them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Kind, Operator, Quantization, Value
from int8tune.compiler.quantized_layers import ModelLayer
from int8tune.compiler.rounding.fine_rounding import FineRounding
from int8tune.compiler.rounding.fused_rounding import ROUNDING, FusedRounding
from int8tune.compiler.rounding.fused_sum import SUM
from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import (
    DTYPES,
    Addend,
    ByteArray,
    FloatArray,
    Operands,
    quantize_addition,
    quantize_multiplier,
)
from int8tune.schedules.workload import Dense


def layer_operands(
    graph: Graph,
    layer: ModelLayer,
    data: ByteArray,
    residual: ByteArray | None = None,
    weights: ByteArray | None = None,
) -> Operands:
    """The operands of a layer.

    Args:
        data: of the workload's data shape.
        residual: of its output shape, where the layer has one.
        weights: of its weight shape, where they are computed.

    Raises:
        ModelError: a scale of the model is out of the range of its rounding rule.
    """
    values = [graph.values[name] for name in (*layer.operator.inputs, layer.operator.outputs[0])]
    weight, output = values[1], values[-1]
    weights = weight.constant if weights is None else weights
    assert weights is not None
    bias: npt.NDArray[Any] | None = values[2].constant if len(values) == 4 else None
    if bias is None:
        bias = np.zeros(layer.workload.out_channels, np.int32)
    low, high = _bounds(layer.operator, output)
    try:
        return Operands(
            data=np.ascontiguousarray(data.reshape(layer.workload.data_shape), DTYPES[layer.workload.numerics.data]),
            weight=np.ascontiguousarray(weights.reshape(layer.workload.weight_shape)),
            bias=np.ascontiguousarray(np.reshape(bias, -1), np.int32),
            clamp_low=low,
            clamp_high=high,
            data_zero_point=_zero_point(values[0]),
            weight_zero_point=_zero_point(weight),
            output_zero_point=_zero_point(output),
            residual=_addend(graph, layer, residual) if residual is not None else None,
            **_rescale(layer, values[0], weight, output),
        )
    except OperandError as error:
        raise ModelError(f"{graph.name}: layer `{layer.names[0]}`: {error}") from None


def known_operands(graph: Graph, layer: ModelLayer) -> Operands:
    """What is known of a layer before it runs: its operands, with zeros for what is computed.

    Raises:
        ModelError: a scale of the model is out of the range of its rounding rule.
    """
    workload, residual = layer.workload, layer.workload.numerics.residual
    data = np.zeros(workload.data_shape, DTYPES[workload.numerics.data])
    added = np.zeros(workload.output_shape, DTYPES[residual.data]) if residual else None
    is_computed = layer.operator.kind is Kind.MATMUL
    computed = np.zeros(workload.weight_shape, DTYPES[workload.numerics.weight]) if is_computed else None
    return layer_operands(graph, layer, data, added, computed)


def dense_factor(graph: Graph, layer: ModelLayer) -> npt.NDArray[np.float64]:
    """What TFLite's reference FULLY_CONNECTED multiplies sums by, for each channel or once for all, in binary64."""
    data, weight = (graph.values[name] for name in layer.operator.inputs[:2])
    scales = (_scale(each).astype(np.float64) for each in (data, weight, graph.values[layer.operator.outputs[0]]))
    data_scale, weight_scale, output_scale = scales
    return data_scale * weight_scale / output_scale


def _rescale(layer: ModelLayer, data: Value, weight: Value, output: Value) -> dict[str, Any]:
    if layer.workload.numerics.requantize is None:
        return {}
    if layer.operator.rule == "float":
        # As ONNX Runtime computes it, in binary32 throughout.
        return {"scale": _scale(data) * _scale(weight) / _scale(output)}
    if layer.operator.rule in ("fused", "fine"):
        rounding: FusedRounding | FineRounding = layer.operator.attributes[ROUNDING]
        return rounding.operands()
    # As TFLite's PopulateConvolutionQuantizationParams: uint8 layers and dense ones have the product in binary32.
    if layer.workload.numerics.data == "u8" or (isinstance(layer.workload, Dense) and len(_scale(weight)) == 1):
        products = (_scale(data) * _scale(weight)).astype(np.float64)
    else:
        products = _scale(data).astype(np.float64) * _scale(weight).astype(np.float64)
    reals = products / _scale(output).astype(np.float64)
    multiplier, shift = np.array([quantize_multiplier(float(real)) for real in reals], np.int32).T
    return {"multiplier": np.ascontiguousarray(multiplier), "shift": np.ascontiguousarray(shift)}


def _addend(graph: Graph, layer: ModelLayer, residual: ByteArray) -> Addend:
    assert layer.addition is not None
    assert layer.residual is not None
    own, other, total = (
        graph.values[name] for name in (layer.operator.outputs[0], layer.residual, layer.addition.outputs[0])
    )
    addend = addition_operands(layer.addition, own, other, total)
    return replace(addend, data=np.ascontiguousarray(residual.reshape(layer.workload.output_shape)))


def addition_operands(addition: Operator, own: Value, other: Value, total: Value) -> Addend:
    """What is known of an addition before it runs; its `data` is empty.

    Raises:
        OperandError: the scales are out of the range of the rounding rule.
    """
    own_scale, other_scale, sum_scale = (_scale(value) for value in (own, other, total))
    low, high = _bounds(addition, total)
    factors: dict[str, Any]
    if addition.rule == "float":
        factors = {"ratio": np.concatenate([own_scale, other_scale]) / sum_scale}
    elif addition.rule == "fused":
        found = addition.attributes[SUM]
        factors = {"ratio": found.ratio, "constant": found.constant}
    else:
        multiplier, shift = quantize_addition(float(own_scale[0]), float(other_scale[0]), float(sum_scale[0]))
        factors = {"multiplier": multiplier, "shift": shift}
    return Addend(
        data=np.empty(0, DTYPES[other.type]),
        clamp_low=low,
        clamp_high=high,
        zero_point=_zero_point(other),
        sum_zero_point=_zero_point(total),
        **factors,
    )


def _bounds(operator: Operator, output: Value) -> tuple[int, int]:
    return operator.clamp or RANGES[output.type]


def _quantization(value: Value) -> Quantization:
    assert value.quantization is not None
    return value.quantization


def _scale(value: Value) -> FloatArray:
    return _quantization(value).scale


def _zero_point(value: Value) -> int:
    return int(_quantization(value).zero_point[0])

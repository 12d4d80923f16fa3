"""Layers in float that ONNX Runtime would quantize by itself.

Between DequantizeLinear and QuantizeLinear, its optimizer WeightBiasQuantization makes the float weights of Conv,
ConvTranspose and Gemm 8-bit ones with one scale for all (ResNet-8 with its second layer left in float: 4 dB apart). It
looks for QuantizeLinear behind any number of Relu and Clip, and stops at any other operator: a Max computes the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from int8tune.quantize.activated_layers import readers_of

_QUANTIZED_BY_ONNX_RUNTIME = ("Conv", "ConvTranspose", "Gemm")
_LOOKED_THROUGH = ("Relu", "Clip")
_LEAST = float(np.finfo(np.float32).min)


def keep_in_float(graph: Any) -> None:
    """Part such layers from the QuantizeLinear behind them; the graph is changed, its values stay.

    A Relu becomes the maximum with zero, and keeps its name. Elsewhere the layer's tensor is made by the maximum with
    the least number.
    """
    makers = {output: node.op_type for node in graph.node for output in node.output}
    constants = {tensor.name for tensor in graph.initializer}
    readers = readers_of(graph)
    by_input = {name: node for node in graph.node for name in node.input}
    for node in list(graph.node):
        if node.op_type not in _QUANTIZED_BY_ONNX_RUNTIME or node.input[1] not in constants:
            continue
        follower = by_input.get(node.output[0])
        if makers.get(node.input[0]) != "DequantizeLinear" or readers[node.output[0]] != 1 or follower is None:
            continue
        if follower.op_type == "Relu":
            follower.op_type = "Max"
            follower.input.append(_constant(graph, "zero_of_relu", 0.0))
        elif follower.op_type in ("QuantizeLinear", *_LOOKED_THROUGH):
            _insert_max(graph, node)


def _insert_max(graph: Any, layer: Any) -> None:
    from onnx import helper

    made = layer.output[0]
    layer.output[0] = f"{made}_in_float"
    name = f"{layer.name}_in_float"
    node = helper.make_node("Max", [layer.output[0], _constant(graph, "least_float", _LEAST)], [made], name)
    graph.node.insert(list(graph.node).index(layer) + 1, node)


def _constant(graph: Any, name: str, value: float) -> str:
    from onnx import numpy_helper

    if all(tensor.name != name for tensor in graph.initializer):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    return name

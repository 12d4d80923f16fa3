"""ONNX Runtime's products that are quantized at run time, as the nodes that they were made of.

Source: its docs/ContribOperators.md, DynamicQuantizeMatMul, MatMulIntegerToFloat and DynamicQuantizeLSTM.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.nodes import Node, node_fault, written
from int8tune.compiler.onnx_reader.tensors import Array

# Where the scales and zero points of data and weights are, and the bias.
FUSED = {"DynamicQuantizeMatMul": ("", 2, "", 3, 4), "MatMulIntegerToFloat": (2, 3, 4, 5, 6)}
LSTM = "DynamicQuantizeLSTM"
# Weights of the data and of the states, and behind each its scales and zero points.
_NOT_CONSTANT = "its weights must be constants of each direction with their scales"
_OF_DATA, _OF_STATES = (1, 8, 9), (2, 10, 11)


def unfused(node: Node) -> list[Node]:
    """A node that is in `FUSED` as MatMulInteger and what is around it."""
    scale, weight_scale, point, weight_point, bias = FUSED[node.operator]
    made, nodes = node.outputs[0], list[Node]()

    def apply(computes: str, inputs: list[str], outputs: tuple[str, ...], **attributes: Any) -> str:
        nodes.append(written(f"{node.name}/{computes}", computes, inputs, outputs, attributes))
        return outputs[0]

    data, names = node.input(0), [node.input(at) if isinstance(at, int) else "" for at in (scale, point)]
    if scale == "":
        names = [f"{made}/scale", f"{made}/zero point"]
        data = apply("DynamicQuantizeLinear", [data], (f"{made}/data", *names))
    assert isinstance(weight_scale, int)
    assert isinstance(weight_point, int)
    assert isinstance(bias, int)
    sums = apply(
        "MatMulInteger", [data, node.input(1), names[1], node.input(weight_point)], (f"{made}/sums of products",)
    )
    scales = apply("Mul", [names[0], node.input(weight_scale)], (f"{made}/scales",))
    numbers = apply("Cast", [sums], (f"{made}/numbers",), to=1)
    product = f"{made}/product" if node.input(bias) else made
    apply("Mul", [numbers, scales], (product,))
    if node.input(bias):
        apply("Add", [product, node.input(bias)], (made,))
    return nodes


def unfused_lstm(node: Node, constants: MutableMapping[str, Array], model: str) -> list[Node]:
    """An LSTM's products of its data, which have weights of each direction, and the rest, which reads these.

    The rest has an LSTM's inputs and outputs, the weights of states in the place of both weights, and behind them the
    scales and zero points of these.

    Raises:
        ModelError: the weights of data are computed, or have no scale for each direction.
    """
    import onnx

    weight, scale, point = (constants.get(node.input(index)) for index in _OF_DATA)
    is_whole = weight is not None and scale is not None and (point is not None or not node.input(_OF_DATA[2]))
    owned = [each for each in (scale, point) if each is not None]
    if weight is None or scale is None or not is_whole or weight.ndim != 3:
        raise node_fault(model, node, _NOT_CONSTANT)
    if any(not each.ndim or len(each) != len(weight) for each in owned):
        raise node_fault(model, node, _NOT_CONSTANT)
    nodes, products, made = list[Node](), list[str](), next(filter(None, node.outputs))
    for index, each in enumerate(weight):
        names = [f"{made}/{what} of direction {index}" for what in ("weight", "scale", "zero point", "product")]
        constants.update(zip(names, (each, _one(scale[index])), strict=False))
        if point is not None:
            constants[names[2]] = _one(point[index])
        taken = (node.input(0), names[0], names[1], names[2] if point is not None else "")
        product = written(names[3], "DynamicQuantizeMatMul", taken, (names[3],), operator="DynamicQuantizeMatMul")
        nodes += unfused(product)
        products.append(names[3])
    if len(products) > 1:
        nodes.append(written(f"{made}/products", "Concat", products, (f"{made}/products",), {"axis": -1}))
    states = node.input(_OF_STATES[0])
    inputs = (nodes[-1].outputs[0], states, states, *(node.input(index) for index in (3, 4, 5, 6, 7, *_OF_STATES[1:])))
    # Onnx infers the shapes of an LSTM from its data's steps and batch.
    proto = onnx.helper.make_node("LSTM", [*inputs[:3]], node.outputs, name=node.name)
    proto.attribute.extend(node.proto.attribute)
    return [*nodes, replace(node, inputs=inputs, proto=proto)]


def _one(values: Array) -> Array:
    """Values of columns, or the one that they all are."""
    return values.reshape(-1)[0] if values.size and np.all(values == values.reshape(-1)[0]) else values

"""QLinear nodes as the float nodes that they stand for, between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from int8tune.compiler.onnx_reader.nodes import Node, node_fault, written
from int8tune.compiler.onnx_reader.tensors import Array

# By operator: what it computes; where each quantized input begins, its scale and zero point behind it; where the
# scale and zero point of the output are; where the bias is, whose scale is that of the sums.
FORMS: dict[str, tuple[str, tuple[int, ...], int, int | None]] = {
    "QLinearConv": ("Conv", (0, 3), 6, 8),
    "QLinearMatMul": ("MatMul", (0, 3), 6, None),
    "QGemm": ("Gemm", (0, 3), 7, 6),
    "QLinearAdd": ("Add", (0, 3), 6, None),
    "QLinearMul": ("Mul", (0, 3), 6, None),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), 3, None),
    "QLinearAveragePool": ("AveragePool", (0,), 3, None),
    "QLinearSigmoid": ("Sigmoid", (0,), 3, None),
    "QLinearLeakyRelu": ("LeakyRelu", (0,), 3, None),
    "QLinearSoftmax": ("Softmax", (0,), 3, None),
}
# Of Microsoft's operators, which the float ones don't have.
_FOREIGN_ATTRIBUTES = ("channels_last", "opset")


def float_nodes(node: Node, constants: dict[str, Array], model: str) -> list[Node]:
    """The node itself, or what it stands for; the scales of biases are added to the constants.

    Raises:
        ModelError: the node's images are [N, H, W, C].
    """
    if node.operator == "QLinearConcat":
        starts = tuple(range(2, len(node.inputs), 3))
        return _between("Concat", node, starts, 0, None, constants)
    if node.operator == "QLinearWhere":
        return _between("Where", node, (1, 4), 7, None, constants, plain=(0,))
    if node.operator not in FORMS:
        return [node]
    if node.attributes.get("channels_last"):
        raise node_fault(model, node, "images must be [N, C, H, W]: channels_last is 1")
    computes, starts, output, bias = FORMS[node.operator]
    return _between(computes, node, starts, output, bias, constants)


def _between(
    computes: str,
    node: Node,
    starts: tuple[int, ...],
    output: int,
    bias: int | None,
    constants: dict[str, Array],
    plain: tuple[int, ...] = (),
) -> list[Node]:
    """The nodes; inputs in `plain`, which come first, are not quantized."""
    made = node.outputs[0]
    inputs, nodes = [node.input(index) for index in plain], []
    for start in starts:
        name = f"{made}/dequantized input {start}"
        taken = (node.input(start), node.input(start + 1), node.input(start + 2))
        axis = {"axis": _axis(computes, node)}
        nodes.append(written(f"{node.name}/{start}", "DequantizeLinear", taken, [name], axis))
        inputs.append(name)
    if bias is not None and node.input(bias):
        scale, name = f"{made}/scale of sums", f"{made}/dequantized bias"
        constants[scale] = _product(constants, node.input(1), node.input(4))
        taken = (node.input(bias), scale, "")
        nodes.append(written(f"{node.name}/bias", "DequantizeLinear", taken, [name], {"axis": 0}))
        inputs.append(name)
    attributes = {key: value for key, value in node.attributes.items() if key not in _FOREIGN_ATTRIBUTES}
    result = f"{made}/float"
    own = written(node.name, computes, inputs, [result], attributes, node.operator)
    nodes.append(replace(own, attributes=node.attributes))
    taken = (result, node.input(output), node.input(output + 1))
    nodes.append(written(f"{node.name}/quantized", "QuantizeLinear", taken, [made]))
    return nodes


def _axis(computes: str, node: Node) -> int:
    """Of a weight's output channels."""
    return 0 if computes == "Conv" or node.attributes.get("transB") else -1


def _product(constants: Mapping[str, Array], data_scale: str, weight_scale: str) -> Array:
    """Of two scales; a stand-in where they are no constants, which is found where the data is dequantized."""
    data, weight = constants.get(data_scale), constants.get(weight_scale)
    if data is None or weight is None or data.size != 1 or weight.ndim > 1:
        return np.ones(1, np.float32)
    with np.errstate(all="ignore"):
        return np.asarray(data.reshape(()).astype(np.float32) * weight.astype(np.float32))

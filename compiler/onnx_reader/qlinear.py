"""QLinear nodes as the float nodes that they stand for, between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from int8tune.compiler.onnx_reader.gemm_biases import GEMM, gemm_nodes, has_bias_of_rows
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
# From this one on, Softmax is along one axis, and no longer along all from that one on.
_OPSET_OF_SOFTMAX = 13
# Of images whose operator doesn't say how many axes they have.
_RANK = 4


def float_nodes(node: Node, constants: dict[str, Array], opset: int, model: str) -> list[Node]:
    """The node itself, or what it stands for; scales that follow from others are added to the constants.

    Raises:
        ModelError: it is a softmax of another version than the file's, or a product whose factor no scale can have.
    """
    if node.operator == "QLinearConcat":
        starts = tuple(range(2, len(node.inputs), 3))
        return _between("Concat", node, starts, 0, None, constants)
    if node.operator == "QLinearWhere":
        return _between("Where", node, (1, 4), 7, None, constants, plain=(0,))
    if node.operator not in FORMS:
        return [node]
    computes, starts, output, bias = FORMS[node.operator]
    if computes == "Softmax":
        _require_version(node, opset, model)
    if node.operator == GEMM and has_bias_of_rows(node, constants):
        return gemm_nodes(node, constants)
    if computes == "Gemm" and node.attributes.get("alpha", 1.0) != 1:
        node = _with_factor_in_scale(node, constants, model)
    if node.attributes.get("channels_last"):
        rank = constants[node.input(3)].ndim if computes == "Conv" and node.input(3) in constants else _RANK
        return with_channels_first(node, rank, lambda moved: _between(computes, moved, starts, output, bias, constants))
    return _between(computes, node, starts, output, bias, constants)


def with_channels_first(node: Node, rank: int, nodes_of: Callable[[Node], list[Node]]) -> list[Node]:
    """What a node stands for whose images are [N, H, W, C], between transpositions."""
    taken, made = f"{node.outputs[0]}/channels first", f"{node.outputs[0]}/made of channels first"
    first, last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    moved = replace(node, inputs=(taken, *node.inputs[1:]), outputs=(made,))
    return [
        written(f"{node.name}/first", "Transpose", [node.input(0)], [taken], {"perm": first}, node.operator),
        *nodes_of(moved),
        written(f"{node.name}/last", "Transpose", [made], [node.outputs[0]], {"perm": last}, node.operator),
    ]


def _require_version(node: Node, opset: int, model: str) -> None:
    own = node.attributes.get("opset", opset)
    is_other = not isinstance(own, int) or (own < _OPSET_OF_SOFTMAX) != (opset < _OPSET_OF_SOFTMAX)
    if is_other and node.attributes.get("axis") != -1:
        raise node_fault(model, node, f"its opset {own} must mean the same axes as the file's {opset}")


def _with_factor_in_scale(node: Node, constants: dict[str, Array], model: str) -> Node:
    """A product whose weights have its factor in their scale.

    ONNX Runtime multiplies sums, of which the bias is one, by factor times data's scale, times weights' scale.
    """
    data, weight = constants.get(node.input(1)), constants.get(node.input(4))
    if data is None or weight is None or data.size != 1 or {data.dtype, weight.dtype} != {np.dtype(np.float32)}:
        raise node_fault(model, node, "its scales must be constants in f32, as its alpha is not 1")
    with np.errstate(all="ignore"):
        one = data.reshape(())
        wanted = np.asarray(np.float32(node.attributes["alpha"]) * one * weight)
        found = np.asarray(wanted / one)
        for near in (np.nextafter(found, np.float32(0)), np.nextafter(found, np.float32(np.inf))):
            found = np.where(one * found == wanted, found, near)
        if not (one * found == wanted).all():
            raise node_fault(model, node, f"no scale of its weights has its alpha: {node.attributes['alpha']}")
    name = f"{node.outputs[0]}/scale with alpha"
    constants[name] = found
    attributes = {**node.attributes, "alpha": 1.0}
    return replace(node, inputs=(*node.inputs[:4], name, *node.inputs[5:]), attributes=attributes)


def _between(
    computes: str,
    node: Node,
    starts: tuple[int, ...],
    output: int,
    bias: int | None,
    constants: dict[str, Array],
    plain: tuple[int, ...] = (),
) -> list[Node]:
    """The nodes; inputs in `plain`, which come first, are not quantized, and an output without a scale isn't either."""
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
    result = f"{made}/float" if node.input(output) else made
    own = written(node.name, computes, inputs, [result], attributes, node.operator)
    nodes.append(replace(own, attributes=node.attributes))
    if result != made:
        taken = (result, node.input(output), node.input(output + 1))
        nodes.append(written(f"{node.name}/quantized", "QuantizeLinear", taken, [made]))
    return nodes


def _axis(computes: str, node: Node) -> int:
    """The axis of a weight's output channels."""
    return 0 if computes == "Conv" or node.attributes.get("transB") else -1


def _product(constants: Mapping[str, Array], data_scale: str, weight_scale: str) -> Array:
    """The product of two scales; a stand-in where they are not constant, which is found where data is dequantized."""
    data, weight = constants.get(data_scale), constants.get(weight_scale)
    if data is None or weight is None or data.size != 1 or weight.ndim > 1:
        return np.ones(1, np.float32)
    with np.errstate(all="ignore"):
        return np.asarray(data.reshape(()).astype(np.float32) * weight.astype(np.float32))

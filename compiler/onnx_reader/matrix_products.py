"""MatMul of two quantized values: products of matrices that are both computed, or constants of more than two axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators import matmul


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
    """What a product takes."""

    inputs: tuple[Value, Value]
    attributes: Mapping[str, Any]


def matrices_of(node: Node, values: GraphValues, output: Value) -> Matrices | None:
    """The matrices of a node; None where it is no product of quantized ones."""
    if node.computes != "MatMul" or len(node.inputs) != 2:
        return None
    first, second = (values.operand(name) for name in node.inputs)
    if first is None or second is None or min(len(first.shape), len(second.shape)) < 2:
        return None
    found = product_of(node, (first, second), output)
    return found if isinstance(found, Matrices) else None


def product_of(node: Node, inputs: tuple[Value, Value], output: Value) -> Matrices | str:
    """The product of two stored values of two axes at least; why it is none that a kernel computes."""
    attributes = {"order": tuple(range(len(inputs[1].shape)))}
    names = (inputs[0].name, inputs[1].name)
    operator = Operator(Kind.MATMUL, (node.name,), node.operator, names, (output.name,), "float", None, attributes)
    return matmul.fault(operator, inputs, output) or Matrices(inputs, attributes)

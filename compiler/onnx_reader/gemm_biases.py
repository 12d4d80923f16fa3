"""QGemm of ONNX Runtime whose bias has a value for each row, or is computed: MatMulInteger, and what its sums become.

Source: its docs/ContribOperators.md and its kernel, which multiplies 32-bit sums by one factor in binary32.
"""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np

from int8tune.compiler.onnx_reader.nodes import Node, written
from int8tune.compiler.onnx_reader.tensors import Array

GEMM = "QGemm"
_DATA, _WEIGHT, _BIAS, _SCALE = 0, 3, 6, 7
_FLOAT = 1
_NUMBERS = {np.dtype(np.uint8): 2, np.dtype(np.int8): 3}


def has_bias_of_rows(node: Node, constants: MutableMapping[str, Array]) -> bool:
    """Whether a QGemm has a bias that is not one of channels, and all else that `gemm_nodes` reads."""
    name, point = node.input(_BIAS), constants.get(node.input(_SCALE + 1))
    if not name or (node.input(_SCALE) and (point is None or point.size != 1 or point.dtype not in _NUMBERS)):
        return False
    if not isinstance(node.attributes.get("alpha", 1.0), float):
        return False
    bias = constants.get(name)
    return bias is None or (bias.ndim == 2 and bias.shape[0] > 1)


def gemm_nodes(node: Node, constants: MutableMapping[str, Array]) -> list[Node]:
    """The nodes of a QGemm that `has_bias_of_rows`."""
    made, nodes = node.outputs[0], list[Node]()

    def apply(computes: str, *inputs: str | Array, output: str = "", **attributes: int) -> str:
        label = f"{made}/{GEMM} {len(nodes)}"
        names = []
        for at, each in enumerate(inputs):
            names.append(each if isinstance(each, str) else f"{label} {at}")
            if not isinstance(each, str):
                constants[names[-1]] = each
        nodes.append(written(f"{node.name}/{computes} {len(nodes)}", computes, names, [output or label], attributes))
        return output or label

    matrices = [
        apply("Transpose", node.input(index)) if node.attributes.get(flag, 0) else node.input(index)
        for index, flag in ((_DATA, "transA"), (_WEIGHT, "transB"))
    ]
    sums = apply("MatMulInteger", *matrices, node.input(_DATA + 2), node.input(_WEIGHT + 2))
    numbers = apply("Cast", apply("Add", sums, node.input(_BIAS)), to=_FLOAT)
    alpha = np.array(node.attributes.get("alpha", 1.0), np.float32)
    factor = apply("Mul", apply("Mul", alpha, node.input(_DATA + 1)), node.input(_WEIGHT + 1))
    if not node.input(_SCALE):
        apply("Mul", numbers, factor, output=made)
        return nodes
    point = constants[node.input(_SCALE + 1)].reshape(())
    steps = apply("Round", apply("Mul", numbers, apply("Div", factor, node.input(_SCALE))))
    limits = [np.array(each, np.float32) for each in (np.iinfo(point.dtype).min, np.iinfo(point.dtype).max)]
    within = apply("Min", apply("Max", apply("Add", steps, point.astype(np.float32)), limits[0]), limits[1])
    apply("Cast", within, output=made, to=_NUMBERS[point.dtype])
    return nodes

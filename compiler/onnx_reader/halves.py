"""Models in float16 whose layers are quantized, computed in float32 wherever they are numbers.

NVIDIA's ModelOpt writes such models. ONNX Runtime rounds the numbers of their steps to float16 in front of each layer,
which no sum of integers does; so computed, its int8 layers are int8 layers, and no number is less precise. Models in
float16 that have no such layer stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.compiler.naming import new_name
from int8tune.compiler.onnx_reader.nodes import Node, renamed, written
from int8tune.compiler.onnx_reader.tensors import Array

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_DEQUANTIZE = "DequantizeLinear"
# ONNX's numbers of types, and the attributes that name one.
_FLOAT, _HALF = 1, 10
_TYPES = ("to", "output_dtype", "precision", "dtype")
# Nodes that may be between what is dequantized and the layer that takes it.
_MOST_BETWEEN = 8


def with_floats(nodes: Sequence[Node], constants: MutableMapping[str, Array], graph: Any) -> tuple[Node, ...]:
    """The nodes in order, in float32 where a layer of them takes quantized values in float16; else as they are.

    Args:
        constants: get the type of the nodes.
        graph: the file's; its inputs and outputs keep their types, what it says of other values is changed.
    """
    if not _has_half_layers(nodes, constants):
        return tuple(nodes)
    for name, array in constants.items():
        if array.dtype == np.float16:
            constants[name] = array.astype(np.float32)
    for info in graph.value_info:
        if info.type.tensor_type.elem_type == _HALF:
            info.type.tensor_type.elem_type = _FLOAT
    names = {*constants, *(name for node in nodes for name in (*node.inputs, *node.outputs))}
    inputs, outputs = (
        {name: new_name(f"{name}/f32", names) for name in _halves(infos)} for infos in (graph.input, graph.output)
    )
    names_of = inputs | outputs
    casts = [_cast(name, number, _FLOAT) for name, number in inputs.items()]
    computed = [_in_floats(node, names_of) for node in nodes]
    return (*casts, *computed, *(_cast(number, name, _HALF) for name, number in outputs.items()))


def _has_half_layers(nodes: Sequence[Node], constants: Mapping[str, Array]) -> bool:
    makers = {name: node for node in nodes for name in node.outputs}

    def is_dequantized(name: str) -> bool:
        for _ in range(_MOST_BETWEEN):
            maker = makers.get(name)
            if maker is None:
                return False
            if maker.computes == _DEQUANTIZE:
                scale = constants.get(maker.input(1))
                return scale is not None and scale.dtype == np.float16
            name = maker.input(0)
        return False

    layers = (node for node in nodes if node.computes in _LAYERS)
    return any(is_dequantized(node.input(0)) and is_dequantized(node.input(1)) for node in layers)


def _halves(infos: Any) -> list[str]:
    return [info.name for info in infos if info.type.tensor_type.elem_type == _HALF]


def _cast(taken: str, made: str, to: int) -> Node:
    return written(f"{made}/cast", "Cast", (taken,), (made,), {"to": to})


def _in_floats(node: Node, names: Mapping[str, str]) -> Node:
    """The node with other names, and with float32 wherever it names float16."""
    import onnx

    inputs, outputs = ([names.get(name, name) for name in each] for each in (node.inputs, node.outputs))
    node, attributes = renamed(node, inputs, outputs), dict(node.attributes)
    for attribute in node.proto.attribute:
        if attribute.name in _TYPES and attribute.i == _HALF:
            attribute.i = attributes[attribute.name] = _FLOAT
        if attribute.HasField("t") and attribute.t.data_type == _HALF:
            wide = onnx.numpy_helper.to_array(attribute.t).astype(np.float32)
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(wide))
            attributes[attribute.name] = wide
    return replace(node, attributes=attributes)

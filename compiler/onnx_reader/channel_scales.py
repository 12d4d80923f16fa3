"""Depthwise layers whose data has a scale for each channel, as NNCF writes them: scales of products, by the weights.

A channel of the output is a sum of products of one channel of data, so that its scale can be moved to the weights:
what is stored stays, the data's steps become 1, and the layer is one of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np

from int8tune.compiler.naming import new_name
from int8tune.compiler.onnx_reader.nodes import Node, renamed, written
from int8tune.compiler.onnx_reader.tensors import Array

DEQUANTIZE = "DequantizeLinear"


def with_scales_moved(nodes: Sequence[Node], constants: MutableMapping[str, Array]) -> tuple[Node, ...]:
    """The nodes in order, those of depthwise layers with nodes of their own for data and weights.

    Args:
        constants: get their scales.
    """
    makers = {name: node for node in nodes for name in node.outputs}
    names = {*constants, *(name for node in nodes for name in (*node.inputs, *node.outputs))}
    made: list[Node] = []
    for node in nodes:
        scale = _moved_scale(node, makers, constants)
        made += [node] if scale is None else _rewritten(node, scale, makers, constants, names)
    return tuple(made)


def _moved_scale(node: Node, makers: Mapping[str, Node], constants: Mapping[str, Array]) -> Array | None:
    """The scales of a layer's products; None where it is no depthwise layer with scales of data by channels."""
    data, weights = (makers.get(node.input(index)) for index in (0, 1))
    if node.computes != "Conv" or data is None or weights is None:
        return None
    stored = constants.get(weights.input(0))
    if stored is None or data.input(0) in constants or stored.ndim < 3 or stored.shape[1] != 1:
        return None
    channels = node.attributes.get("group", 1)
    own, other = _scale(data, constants, (1, 1 - stored.ndim)), _scale(weights, constants, (0, -stored.ndim))
    if own is None or other is None or own.size == 1 or own.size != channels or len(stored) % own.size:
        return None
    if other.size not in (1, len(stored)) or not (_is_one_point(data, constants) and _are_positive(own, other)):
        return None
    if weights.input(2) and weights.input(2) not in constants:
        return None
    product: Array = np.repeat(own, len(stored) // own.size) * other
    return product if _are_positive(product) else None


def _scale(node: Node, constants: Mapping[str, Array], axes: tuple[int, int]) -> Array | None:
    """The constant scales of a node: one, or those of an axis by either of its numbers."""
    scale = constants.get(node.input(1))
    if node.computes != DEQUANTIZE or scale is None or scale.dtype != np.float32 or scale.ndim > 1:
        return None
    if node.attributes.get("block_size") or (scale.size > 1 and node.attributes.get("axis", 1) not in axes):
        return None
    return scale.reshape(-1)


def _is_one_point(node: Node, constants: Mapping[str, Array]) -> bool:
    """Whether all channels have the same zero point."""
    point = constants.get(node.input(2))
    return not node.input(2) or (point is not None and point.size > 0 and len(np.unique(point)) == 1)


def _are_positive(*scales: Array) -> bool:
    return all(bool((np.isfinite(each) & (each > 0)).all()) for each in scales)


def _rewritten(
    node: Node, scale: Array, makers: Mapping[str, Node], constants: MutableMapping[str, Array], names: set[str]
) -> list[Node]:

    def kept(what: str, values: Array | None = None) -> str:
        name = new_name(f"{node.outputs[0]}/{what}", names)
        if values is not None:
            constants[name] = values
        return name

    data, weights = makers[node.input(0)], makers[node.input(1)]
    steps = [data.input(0), kept("step", np.ones((), np.float32))]
    if data.input(2):
        steps.append(kept("zero point", constants[data.input(2)].reshape(-1)[0].reshape(())))
    product = [weights.input(0), kept("scales of products", scale), weights.input(2)]
    if product[2] and constants[product[2]].size == 1:
        product[2] = kept("zero points", np.broadcast_to(constants[product[2]].reshape(-1), scale.size).copy())
    inputs = (kept("steps"), kept("weights"), *node.inputs[2:])
    return [
        written(f"{node.name}/data", DEQUANTIZE, steps, [inputs[0]]),
        written(f"{node.name}/weights", DEQUANTIZE, product, [inputs[1]], {"axis": 0}),
        renamed(node, inputs),
    ]

"""Values of four bits and fewer, which are computed as 8-bit ones of their own, narrower range.

Constants are unpacked when a file is read. What a QuantizeLinear makes of a computed value has to stay in the range: a
Clip in front of it bounds what is stored exactly, as quantizing is monotonic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.compiler.graph import ElementType
from int8tune.compiler.naming import free_name
from int8tune.compiler.onnx_reader.nodes import Node, model_fault, quoted, renamed
from int8tune.compiler.onnx_reader.tensors import NARROW, Array

Bounds = tuple[int, int]

QUANTIZE, TYPE = "QuantizeLinear", "output_dtype"
# These make values of another type than they take.
_CHANGING = ("DequantizeLinear", "Cast", "Shape", "Size")
_NUMBERS: dict[ElementType, int] = {"u8": 2, "s8": 3}


def narrow_names(model: Any) -> dict[str, int]:
    """The initializers and Constant nodes of a model whose values have few bits, and their type."""
    found = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output:
            found.update((node.output[0], each.t.data_type) for each in node.attribute if each.name == "value")
    return {name: type_ for name, type_ in found.items() if type_ in NARROW}


def with_clips(
    nodes: Sequence[Node],
    constants: dict[str, Array],
    types: Mapping[str, int],
    outputs: Iterable[str],
    model: str,
) -> tuple[tuple[Node, ...], dict[str, Bounds]]:
    """The nodes, and bounds of what some of them store.

    Args:
        nodes: in order; a Clip is added before each that stores values of few bits by one constant scale.
        constants: gets the bounds of these.
        types: of constants of few bits.

    Raises:
        ModelError: an output of the model has few bits.
    """
    narrow, known, bounds = dict(types), set(constants), dict[str, Bounds]()
    names = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    made: list[Node] = []
    nodes = _with_clips_moved(nodes, constants, outputs, names)
    for node in nodes:
        if all(name in known for name in node.inputs if name):
            known.update(node.outputs)
        type_ = _type_of(node, narrow)
        if type_ is None:
            made.append(node)
            continue
        narrow.update(dict.fromkeys(node.outputs, type_))
        if node.computes != QUANTIZE:
            made.append(node)
            continue
        element, *limits = NARROW[type_]
        node = _of_bytes(node, element)
        if node.input(0) in known or not has_one_scale(node, constants):
            bounds[node.outputs[0]] = (limits[0], limits[1])
            made.append(node)
        else:
            made += _clipped(node, constants, (limits[0], limits[1]), names)
    for name in outputs:
        if name in narrow and name not in types:
            raise model_fault(
                model, f"the model's output {quoted(name)} has values of few bits, it must have 8 or more"
            )
    return tuple(made), bounds


def _with_clips_moved(
    nodes: Sequence[Node], constants: dict[str, Array], outputs: Iterable[str], names: set[str]
) -> list[Node]:
    """The nodes; a Clip of what a QuantizeLinear stores, as Brevitas writes values of few bits, is in front of that."""
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    kept, moved = frozenset(outputs), set[str]()
    made: list[Node] = []
    for node in nodes:
        read = readers.get(node.outputs[0], [])
        is_read_once = node.computes == QUANTIZE and len(read) == 1 and node.outputs[0] not in kept
        limits = _limits(node, read[0], constants) if is_read_once else None
        if limits is not None:
            moved.add(read[0].outputs[0])
            made += _clipped(renamed(node, node.inputs, read[0].outputs), constants, limits, names)
        elif node.outputs[0] not in moved:
            made.append(node)
    return made


def _limits(node: Node, clip: Node, constants: Mapping[str, Array]) -> Bounds | None:
    """The bounds that a Clip gives to what a node stores; None unless all that they depend on is known and single."""
    parameters = [constants.get(name) for name in (*node.inputs[1:3], *clip.inputs[1:3])]
    if clip.computes != "Clip" or len(parameters) != 4 or not all(_is_one(each) for each in parameters):
        return None
    scale, point, *ends = (each.reshape(-1)[0] for each in parameters if each is not None)
    if any(each.dtype not in (np.uint8, np.int8) for each in (point, *ends)) or not (scale > 0 and np.isfinite(scale)):
        return None
    least, most = (int(each) for each in ends)
    return (least, most) if least <= most else None


def has_one_scale(node: Node, constants: Mapping[str, Array]) -> bool:
    """Whether a node quantizes or dequantizes by one scale and one zero point that are known."""
    scale, point = (constants.get(name) for name in (node.input(1), node.input(2)))
    return _is_one(scale) and (not node.input(2) or _is_one(point))


def _is_one(array: Array | None) -> bool:
    return array is not None and array.size == 1


def _type_of(node: Node, narrow: Mapping[str, int]) -> int | None:
    """The type that a node makes, if that has few bits."""
    if node.computes == QUANTIZE:
        type_ = node.attributes.get(TYPE, 0)
        return narrow.get(node.input(2)) or (type_ if isinstance(type_, int) and type_ in NARROW else None)
    return None if node.computes in _CHANGING else narrow.get(node.input(0))


def _of_bytes(node: Node, element: ElementType) -> Node:
    """A QuantizeLinear that says that it makes bytes."""
    if TYPE not in node.attributes:
        return node
    import onnx

    proto = onnx.NodeProto.FromString(node.proto.SerializeToString())
    for attribute in proto.attribute:
        if attribute.name == TYPE:
            attribute.i = _NUMBERS[element]
    return replace(node, attributes={**node.attributes, TYPE: _NUMBERS[element]}, proto=proto)


def _clipped(node: Node, constants: dict[str, Array], limits: Bounds, names: set[str]) -> list[Node]:
    """The node behind a Clip to what the least and the most stored value stand for."""
    import onnx

    made, scale = node.outputs[0], constants[node.input(1)].reshape(())
    point = np.int64(constants[node.input(2)].reshape(())) if node.input(2) else np.int64(0)
    least, most, clipped = (free_name(f"{made}/{end}", constants, names) for end in ("least", "most", "clipped"))
    with np.errstate(all="ignore"):
        for name, limit in zip((least, most), limits, strict=True):
            constants[name] = np.asarray(scale * np.asarray(limit - point, scale.dtype))
    inputs = (node.input(0), least, most)
    clip = onnx.helper.make_node("Clip", inputs, [clipped], name=f"{node.name}/clip")
    return [
        Node(clip.name, "Clip", "Clip", inputs, (clipped,), {}, clip),
        renamed(node, (clipped, *node.inputs[1:])),
    ]

"""DequantizeLinear of computed integers of 32 bits, such as a ConvInteger's sums, as a Cast and a Mul.

ONNX Runtime computes it so; such integers have no zero point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from int8tune.compiler.islands.island import ELEMENTS
from int8tune.compiler.naming import free_name
from int8tune.compiler.onnx_reader.nodes import Node, written
from int8tune.compiler.onnx_reader.shapes import Form
from int8tune.compiler.onnx_reader.tensors import Array


def with_sums_as_numbers(
    nodes: Sequence[Node], forms: Mapping[str, Form], known: Mapping[str, Array]
) -> tuple[tuple[Node, ...], dict[str, Form]]:
    """The nodes, and the forms of their values; a node stays where it does more than a product."""
    all_forms = dict(forms)
    return tuple(each for node in nodes for each in _numbers(node, all_forms, known)), all_forms


def _numbers(node: Node, forms: dict[str, Form], known: Mapping[str, Array]) -> Iterator[Node]:
    if not _is_product(node, forms, known):
        yield node
        return
    name = free_name(f"{node.outputs[0]}/sum", forms)
    forms[name] = "f32", forms[node.outputs[0]][1]
    yield written(name, "Cast", node.inputs[:1], (name,), {"to": ELEMENTS["f32"]}, node.operator)
    yield written(node.name, "Mul", (name, node.input(1)), node.outputs, {}, node.operator)


def _is_product(node: Node, forms: Mapping[str, Form], known: Mapping[str, Array]) -> bool:
    data, scale = node.input(0), node.input(1)
    if node.computes != "DequantizeLinear" or data in known or forms.get(data, ("", ()))[0] != "s32":
        return False
    if node.input(2) and (node.input(2) not in known or known[node.input(2)].any()):
        return False
    (element, extents), shape = forms.get(scale, ("", ())), forms[data][1]
    axis = node.attributes.get("axis", 1)
    is_last = axis in (-1, len(shape) - 1) and not node.attributes.get("block_size")
    return element == "f32" and (extents == () or (extents == (1,) and shape != ()) or (len(extents) == 1 and is_last))

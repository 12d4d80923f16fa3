"""Rows of a quantized table, such as a model's words: taken as they are stored, and dequantized then.

Files dequantize the whole table first. As numbers it would be four times as large in the library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from int8tune.compiler.naming import new_name
from int8tune.compiler.onnx_reader.nodes import Node, written
from int8tune.compiler.onnx_reader.tensors import TYPES, Array

STORED = ("u8", "s8", "u16", "s16")


def with_stored_tables(
    nodes: Sequence[Node], constants: Mapping[str, Array], narrow: Collection[str]
) -> tuple[Node, ...]:
    """The nodes, in order; `narrow` are constants of fewer than 8 bits, whose tables stay as they are."""
    makers = {name: node for node in nodes for name in node.outputs}
    names = {*makers, *constants, *(name for node in nodes for name in node.inputs)}
    return tuple(each for node in nodes for each in _rows(node, makers, constants, narrow, names))


def _rows(
    node: Node, makers: Mapping[str, Node], constants: Mapping[str, Array], narrow: Collection[str], names: set[str]
) -> Iterator[Node]:
    table = makers.get(node.input(0))
    is_taken = node.computes == "Gather" and table is not None and node.input(1) not in constants
    if table is None or not is_taken or table.input(0) in narrow or not _is_stored(table, constants):
        yield node
        return
    name = new_name(f"{node.outputs[0]}/stored", names)
    yield written(name, "Gather", (table.input(0), node.input(1)), (name,), node.attributes, node.operator)
    yield written(node.name, "DequantizeLinear", (name, *table.inputs[1:]), node.outputs, {}, node.operator)


def _is_stored(table: Node, constants: Mapping[str, Array]) -> bool:
    """Whether a node dequantizes constants of 8 or 16 bits that have one scale."""
    stored, scale = (constants.get(table.input(at)) for at in (0, 1))
    if table.computes != "DequantizeLinear" or stored is None or scale is None:
        return False
    return TYPES.get(stored.dtype) in STORED and scale.size == 1 and scale.dtype.name == "float32"

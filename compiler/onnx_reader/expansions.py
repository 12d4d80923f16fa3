"""Nodes that TVM's importer does not convert, or not as ONNX defines them, as several that it does."""

from __future__ import annotations

from collections.abc import Callable

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node

# Raises UnsupportedNodeError where it does not write what a node is.
Expansion = Callable[[FloatWriter, OnnxFile, Node], None]

_UINT8 = 2
_MOST = 255


def _dynamic_quantize(writer: FloatWriter, _file: OnnxFile, node: Node) -> None:
    """Bytes from the least to the most of all values and zero; as ONNX Runtime, a scale of 1 where all are zero."""
    data, (made, scale, point) = node.input(0), (*node.outputs, "", "")[:3]
    most = writer.apply("Max", writer.apply("ReduceMax", data, keepdims=0), 0.0)
    least = writer.apply("Min", writer.apply("ReduceMin", data, keepdims=0), 0.0)
    extent = writer.apply("Sub", most, least)
    is_none = writer.apply("Equal", extent, 0.0)
    scale = writer.apply("Where", is_none, 1.0, writer.apply("Div", extent, float(_MOST)), output=scale)
    below = writer.apply("Neg", writer.apply("Div", least, scale))
    steps = writer.apply("Round", writer.apply("Min", writer.apply("Max", below, 0.0), float(_MOST)))
    if point:
        writer.apply("Cast", steps, output=point, to=_UINT8)
    rounded = writer.apply("Add", writer.apply("Round", writer.apply("Div", data, scale)), steps)
    within = writer.apply("Min", writer.apply("Max", rounded, 0.0), float(_MOST))
    writer.apply("Cast", within, output=made, to=_UINT8)


EXPANSIONS: dict[str, Expansion] = {"DynamicQuantizeLinear": _dynamic_quantize}

"""MatMulInteger16 of ONNX Runtime: a product of 16-bit integers, whose sums have 32 bits.

As there, what exceeds 32 bits is left out: sums are computed in 64 bits first, where each is whole.
"""

from __future__ import annotations

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError

_INT32, _INT64 = 6, 7


def write_word_product(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    elements = [file.forms[name][0] for name in node.inputs]
    if elements != ["s16", "s16"]:
        raise UnsupportedNodeError(f"it must multiply two matrices of s16: {', '.join(elements)}")
    wide = [writer.apply("Cast", name, to=_INT64) for name in node.inputs]
    writer.apply("Cast", writer.apply("MatMul", *wide), output=node.outputs[0], to=_INT32)

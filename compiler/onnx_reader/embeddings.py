"""Words, their places and segments, looked up, added and normalized, as ONNX Runtime's optimizer fuses it.

Source: ONNX Runtime's docs/ContribOperators.md, EmbedLayerNormalization and QEmbedLayerNormalization.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from int8tune.compiler.onnx_reader.fused_writer import FusedWriter
from int8tune.compiler.onnx_reader.nodes import OPSET_OF_SUM_AXES
from int8tune.compiler.onnx_reader.normalizations import normalized

# Of a table and an index, the rows that it has there.
_Look = Callable[[int, str], str]
_MASK = 7
# Behind the mask, the scales of three tables, of the factors and of what is added; then their zero points.
_SCALES, _QUANTIZED = 8, 5


def write_embedding(w: FusedWriter) -> None:
    w.require_only(0, 1, 2, 3, 4, 5, 6, 7, 8, outputs=(0, 1, 2))
    found = _found(w, lambda table, index: w.apply("Gather", w.node.input(table), index), w.node.input(8))
    normalized(w, found, w.node.input(5), w.node.input(6), 2)
    _write_counts(w)


def write_quantized_embedding(w: FusedWriter) -> None:
    """The same of tables in 8 bits, of which rows are dequantized when they are found."""
    w.require_only(*range(_SCALES + 2 * _QUANTIZED), outputs=(0, 1))

    def numbers(index: int, stored: str) -> str:
        parameters = [w.node.input(start + index - 2) for start in (_SCALES, _SCALES + _QUANTIZED)]
        w.require(bool(stored) and all(name in w.constants and w.constants[name].size == 1 for name in parameters))
        return w.apply("DequantizeLinear", stored, *parameters)

    found = _found(w, lambda table, index: numbers(table, w.apply("Gather", w.node.input(table), index)), "")
    scale, bias = (numbers(index, w.node.input(index)) for index in (5, 6))
    normalized(w, found, scale, bias, 2)
    _write_counts(w)


def _found(w: FusedWriter, look: _Look, places: str) -> tuple[str, ...]:
    """Rows of words, of their places, and of segments, if there are any."""
    words, segments = w.node.input(0), w.node.input(1)
    if not places:
        extent = w.apply("Gather", w.apply("Shape", words), np.array(1))
        places = w.apply("Range", np.array(0), extent, np.array(1))
    found = [look(2, words), look(3, places)]
    if segments:
        found.append(look(4, segments))
    return tuple(found)


def _write_counts(w: FusedWriter) -> None:
    """How many words of each sentence the mask has; 0 without one."""
    if len(w.node.outputs) > 1 and w.node.outputs[1]:
        counted = w.node.input(_MASK) or w.apply("Mul", w.node.input(0), np.array(0, np.int32))
        along = {"axes": [1]} if w.opset < OPSET_OF_SUM_AXES else {}
        axes = [] if along else [np.array([1])]
        w.apply("ReduceSum", counted, *axes, output=w.node.outputs[1], keepdims=0, **along)

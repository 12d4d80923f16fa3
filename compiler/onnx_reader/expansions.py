"""Nodes that TVM's importer does not convert, or not as ONNX defines them, as several that it does."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from int8tune.compiler.graph import ElementType
from int8tune.compiler.onnx_reader import compositions, sequences, spectra
from int8tune.compiler.onnx_reader.antialias import write_resize
from int8tune.compiler.onnx_reader.column_images import write_col2im
from int8tune.compiler.onnx_reader.cumulative import write_cumulative_product
from int8tune.compiler.onnx_reader.dynamic import LSTM as QUANTIZED_LSTM
from int8tune.compiler.onnx_reader.einsums import write_einsum
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.group_query import write_group_query_attention
from int8tune.compiler.onnx_reader.group_query_sizes import GROUP_QUERY
from int8tune.compiler.onnx_reader.nodes import MICROSOFT, Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.quantization import DEQUANTIZE, INTEGERS, QUANTIZE
from int8tune.compiler.onnx_reader.quantized_lstm import write_quantized_lstm
from int8tune.compiler.onnx_reader.recurrent import GATES, write_recurrent
from int8tune.compiler.onnx_reader.roi_align import write_roi_align
from int8tune.compiler.onnx_reader.run_time import MOST, bytes_at_run_time
from int8tune.compiler.onnx_reader.shapes import WORD_PRODUCT
from int8tune.compiler.onnx_reader.word_products import write_word_product
from int8tune.compiler.operators.base import STORED_RANGES

# Raises UnsupportedNodeError where it does not write what a node is.
Expansion = Callable[[FloatWriter, OnnxFile, Node], None]

# ONNX's numbers of types.
NUMBERS: dict[ElementType, int] = {"u8": 2, "s8": 3, "u16": 4, "s16": 5}
_FLOAT, _UINT8, _INT32 = 1, 2, 6
# Integers below are numbers of f32.
_EXACT = 1 << 24


def _dynamic_quantize(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    data, (made, scale, point) = node.input(0), (*node.outputs, "", "")[:3]
    found = bytes_at_run_time(writer, data, file.opset, scale)
    if point:
        writer.apply("Cast", found.point, output=point, to=_UINT8)
    writer.apply("Cast", found.stored, output=made, to=_UINT8)


def _quantize(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Steps of scales that are computed, or belong to channels or blocks: rounded halves to even, saturated."""
    element, (type_, shape) = _stored_type(file, node, node.outputs[0]), file.forms[node.input(0)]
    if type_ != "f32":
        raise UnsupportedNodeError(f"it must be between f32 and integers: {type_}")
    scale = _along(writer, file, node, 1, shape)
    steps = writer.apply("Round", writer.apply("Div", node.input(0), scale))
    if node.input(2):
        point = writer.apply("Cast", _along(writer, file, node, 2, shape), to=_FLOAT)
        steps = writer.apply("Add", steps, point)
    least, most = file.bounds.get(node.outputs[0], STORED_RANGES[element])
    within = writer.clipped(steps, float(least), float(most), file.opset)
    writer.apply("Cast", within, output=node.outputs[0], to=NUMBERS[element])


def _dequantize(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """What stored values of such scales stand for."""
    _stored_type(file, node, node.input(0))
    shape = file.forms[node.input(0)][1]
    steps = writer.apply("Cast", node.input(0), to=_INT32)
    if node.input(2):
        steps = writer.apply("Sub", steps, writer.apply("Cast", _along(writer, file, node, 2, shape), to=_INT32))
    numbers = writer.apply("Cast", steps, to=_FLOAT)
    writer.apply("Mul", numbers, _along(writer, file, node, 1, shape), output=node.outputs[0])


def _convolve_integers(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """A convolution of few enough stored values that its sums are exact in f32."""
    (_, data), (_, weight) = (file.forms[name] for name in node.inputs[:2])
    if len(weight) != len(data) or math.prod(weight[1:]) * MOST**2 >= _EXACT:
        raise UnsupportedNodeError("its weights are computed, and sums of so many products may not be exact in f32")
    numbers = []
    for index in (0, 1):
        steps, point = writer.apply("Cast", node.input(index), to=_FLOAT), node.input(2 + index)
        if point:
            if math.prod(file.forms[point][1]) != 1:
                raise UnsupportedNodeError("its data and weights must have one zero point each")
            flat = writer.apply("Reshape", writer.apply("Cast", point, to=_FLOAT), np.zeros(0, np.int64))
            steps = writer.apply("Sub", steps, flat)
        numbers.append(steps)
    made = writer.apply("Conv", *numbers, **node.attributes)
    writer.apply("Cast", made, output=node.outputs[0], to=_INT32)


def _stored_type(file: OnnxFile, node: Node, stored: str) -> ElementType:
    """The type of a node's stored values."""
    element, scale = file.forms[stored][0], file.forms[node.input(1)][0]
    if element not in INTEGERS or scale != "f32" or file.forms[node.outputs[0]][0] not in (*INTEGERS, "f32"):
        raise UnsupportedNodeError(f"it must be between f32 and integers by scales of f32: {element}, {scale}")
    if element == "s32" and node.computes == QUANTIZE:
        raise UnsupportedNodeError("it must make integers of 8 or 16 bits: s32")
    if node.attributes.get("precision", _FLOAT) not in (0, _FLOAT):
        raise UnsupportedNodeError("its precision must be that of f32")
    return element


def _along(writer: FloatWriter, file: OnnxFile, node: Node, index: int, shape: tuple[int, ...]) -> str:
    """Scales or zero points in a form that is spread over values of a shape."""
    name, axis, size = node.input(index), node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    own = file.forms[name][1]
    if math.prod(own) == 1 and not size:
        return writer.apply("Reshape", name, np.zeros(0, np.int64))
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise UnsupportedNodeError(f"its axis must be one of {list(shape)}: {axis}")
    axis %= len(shape)
    if not size:
        if own != (shape[axis],):
            raise UnsupportedNodeError(f"it must have {shape[axis]} scales and zero points: {list(own)}")
        return writer.apply("Reshape", name, np.array([-1, *(1,) * (len(shape) - axis - 1)]))
    blocks = [-(-extent // size) if at == axis else extent for at, extent in enumerate(shape)] if size > 0 else []
    if list(own) != blocks:
        raise UnsupportedNodeError(f"blocks of {size} must have scales and zero points of shape {blocks}: {list(own)}")
    return writer.apply("Gather", name, np.arange(shape[axis]) // size, axis=axis)


EXPANSIONS: dict[str, Expansion] = {
    "DynamicQuantizeLinear": _dynamic_quantize,
    "ConvInteger": _convolve_integers,
    **dict.fromkeys(GATES, write_recurrent),
    QUANTIZED_LSTM: write_quantized_lstm,
    "BitShift": compositions.write_bit_shift,
    "CastLike": compositions.write_cast_like,
    "Clip": compositions.write_clip,
    "Celu": compositions.write_celu,
    "GroupNormalization": compositions.write_group_normalization,
    "LpNormalization": compositions.write_lp_normalization,
    "MeanVarianceNormalization": compositions.write_mean_variance_normalization,
    "Col2Im": write_col2im,
    "CumProd": write_cumulative_product,
    "RoiAlign": write_roi_align,
    "GridSample": compositions.write_grid_sample,
    "OneHot": compositions.write_one_hot,
    "ScatterElements": compositions.write_scatter_elements,
    "ScatterND": compositions.write_scatter_nd,
    "Swish": compositions.write_swish,
    "Einsum": write_einsum,
    "IsInf": compositions.write_is_infinite,
    "Resize": write_resize,
    "ReverseSequence": sequences.write_reverse_sequence,
    "RotaryEmbedding": sequences.write_rotary_embedding,
    "DFT": spectra.write_dft,
    "STFT": spectra.write_stft,
    "AffineGrid": spectra.write_affine_grid,
    QUANTIZE: _quantize,
    DEQUANTIZE: _dequantize,
}
OF_MICROSOFT: dict[str, Expansion] = {
    GROUP_QUERY: write_group_query_attention,
    WORD_PRODUCT: write_word_product,
    "RotaryEmbedding": sequences.write_rotary_embedding_of_microsoft,
}


def expansion_of(node: Node) -> Expansion | None:
    """What writes a node as others; None of one that has no expansion."""
    return (OF_MICROSOFT if node.proto.domain == MICROSOFT else EXPANSIONS).get(node.computes)

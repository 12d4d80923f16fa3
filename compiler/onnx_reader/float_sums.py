"""Convolutions and products of quantized values whose output stays a number: int8 layers with sums of 32 bits.

What such files mean is a product in float of dequantized values. Sums of integers are exact, so that dequantizing them
is at least as precise: one rounding of the sum, one of the product with the scale, one where a bias is added.
"""

from __future__ import annotations

import numpy as np

from int8tune.compiler.graph import Kind, Quantization, Value
from int8tune.compiler.islands.island import ISLAND, FloatNode, Island
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.floats import Emit
from int8tune.compiler.onnx_reader.layer_chains import layer_links
from int8tune.compiler.onnx_reader.layers import KERNELS, KernelForm, kernel_form
from int8tune.compiler.onnx_reader.matrix_products import matrices_of
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.quantization import (
    DEQUANTIZE,
    Constant,
    Quantizations,
    is_of_channels,
    is_sum_bias,
    sum_bias,
)
from int8tune.compiler.onnx_reader.tensors import TYPES, Array
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import BYTES

REASON = "no QuantizeLinear follows, so that its sums of 32 bits become numbers"


class FloatSums:
    """Reads layers whose output is not quantized."""

    def __init__(self, file: OnnxFile, quantizations: Quantizations, values: GraphValues, emit: Emit) -> None:
        self._file, self._constants, self._values, self._emit = file, quantizations.constants, values, emit

    def read(self, node: Node) -> bool:
        """Read a convolution or product of quantized data and weights; False if it is none."""
        data, form = self._values.activation(node.input(0)), self._form(node)
        if form is None or data is None or data.quantization is None or form.weight.quantization is None:
            return self._read_product(node)
        bias = self._constants.get(node.input(2))
        if node.input(2) and (bias is None or not is_of_channels(bias, len(form.weight.array))):
            return False
        sums_bias: Constant | None = None
        added: Array | None = None
        if bias is not None and is_sum_bias(bias, data.quantization, form.weight.quantization):
            channels = form.weight.array.shape[0]
            sums_bias = sum_bias(self._file, node, bias, data.quantization, form.weight.quantization, channels)
        elif bias is not None:
            added = bias.real
        scale = data.quantization.scale * form.weight.quantization.scale
        made = self._made(node, scale)
        self._values.by_name[made.name] = made
        for link in layer_links(form, data, sums_bias, made.name, self._values):
            self._emit(link.kind, node, (), link.inputs, (link.made,), link.attributes)
        self._dequantize(node, made, scale, added)
        return True

    def _read_product(self, node: Node) -> bool:
        """Read a product of two quantized matrices; False if it is none."""
        one, other = (self._values.operand(name) for name in (*node.inputs, "", "")[:2])
        if one is None or other is None or one.quantization is None or other.quantization is None:
            return False
        if one.quantization.per_channel or other.quantization.per_channel:
            return False
        scale = one.quantization.scale * other.quantization.scale
        made = self._made(node, scale)
        matrices = matrices_of(node, self._values, made)
        if matrices is None:
            return False
        self._values.by_name[made.name] = made
        self._emit(Kind.MATMUL, node, (), (one.name, other.name), (made.name,), matrices.attributes)
        self._dequantize(node, made, scale, None)
        return True

    def _form(self, node: Node) -> KernelForm | None:
        data, weight = self._values.activation(node.input(0)), self._constants.get(node.input(1))
        if node.computes not in KERNELS or data is None or weight is None or weight.quantization is None:
            return None
        if node.computes == "MatMul" and (weight.array.ndim != 2 or len(data.shape) < 2):
            return None
        is_bytes = data.type in BYTES and TYPES[weight.array.dtype] in BYTES
        points = set(weight.quantization.zero_point.tolist())
        if not is_bytes or len(points) > 1 or data.quantization is None or data.quantization.per_channel:
            return None
        try:
            form = kernel_form(self._file, node, data.shape, weight)
        except UnsupportedNodeError:
            return None
        # The parts of a transposed convolution would be put together as sums of 32 bits, which no kernel moves.
        return None if form.plan is not None else form

    def _made(self, node: Node, scale: Array) -> Value:
        """The sums, as a value that is not of the graph yet."""
        name = self._values.unused(f"{node.outputs[0]}/sums")
        shape = self._file.forms[node.outputs[0]][1]
        axis = None if scale.size == 1 else _channel_axis(node, shape)
        return Value(name, shape, "s32", Quantization(scale, np.zeros(scale.size, np.int64), axis), None)

    def _dequantize(self, node: Node, sums: Value, scale: Array, bias: Array | None) -> None:
        import onnx

        made = node.outputs[0]
        behind = len(sums.shape) - 1 - _channel_axis(node, sums.shape)
        constants = {"scale": scale.reshape(-1, *(1,) * behind)}
        if bias is not None:
            constants["bias"] = bias.reshape(-1, *(1,) * behind)
        product = "product" if bias is not None else made
        nodes = [
            onnx.helper.make_node("Cast", ["sums"], ["numbers"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Mul", ["numbers", "scale"], [product]),
            *([onnx.helper.make_node("Add", [product, "bias"], [made])] if bias is not None else []),
        ]
        island = Island(
            nodes=tuple(each.SerializeToString() for each in nodes),
            inputs=("sums",),
            outputs=(made,),
            constants=constants,
            opset=self._file.opset,
            parts=(FloatNode(DEQUANTIZE, node.name, REASON),),
        )
        self._values.by_name[made] = self._values.plain(made)
        dequantize = Node(made, DEQUANTIZE, DEQUANTIZE, (sums.name,), (made,))
        self._emit(Kind.FLOAT, dequantize, (), (sums.name,), (made,), {ISLAND: island})


def _channel_axis(node: Node, shape: tuple[int, ...]) -> int:
    return 1 if node.computes == "Conv" else len(shape) - 1

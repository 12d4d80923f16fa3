"""Convolutions and products of 16-bit data with 8-bit weights: exact sums, and one multiplication in binary64.

What a file means is a product of real numbers, rounded half to even. ONNX Runtime computes it in binary32, so that one
step differs where its roundings add up to that. `compiler.word_layers` makes int8 layers of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Quantization, Value
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.floats import Emit
from int8tune.compiler.onnx_reader.fused import Ending, Fusion
from int8tune.compiler.onnx_reader.layer_chains import emit_links, layer_links
from int8tune.compiler.onnx_reader.layers import KERNELS, KernelForm, kernel_form
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, quoted
from int8tune.compiler.onnx_reader.quantization import Quantizations, is_of_channels
from int8tune.compiler.onnx_reader.tensors import TYPES
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import BYTES, WORDS
from int8tune.compiler.operators.word_sums import DoubleArray, Rounding, WordSums
from int8tune.schedules.workload import MAX_REDUCTION


class WordLayers:
    """Reads layers of 16-bit data."""

    def __init__(
        self,
        file: OnnxFile,
        quantizations: Quantizations,
        values: GraphValues,
        fusion: Fusion,
        emit: Emit,
        end: Callable[[Ending], None],
    ) -> None:
        self._file, self._quantizations, self._values = file, quantizations, values
        self._fusion, self._emit, self._end = fusion, emit, end

    def read(self, node: Node) -> bool:
        """Read a convolution or product of 16-bit data and constant weights of 8 bits; False if it is none.

        Raises:
            UnsupportedNodeError: no kernel computes it.
        """
        data, weight = self._values.activation(node.input(0)), self._quantizations.constants.get(node.input(1))
        if node.computes not in KERNELS or data is None or weight is None or weight.quantization is None:
            return False
        if data.type not in WORDS or TYPES[weight.array.dtype] not in BYTES or data.quantization is None:
            return False
        if data.quantization.per_channel or (node.computes == "MatMul" and weight.array.ndim != 2):
            return False
        form = kernel_form(self._file, node, data.shape, weight)
        self._require_sums(form)
        ending = self._fusion.layer_ending(node.outputs[0])
        if ending is not None and self._file.forms[ending.name][0] in (*BYTES, *WORDS):
            self._read_stored(node, form, data, ending)
        elif form.plan is not None:
            # No kernel puts the parts together as numbers.
            return False
        else:
            self._read_number(node, form, data)
        return True

    def _require_sums(self, form: KernelForm) -> None:
        """Raise where sums are none that kernels have."""
        assert form.weight.quantization is not None
        if len(set(form.weight.quantization.zero_point.tolist())) > 1:
            raise UnsupportedNodeError("its weights must have one zero point")
        products = form.weight.array[0].size
        if products > MAX_REDUCTION:
            raise UnsupportedNodeError(f"its sums must have at most {MAX_REDUCTION} products: {products}")

    def _read_stored(self, node: Node, form: KernelForm, data: Value, ending: Ending) -> None:
        """A layer whose output is quantized."""
        output = self._quantizations.stored[ending.name]
        if output.per_channel:
            raise UnsupportedNodeError("its output must have one scale")
        sums = self._sums(node, form, data, output)
        clamp = self._fusion.clamp(ending)
        self._end(ending)
        links = layer_links(form, data, None, ending.name, self._values, sums)
        emit_links(links, node, ending, clamp, self._emit)

    def _read_number(self, node: Node, form: KernelForm, data: Value) -> None:
        """A layer whose output is a number: behind it, a value has the file's order of axes, whatever it has."""
        output, sums = node.outputs[0], self._sums(node, form, data, None)
        name = self._values.unused(f"{output}/number")
        self._values.by_name[name] = Value(name, self._file.forms[output][1], "f32")
        for link in layer_links(form, data, None, name, self._values, sums):
            names = None if link.is_layer else (link.made,)
            self._emit(link.kind, node, (), link.inputs, (link.made,), link.attributes, names)
        self._values.by_name[output] = self._values.plain(output)
        self._emit(Kind.RESHAPE, replace(node, operator=""), (), (name,), (output,), layers=(output,))

    def _sums(self, node: Node, form: KernelForm, data: Value, output: Quantization | None) -> WordSums:
        """What becomes of sums: numbers, or steps of the output."""
        weight, channels = form.weight.quantization, len(form.weight.array)
        assert data.quantization is not None
        assert weight is not None
        step = 1.0 if output is None else float(output.scale[0])
        scales = np.broadcast_to(weight.scale.astype(np.float64), channels)
        offset = self._bias(node, channels) / step
        rounding = Rounding.NUMBER if output is None else Rounding.EVEN
        factor: DoubleArray = float(data.quantization.scale[0]) * scales / step
        none = np.zeros(channels, np.int64)
        return WordSums(rounding, False, none, factor, none, offset)

    def _bias(self, node: Node, channels: int) -> DoubleArray:
        """What a bias stands for, by its own scale: that is that of the sums but for rounding."""
        if not node.input(2):
            return np.zeros(channels)
        bias = self._quantizations.constants.get(node.input(2))
        if bias is None:
            raise UnsupportedNodeError(f"its bias must be constant: {quoted(node.input(2))}")
        if not is_of_channels(bias, channels):
            raise UnsupportedNodeError(f"its bias must have {channels} values: {list(bias.array.shape)}")
        quantization = bias.quantization
        numbers = bias.array.reshape(-1).astype(np.float64)
        if quantization is not None:
            numbers = (numbers - quantization.zero_point) * quantization.scale.astype(np.float64)
        return np.broadcast_to(numbers, channels)

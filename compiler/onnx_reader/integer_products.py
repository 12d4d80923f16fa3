"""MatMulInteger and ConvInteger with constant weights as int8 layers with sums of 32 bits.

Where the data's zero point z is computed at run time, a layer's sums are those of stored values; of each, z times the
sum of the weights that it met is taken away, in integers: sum((a - z) w) = sum(a w) - z sum(w).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Quantization, Value
from int8tune.compiler.islands.island import ISLAND, FloatNode, Island
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.floats import Emit
from int8tune.compiler.onnx_reader.layer_chains import layer_links
from int8tune.compiler.onnx_reader.layers import KernelForm, kernel_form
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.quantization import Constant, Quantizations
from int8tune.compiler.onnx_reader.tensors import TYPES, Array
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import BYTES

PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
CORRECTION = "Sub"
_REASON = "the zero point of its data is computed at run time; the correction of the sums by it is exact"
_INT32 = 6


class IntegerProducts:
    """Reads products of stored values."""

    def __init__(self, file: OnnxFile, quantizations: Quantizations, values: GraphValues, emit: Emit) -> None:
        self._file, self._constants, self._values, self._emit = file, quantizations.constants, values, emit

    def read(self, node: Node) -> None:
        """Read a node that is in `PRODUCTS`.

        Raises:
            UnsupportedNodeError: it is none that a layer computes.
        """
        weight, point = self._weight(node), self._point(node)
        data = self._data(node, point if isinstance(point, int) else 0)
        computed = replace(node, computes=PRODUCTS[node.computes])
        form = kernel_form(self._file, computed, data.shape, weight)
        made = self._new(node, "sums", self._file.forms[node.outputs[0]][1], "s32", 0)
        for link in layer_links(form, data, None, made.name, self._values):
            self._emit(link.kind, node, (), link.inputs, (link.made,), link.attributes, None)
        output = node.outputs[0]
        self._values.by_name[output] = self._values.plain(output)
        if isinstance(point, int):
            self._emit(Kind.RESHAPE, node, (), (made.name,), (output,), layers=(output,))
        else:
            self._correct(node, made, point, _met(form, made.shape))

    def _weight(self, node: Node) -> Constant:
        weight, point = (self._constants.get(node.input(index)) for index in (1, 3))
        if weight is None:
            raise UnsupportedNodeError("it multiplies two computed values, a kernel takes constant weights")
        if TYPES[weight.array.dtype] not in BYTES or (node.input(3) and point is None):
            raise UnsupportedNodeError("its weights must be bytes with constant zero points")
        if node.computes == "MatMulInteger" and weight.array.ndim != 2:
            shape = weight.array.shape
            raise UnsupportedNodeError(f"its weights must have two axes, these have {len(shape)}: {list(shape)}")
        points = {0} if point is None else set(point.array.reshape(-1).tolist())
        if len(points) > 1:
            raise UnsupportedNodeError(f"its weights have {len(points)} zero points, a kernel takes one")
        return Constant(weight.name, weight.array, _plain(points.pop()))

    def _point(self, node: Node) -> int | str:
        """The data's zero point; its name where it is computed."""
        name = node.input(2)
        if not name:
            return 0
        if name not in self._constants:
            if math.prod(self._file.forms[name][1]) != 1:
                raise UnsupportedNodeError("its data must have one zero point")
            return name
        points = set(self._constants[name].array.reshape(-1).tolist())
        if len(points) > 1:
            raise UnsupportedNodeError(f"its data has {len(points)} zero points, a kernel takes one")
        return int(points.pop())

    def _data(self, node: Node, point: int) -> Value:
        """The stored values that a layer reads, as ones that stand for numbers of their own."""
        source = self._values.by_name.get(self._values.carried(node.input(0)))
        if source is None or source.constant is not None or source.type not in BYTES:
            raise UnsupportedNodeError("its data must be computed bytes")
        if len(source.shape) < 2:
            raise UnsupportedNodeError(f"its data must have at least two axes: {list(source.shape)}")
        made = self._new(node, "data", source.shape, source.type, point)
        view = replace(node, operator="")  # nothing that is in the file
        self._emit(Kind.RESHAPE, view, (), (source.name,), (made.name,), layers=(made.name,))
        return made

    def _new(self, node: Node, what: str, shape: tuple[int, ...], type_: str, point: int) -> Value:
        name = self._values.unused(f"{node.outputs[0]}/{what}")
        self._values.by_name[name] = Value(name, shape, type_, _plain(point))  # type: ignore[arg-type]
        return self._values.by_name[name]

    def _correct(self, node: Node, sums: Value, point: str, met: Array) -> None:
        """Take the zero point's share of the sums away."""
        output = node.outputs[0]
        source = self._values.by_name[self._values.carried(point)]
        writer = FloatWriter(replace(node, inputs=("sums", "point")))
        flat = writer.apply("Reshape", "point", np.ones(1, np.int64))
        share = writer.apply("Mul", writer.apply("Cast", flat, to=_INT32), met)
        writer.apply("Sub", "sums", share, output=output)
        island = Island(
            nodes=tuple(each.SerializeToString() for each in writer.nodes),
            inputs=("sums", "point"),
            outputs=(output,),
            constants=writer.constants,
            opset=self._file.opset,
            parts=(FloatNode(CORRECTION, node.name, _REASON),),
        )
        correction = Node(output, CORRECTION, CORRECTION, (sums.name, source.name), (output,))
        self._emit(Kind.FLOAT, correction, (), (sums.name, source.name), (output,), {ISLAND: island})


def _plain(point: int) -> Quantization:
    """Stored values that stand for numbers in steps of 1."""
    return Quantization(np.ones(1, np.float32), np.array([point], np.int64))


def _met(form: KernelForm, shape: tuple[int, ...]) -> Array:
    """The sum of the weights, without their zero point, that each output met: in a form that is spread over them."""
    assert form.weight.quantization is not None
    weight = form.weight.array.astype(np.int64) - int(form.weight.quantization.zero_point[0])
    if form.kind is Kind.DENSE:
        return np.asarray(weight.sum(axis=1).astype(np.int32))
    (top, left, _, _), at = form.attributes["padding"], form.attributes
    rows, columns = (
        _taps(form.made[2 + axis], form.image[2 + axis], weight.shape[1 + axis], begin, at["stride"][axis], step)
        for axis, begin, step in ((0, top, at["dilation"][0]), (1, left, at["dilation"][1]))
    )
    each = weight.sum(axis=3)
    if rows.all() and columns.all():
        return np.asarray(each.sum(axis=(1, 2)).astype(np.int32).reshape(-1, *(1,) * (len(shape) - 2)))
    met = np.einsum("yk,okl,xl->oyx", rows.astype(np.int64), each, columns.astype(np.int64))
    return np.asarray(met.astype(np.int32).reshape(met.shape[0], *shape[2:]))


def _taps(made: int, image: int, kernel: int, begin: int, stride: int, step: int) -> Array:
    """Which taps of a kernel are inside the image, [output, tap]."""
    places = np.arange(made)[:, None] * stride - begin + np.arange(kernel)[None, :] * step
    return np.asarray((places >= 0) & (places < image))

"""MatMulInteger and ConvInteger as int8 layers with sums of 32 bits; two computed matrices as one for each pair.

Where the data's zero point z is computed at run time, a layer's sums are those of stored values; of each, z times the
sum of the weights that it met is taken away, in integers: sum((a - z) w) = sum(a w) - z sum(w). So is, of two computed
matrices, the second one's zero point y times the sum of the data that it met: sum(a w) - z sum(w) - y sum(a - z).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Value, whole_numbers
from int8tune.compiler.islands.island import ISLAND, FloatNode, Island
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.floats import Emit
from int8tune.compiler.onnx_reader.layer_chains import layer_links
from int8tune.compiler.onnx_reader.layers import KernelForm, kernel_form
from int8tune.compiler.onnx_reader.matrix_products import product_of
from int8tune.compiler.onnx_reader.nodes import OPSET_OF_SUM_AXES, Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.quantization import Constant, Quantizations
from int8tune.compiler.onnx_reader.tensors import TYPES, Array
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.weights_met import weights_met

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
        if node.computes == "MatMulInteger" and self._is_computed(node.input(1)):
            self._read_matrices(node)
            return
        weight, point = self._weight(node), self._point(node, 2)
        data = self._data(node, 0, point)
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

    def _is_computed(self, name: str) -> bool:
        source = self._values.by_name.get(self._values.carried(name))
        return source is not None and source.constant is None

    def _read_matrices(self, node: Node) -> None:
        points = self._point(node, 2), self._point(node, 3)
        inputs = self._data(node, 0, points[0]), self._data(node, 1, points[1])
        output = node.outputs[0]
        made = self._new(node, "sums", self._file.forms[output][1], "s32", 0)
        found = product_of(node, inputs, made)
        if isinstance(found, str):
            raise UnsupportedNodeError(found)
        names = tuple(value.name for value in inputs)
        self._emit(Kind.MATMUL, node, (), names, (made.name,), found.attributes)
        self._values.by_name[output] = self._values.plain(output)
        if all(isinstance(point, int) for point in points):
            self._emit(Kind.RESHAPE, node, (), (made.name,), (output,), layers=(output,))
        else:
            self._correct_matrices(node, made, inputs, points)

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
        return Constant(weight.name, weight.array, whole_numbers(points.pop()))

    def _point(self, node: Node, index: int) -> int | str:
        """The zero point of data; its name where it is computed."""
        name = node.input(index)
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

    def _data(self, node: Node, index: int, point: int | str) -> Value:
        """The stored values that a layer reads, as ones that stand for numbers of their own.

        Args:
            point: their zero point; by name it is taken for 0, and corrected later.
        """
        source = self._values.by_name.get(self._values.carried(node.input(index)))
        if source is None or source.constant is not None or source.type not in BYTES:
            raise UnsupportedNodeError("its data must be computed bytes")
        if len(source.shape) < 2:
            raise UnsupportedNodeError(f"its data must have at least two axes: {list(source.shape)}")
        zero_point = point if isinstance(point, int) else 0
        made = self._new(node, ("data", "weights")[index], source.shape, source.type, zero_point)
        view = replace(node, operator="")  # nothing that is in the file
        self._emit(Kind.RESHAPE, view, (), (source.name,), (made.name,), layers=(made.name,))
        return made

    def _new(self, node: Node, what: str, shape: tuple[int, ...], type_: str, point: int) -> Value:
        name = self._values.unused(f"{node.outputs[0]}/{what}")
        self._values.by_name[name] = Value(name, shape, type_, whole_numbers(point))  # type: ignore[arg-type]
        return self._values.by_name[name]

    def _correct(self, node: Node, sums: Value, point: str, met: Array) -> None:
        """Take the zero point's share of the sums away."""
        correction = _Correction(self._file, node)
        share = correction.times(self._values.by_name[self._values.carried(point)], met)
        correction.take_away(sums, [share])
        self._emit_correction(node, correction)

    def _correct_matrices(
        self, node: Node, sums: Value, inputs: tuple[Value, Value], points: tuple[int | str, int | str]
    ) -> None:
        """Take away the shares of zero points that are computed; constant ones are in the sums."""
        (data, weights), correction = inputs, _Correction(self._file, node)
        known = [each if isinstance(each, int) else self._values.by_name[self._values.carried(each)] for each in points]
        shares = []
        if isinstance(known[0], Value):
            # Of both shares only one is of the numbers: that of the weights.
            met = correction.met(weights, -2, known[1] if isinstance(known[1], int) else 0)
            shares.append(correction.times(known[0], met))
        if isinstance(known[1], Value):
            shares.append(correction.times(known[1], correction.met(data, -1, known[0])))
        correction.take_away(sums, shares)
        self._emit_correction(node, correction)

    def _emit_correction(self, node: Node, correction: _Correction) -> None:
        output, names = node.outputs[0], tuple(correction.taken.values())
        island = Island(
            nodes=tuple(each.SerializeToString() for each in correction.writer.nodes),
            inputs=tuple(correction.taken),
            outputs=(output,),
            constants=correction.writer.constants,
            opset=self._file.opset,
            parts=(FloatNode(CORRECTION, node.name, _REASON),),
        )
        made = Node(output, CORRECTION, CORRECTION, names, (output,))
        self._emit(Kind.FLOAT, made, (), names, (output,), {ISLAND: island})


class _Correction:
    """Writes what zero points that are computed take away from sums.

    Attributes:
        taken: the values that it reads, by the names that they have there.
    """

    def __init__(self, file: OnnxFile, node: Node) -> None:
        self._file, self._output = file, node.outputs[0]
        self.taken: dict[str, str] = {}
        self.writer = FloatWriter(replace(node, inputs=()))

    def _input(self, value: Value) -> str:
        name = next((own for own, taken in self.taken.items() if taken == value.name), "")
        name = name or f"{self._output}/input {len(self.taken)}"
        self.taken[name] = value.name
        return name

    def _whole(self, point: Value) -> str:
        """A zero point as one number of 32 bits."""
        flat = self.writer.apply("Reshape", self._input(point), np.ones(1, np.int64))
        return self.writer.apply("Cast", flat, to=_INT32)

    def met(self, matrix: Value, axis: int, point: int | Value) -> str:
        """The sum of a matrix along an axis, without its zero point."""
        numbers = self.writer.apply("Cast", self._input(matrix), to=_INT32)
        if self._file.opset < OPSET_OF_SUM_AXES:
            total = self.writer.apply("ReduceSum", numbers, axes=[axis], keepdims=1)
        else:
            total = self.writer.apply("ReduceSum", numbers, np.array([axis]), keepdims=1)
        number = np.array(point, np.int32) if isinstance(point, int) else self._whole(point)
        extent = np.array(matrix.shape[axis], np.int32)
        return self.writer.apply("Sub", total, self.writer.apply("Mul", number, extent))

    def times(self, point: Value, met: str | Array) -> str:
        return self.writer.apply("Mul", self._whole(point), met)

    def take_away(self, sums: Value, shares: Sequence[str]) -> None:
        rest = self._input(sums)
        for share in shares[:-1]:
            rest = self.writer.apply("Sub", rest, share)
        self.writer.apply("Sub", rest, shares[-1], output=self._output)


def _met(form: KernelForm, shape: tuple[int, ...]) -> Array:
    """The sum of the weights, without their zero point, that each output met: in a form that is spread over them."""
    assert form.weight.quantization is not None
    weight = form.weight.array.astype(np.int64) - int(form.weight.quantization.zero_point[0])
    if form.kind is Kind.DENSE:
        return np.asarray(weight.sum(axis=1).astype(np.int32))
    met = weights_met(weight, form.image[2:], form.made[2:], form.attributes)
    return met.reshape(len(met), *((met.shape[1:] and shape[2:]) or (1,) * (len(shape) - 2)))

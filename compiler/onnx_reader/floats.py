"""Nodes that no integer kernel computes, as operators in float; `compiler.islands` joins those that read each other."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES, Kind, Operator, Value
from int8tune.compiler.islands.island import ISLAND, FloatNode, Island
from int8tune.compiler.islands.supported import RESHAPING, multiply_adds
from int8tune.compiler.onnx_reader.blocked import PRODUCTS
from int8tune.compiler.onnx_reader.expansions import expansion_of
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_faults import float_fault
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.layers import KERNELS
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, model_fault, quoted
from int8tune.compiler.onnx_reader.quantization import DEQUANTIZE, QUANTIZE, Quantizations
from int8tune.compiler.onnx_reader.tensors import Array
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import stored_fault

Emit = Callable[..., Operator]
QUANTIZING = (QUANTIZE, DEQUANTIZE, "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")


class FloatNodes:
    """Makes operators of kind FLOAT of a file's nodes."""

    def __init__(self, file: OnnxFile, quantizations: Quantizations, values: GraphValues, emit: Emit) -> None:
        self._file, self._constants, self._values, self._emit = file, quantizations.constants, values, emit
        self._numbers: dict[str, str] = {}

    def read(self, node: Node, reason: str) -> None:
        """Emit a node, and DEQUANTIZE operators for what it reads as numbers.

        Raises:
            UnsupportedNodeError: it can't be computed in float; `reason` says why no integer kernel computes it.
        """
        if fault := self._fault(node, reason):
            raise UnsupportedNodeError(fault)
        made = [name for name in node.outputs if name in self._file.forms]
        taken = [name for name in dict.fromkeys(node.inputs) if name and name not in self._constants]
        constants = {name: self._constants[name].real for name in node.inputs if name in self._constants}
        protos = self._protos(node, constants)
        read = {name for proto in protos for name in proto.input}
        taken = [name for name in taken if name in read]
        island = Island(
            nodes=tuple(proto.SerializeToString() for proto in protos),
            inputs=tuple(taken),
            outputs=tuple(made),
            constants={name: array for name, array in constants.items() if name in read},
            opset=self._file.opset,
            parts=(FloatNode(node.operator, node.name, reason),),
            macs=self._multiply_adds(node),
        )
        numbers = [self.number(name) for name in taken]
        self._values.by_name.update((name, self._values.plain(name)) for name in made)
        self._emit(Kind.FLOAT, node, (), numbers, made, {ISLAND: island})

    def number(self, name: str) -> str:
        """The value that a node reads by a name of the file, dequantized if the file says so there."""
        value = self._values.by_name[self._values.carried(name)]
        element, shape = self._file.forms[name]
        if value.type == element:
            return value.name
        if value.name not in self._numbers:
            number = self._values.unused(f"{name}/number")
            self._values.by_name[number] = Value(number, shape, element)
            node = Node(number, DEQUANTIZE, DEQUANTIZE, (value.name,), (number,))
            self._emit(Kind.DEQUANTIZE, node, (), (value.name,), (number,))
            self._numbers[value.name] = number
        return self._numbers[value.name]

    def _fault(self, node: Node, reason: str) -> str | None:
        if fault := float_fault(self._file, node, self._constants, reason):
            return fault
        computed = [name for name in node.inputs if name and name not in self._constants]
        return next(filter(None, map(self._number_fault, computed)), None)

    def _number_fault(self, name: str) -> str | None:
        value = self._values.by_name[self._values.carried(name)]
        return None if value.type == self._file.forms[name][0] else stored_fault(value)

    def _multiply_adds(self, node: Node) -> int:
        forms = self._file.forms
        shapes = [
            forms[name][1] if name in forms else self._constants[name].array.shape for name in node.inputs if name
        ]
        return multiply_adds(node.computes, shapes, forms[node.outputs[0]][1])

    def _protos(self, node: Node, constants: dict[str, Array]) -> Sequence[Any]:
        """What computes a node; constants are added."""
        expansion = expansion_of(node)
        if expansion is None or _is_converted(node, constants):
            return [self._proto(node, constants)]
        writer = FloatWriter(node, constants)
        expansion(writer, self._file, node)
        constants |= writer.constants
        return writer.nodes

    def _proto(self, node: Node, constants: dict[str, Array]) -> Any:
        """The node as an island has it; the shape that it makes is one of the constants, whatever computes it."""
        import onnx

        proto = onnx.NodeProto.FromString(node.proto.SerializeToString())
        made = node.outputs[0]
        if node.computes in RESHAPING or node.computes == "Expand":
            shape = f"{made}/shape"
            constants[shape] = np.array(self._file.forms[made][1], np.int64)
            operator = "Expand" if node.computes == "Expand" else "Reshape"
            return onnx.helper.make_node(operator, [node.inputs[0], shape], [made])
        if node.computes == "Pow" and node.input(1) in constants:
            constants[node.input(1)] = constants[node.input(1)].astype(DTYPES[self._file.forms[node.inputs[0]][0]])
        if node.computes in ("Dropout", "Identity"):
            return onnx.helper.make_node("Identity", [node.inputs[0]], [made])
        outputs = [name if name in self._file.forms else "" for name in node.outputs]
        while not outputs[-1]:
            outputs.pop()
        del proto.output[:]
        proto.output.extend(outputs)
        return proto


def _is_converted(node: Node, constants: Container[str]) -> bool:
    """Whether TVM's importer converts a node that has an expansion for other forms of it."""
    if node.computes == "Clip":
        return all(not name or name in constants for name in node.inputs[1:])
    return node.computes == "Resize" and not node.attributes.get("antialias")


def refuse_unquantized(file: OnnxFile, values: Iterable[Value]) -> None:
    """Raise where a model has nothing that is quantized: values or weights alone, with constant scales or at run time.

    Raises:
        ModelError: it is all float.
    """
    if any(value.quantization is not None and value.constant is None for value in values):
        return
    if any(node.computes in QUANTIZING or node.operator in PRODUCTS for node in file.nodes):
        return
    first = next((node for node in file.nodes if node.computes in KERNELS), None)
    where = f", the first that should is {quoted(first.name)} ({first.operator})" if first else ""
    raise model_fault(file.name, f"no node computes on quantized values{where}: quantize the model first")

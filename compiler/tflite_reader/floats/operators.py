"""Operators of kind FLOAT, of TFLite operators that no integer kernel computes; `compiler.islands` joins them."""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value
from int8tune.compiler.islands.island import ELEMENTS, FILE_VERSION, ISLAND, FloatNode, Island
from int8tune.compiler.islands.supported import multiply_adds
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators.base import byte_fault, is_same_quantization
from int8tune.compiler.reasons import reason_of
from int8tune.compiler.tflite_reader.floats import (
    elementwise,
    images,
    integers,
    movements,
    products,
    recurrent,
    scatters,
    spectra,
)
from int8tune.compiler.tflite_reader.floats.hybrid_layers import HybridLayer, hybrid_layer
from int8tune.compiler.tflite_reader.floats.nodes import (
    MOST_KNOWN_VALUES,
    OPSET,
    STORED,
    Nodes,
    Reader,
    UnsupportedOperatorError,
)
from int8tune.compiler.tflite_reader.floats.stored import stored_fault
from int8tune.compiler.tflite_reader.floats.wide_functions import is_wide_function, wide_function
from int8tune.compiler.tflite_reader.floats.wide_resize import is_wide_resize, wide_resize
from int8tune.compiler.tflite_reader.floats.wide_softmax import is_wide_softmax, wide_softmax
from int8tune.compiler.tflite_reader.layers import Layers
from int8tune.compiler.tflite_reader.steps import Reason, Step
from int8tune.schedules.errors import OperandError

READERS: dict[str, Reader] = {
    **elementwise.READERS,
    **images.READERS,
    **products.READERS,
    **movements.READERS,
    **scatters.READERS,
    **integers.READERS,
    **recurrent.READERS,
    **spectra.READERS,
}
# What moves stored values and does not look at them.
RAW = (*elementwise.RAW, *images.RAW, *movements.RAW, *scatters.RAW, *integers.BITWISE)
# Half a gigabyte of float32.
MOST_VALUES = 1 << 27
# Constants that say shapes, and are short.
MOST_PLACES = 1 << 10

Values = MutableMapping[str, Value]
Form = tuple[str, tuple[int, ...]]


class FloatOperators:
    """Makes operators of kind FLOAT, and those of layers between them; `values` grows by what they read and make."""

    def __init__(self, values: Values, layers: Layers) -> None:
        self._values, self._layers = values, layers
        self._numbers: dict[str, str] = {}

    def read(self, step: Step, reason: str) -> tuple[Operator, ...] | Reason:
        """The operators of one of the file, or why it can't be computed in float.

        Args:
            reason: why no integer kernel computes it, which is all there is to say of one that nobody knows.
        """
        read = READERS.get(step.plain.operator)
        if read is None or not step.inputs:
            return reason
        outputs = [self._values[name] for name in step.plain.outputs]
        if (fault := stored_fault(step, outputs)) is not None:
            return fault
        at = Nodes(step, outputs, _is_raw(step, outputs))
        try:
            for value in (*step.inputs, *outputs):  # before a reader makes places of them
                at.require(math.prod(value.shape) <= MOST_VALUES, _too_many(MOST_VALUES, value.shape))
            if (layer := hybrid_layer(at, self._values, self._layers)) is not None:
                return self._hybrid(layer, reason)
            made = _exact(at) or read(at)
            names = [made] if isinstance(made, str) else list(made)
            at.require(len(names) == len(outputs), f"it must have {len(names)} outputs: {len(outputs)}")
            if not at.is_finished:
                names = [at.as_stored(name, value) for name, value in zip(names, outputs, strict=True)]
            forms = self._forms(at, names)
            return self._operators(at, names, reason, _macs(at, forms))
        except (UnsupportedOperatorError, OperandError) as fault:
            return str(fault)

    def _hybrid(self, made: HybridLayer, reason: str) -> tuple[Operator, ...]:
        """A layer of bytes between nodes that quantize its data and nodes that take its sums."""
        parts = [(made.quantizing, made.quantized), (made.summed, (made.result,))]
        before, behind = (self._operators(at, names, reason, _macs(at, self._forms(at, names))) for at, names in parts)
        return (*before, made.layer, *behind)

    def _forms(self, at: Nodes, names: Sequence[str]) -> dict[str, Form]:
        """What ONNX says that the nodes make, which must be what the file says."""
        for value in (*at.step.inputs, *at.outputs):
            if at.is_stored(value) and value.constant is None:
                at.require((fault := _stored_fault(value)) is None, str(fault))
        forms = _inferred(at)
        most = MOST_VALUES if at.taken else MOST_KNOWN_VALUES
        largest = max((shape for _, shape in forms.values()), key=math.prod, default=())
        at.require(math.prod(largest) <= most, _too_many(most, largest))
        for name, value in zip(names, at.outputs, strict=True):
            found, expected = forms.get(name), (at.element(value), value.shape)
            at.require(found == expected, f"its output must be {_text(found)}: {_text(expected)}")
        return forms

    def _operators(self, at: Nodes, names: Sequence[str], reason: str, macs: int) -> tuple[Operator, ...]:
        plain, before, behind = at.step.plain, list[Operator](), list[Operator]()
        taken = [self._taken(at, index, before) for index in at.taken.values()]
        made = [self._made(at, value, behind) for value in at.outputs]
        island = Island(
            nodes=tuple(node.SerializeToString() for node in at.nodes),
            inputs=tuple(at.taken),
            outputs=tuple(names),
            constants=at.constants,
            opset=OPSET,
            parts=(FloatNode(plain.operator, plain.layers[0] if plain.layers else plain.outputs[0], reason),),
            macs=macs,
            is_alone=at.is_finished,
        )
        attributes = {ISLAND: island}
        operator = replace(plain, kind=Kind.FLOAT, inputs=tuple(taken), outputs=tuple(made), attributes=attributes)
        return (*before, operator, *behind)

    def _taken(self, at: Nodes, index: int, before: list[Operator]) -> str:
        """The value that the nodes read, dequantized if they read numbers."""
        value = at.value(index)
        if at.element(value) == value.type:
            return value.name
        if value.name not in self._numbers:
            name = self._numbers[value.name] = self._number(value)
            before.append(
                replace(at.step.plain, kind=Kind.DEQUANTIZE, layers=(name,), inputs=(value.name,), outputs=(name,))
            )
            before[-1] = replace(before[-1], operator="DEQUANTIZE")
        return self._numbers[value.name]

    def _made(self, at: Nodes, value: Value, behind: list[Operator]) -> str:
        """The value that the nodes make, quantized if it is stored."""
        if at.element(value) == value.type:
            return value.name
        name = self._number(value)
        behind.append(
            replace(at.step.plain, kind=Kind.QUANTIZE, operator="QUANTIZE", inputs=(name,), outputs=(value.name,))
        )
        return name

    def _number(self, value: Value) -> str:
        """A new value for the numbers that stored ones stand for."""
        name = free_name(f"{value.name}/number", self._values)
        self._values[name] = Value(name, value.shape, "f32")
        return name


def _exact(at: Nodes) -> str | None:
    """The value of an operator on 16 bits that is exact, where nodes on numbers would not be."""
    if is_wide_function(at):
        return wide_function(at)
    if is_wide_resize(at):
        return wide_resize(at)
    return wide_softmax(at) if is_wide_softmax(at) else None


def _stored_fault(value: Value) -> str | None:
    """Why stored values are not those of one scale, and of 16 bits around 0."""
    assert value.quantization is not None
    if value.type != "s16":
        return byte_fault(value)
    fits = not value.quantization.per_channel and not value.quantization.zero_point.any()
    return None if fits else "its values of 16 bits must have one scale, and 0 as zero point"


def _is_raw(step: Step, outputs: Sequence[Value]) -> bool:
    """Whether an operator moves stored values that stand for the same before and behind it."""
    if step.plain.operator not in RAW:
        return False
    if step.plain.operator in ("CAST", *integers.BITWISE):
        return True
    stored = [value for value in (*step.inputs, *outputs) if value.type in STORED and value.quantization is not None]
    if any(_stored_fault(value) for value in stored) or _activation(step):
        return False
    return all(is_same_quantization(value, outputs[0]) for value in stored) if outputs[0] in stored else not stored


def _activation(step: Step) -> int:
    if step.plain.operator != "CONCATENATION":
        return 0
    return int(step.options("ConcatenationOptions").FusedActivationFunction())


def _too_many(most: int, shape: Sequence[int]) -> str:
    return f"its values must be at most {most:,}: {list(shape)}"


def _inferred(at: Nodes) -> dict[str, Form]:
    """The types and shapes of what nodes make, by ONNX."""
    import onnx

    graph = onnx.GraphProto(name="operator")
    graph.node.extend(at.nodes)
    for name, index in at.taken.items():
        value = at.value(index)
        graph.input.append(onnx.helper.make_tensor_value_info(name, ELEMENTS[at.element(value)], value.shape))
    for name, array in at.constants.items():
        if array.size <= MOST_PLACES:
            graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        else:
            element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, element, array.shape))
    model = onnx.helper.make_model(graph, ir_version=FILE_VERSION, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    try:
        onnx.checker.check_model(model)
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # of C++, which has several kinds of it
        raise UnsupportedOperatorError(f"its inputs don't fit each other: {reason_of(error)}") from None
    return {info.name: _form(info) for info in (*model.graph.input, *model.graph.value_info)}


_NAMES = {number: name for name, number in ELEMENTS.items()}


def _form(info: Any) -> Form:
    tensor = info.type.tensor_type
    return _NAMES.get(tensor.elem_type, "?"), tuple(int(axis.dim_value) for axis in tensor.shape.dim)


def _text(form: Form | None) -> str:
    return "unknown" if form is None else f"{form[0]} {list(form[1])}"


def _macs(at: Nodes, forms: dict[str, Form]) -> int:
    shapes = {name: array.shape for name, array in at.constants.items()} | {
        name: form[1] for name, form in forms.items()
    }
    return sum(
        multiply_adds(node.op_type, [shapes[name] for name in node.input if name], shapes[node.output[0]])
        for node in at.nodes
    )

"""TFLite models: their flatbuffers, whose schema is the package `tflite`, as graphs.

Sources: schema.fbs of TensorFlow Lite, its quantization specification, and kernels/kernel_util.cc for the bounds of
fused activations. A model's operators have no names; the tensor that an operator makes has, of all the layers that the
converter made one operator of, with semicolons between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import ElementType, Graph, Kind, Operator, Quantization, Value
from int8tune.compiler.operators import checked, other
from int8tune.compiler.strict_json import clipped
from int8tune.compiler.tflite_reader.dilated import dilations_of
from int8tune.compiler.tflite_reader.operators import (
    SAME,
    VALID,
    activation_bounds,
    typed_operators,
    window_padding,
)
from int8tune.compiler.tflite_reader.steps import Step
from int8tune.compiler.tflite_reader.transposed import transposed_operators
from int8tune.compiler.tflite_reader.weights import filters_first
from int8tune.compiler.unused import without_unused
from int8tune.results.text import printable
from int8tune.schedules.numerics import RANGES

IDENTIFIER = b"TFL3"
MOST_TENSORS = MOST_OPERATORS = 100_000
MOST_ELEMENTS, MOST_AXES = 1 << 31, 8
MOST_SHARED, MOST_NAME_BYTES = 8, 1 << 16
MOST_SHOWN = 4
# Operators that run another subgraph.
CALLERS = ("CALL", "CALL_ONCE", "IF", "WHILE")
# Of the schema's enumerations.
TYPES: dict[int, ElementType] = {
    0: "f32",
    3: "u8",
    9: "s8",
    7: "s16",
    2: "s32",
    4: "s64",
    1: "f16",
    10: "f64",
    6: "bool",
}
DTYPES = {
    "f32": "<f4",
    "u8": "u1",
    "s8": "i1",
    "s16": "<i2",
    "s32": "<i4",
    "s64": "<i8",
    "f16": "<f2",
    "f64": "<f8",
    "bool": "?",
}
INSTALL = "pip install 'int8tune[models]'"


def read_tflite(data: bytes, name: str) -> Graph:
    """The graph of a model.

    Raises:
        ModelError: the file is damaged, or has something that is not supported; one line, which names the place.
    """
    try:
        import tflite
    except ImportError:
        raise ModelError(f"{name}: reading TFLite models needs the package tflite: {INSTALL}") from None
    if data[4:8] != IDENTIFIER:
        raise ModelError(f"{name}: no TFLite model: it does not begin with its identifier {IDENTIFIER.decode()}")
    try:
        return _Reader(tflite, data, name).read()
    except ModelError:
        raise
    except Exception as error:  # the schema's code follows offsets of the file wherever they lead
        reason = printable(clipped(str(error))) or type(error).__name__
        raise ModelError(f"{name}: the file is damaged: {reason}") from None


class _Reader:
    """Reads one file; `schema` is the package `tflite`."""

    def __init__(self, schema: Any, data: bytes, name: str) -> None:
        self._schema, self._name = schema, name
        self._model = schema.Model.GetRootAs(data, 0)
        # Several may point to the same data, names and lists, of which each gets a copy.
        self._left_bytes = self._most_bytes = MOST_SHARED * len(data)
        # Weights of depthwise convolutions, [1, KH, KW, OC] in the file, that have their axes as a graph has them.
        self._moved: set[str] = set()
        self._operators = {code: word for word, code in vars(schema.BuiltinOperator).items() if word.isupper()}
        self._types = {code: word for word, code in vars(schema.TensorType).items() if word.isupper()}

    @np.errstate(all="ignore")  # scales of a file may be anything
    def read(self) -> Graph:
        if self._model.SubgraphsLength() != 1:
            raise self._error(f"a model must have one subgraph, not {self._subgraphs()}")
        self._subgraph = self._model.Subgraphs(0)
        tensors = self._count("tensors", self._subgraph.TensorsLength(), MOST_TENSORS)
        operators = self._count("operators", self._subgraph.OperatorsLength(), MOST_OPERATORS)
        self._names = self._unique_names(tensors)
        self._indexes = {name: index for index, name in enumerate(self._names)}
        self._values = {self._names[index]: self._value(index) for index in self._used(tensors, operators)}
        inputs, outputs = (
            tuple(self._names[self._tensor(index, tensors)] for index in self._indices(vector))
            for vector in (self._subgraph.InputsAsNumpy(), self._subgraph.OutputsAsNumpy())
        )
        plains = [self._plain(index) for index in range(operators)]
        self._dilations = dilations_of(plains, self._values, outputs, self._is_simple)
        idle = {index for dilation in self._dilations.values() for index in dilation.idle}
        made = tuple(
            each for index, plain in enumerate(plains) if index not in idle for each in self._operators_of(index, plain)
        )
        self._check_order(made, inputs, outputs)
        return without_unused(Graph(self._name, self._values, made, inputs, outputs))

    def _subgraphs(self) -> str:
        """How many subgraphs there are, what they are called, and which operators run the others."""
        found = [self._model.Subgraphs(index) for index in range(self._model.SubgraphsLength())]
        if not found:
            return "none"
        called = [f"`{clipped((graph.Name() or b'').decode('utf-8', 'replace'))}`" for graph in found[:MOST_SHOWN]]
        words = {self._word(found[0].Operators(index)) for index in range(found[0].OperatorsLength())}
        callers = ", ".join(sorted(words.intersection(CALLERS)))
        shown = ", ".join([*called, *(["..."] if len(found) > MOST_SHOWN else [])])
        return f"{len(found)}: {shown}" + (f"; its first one runs others ({callers})" if callers else "")

    def _word(self, operator: Any) -> str:
        """What the schema calls an operator."""
        code = self._model.OperatorCodes(operator.OpcodeIndex())
        return str(self._operators.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "CUSTOM"))

    def _check_order(self, operators: Iterable[Operator], inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """Raise where something is read before it is made, or never made, or made twice."""
        known = {name for name, value in self._values.items() if value.constant is not None}
        known.update(inputs)
        for operator in operators:
            for name in operator.inputs:
                if name not in known and not self._is_state(name):
                    raise self._place(operator, f"it reads `{clipped(name)}`, which nothing makes before")
            for name in operator.outputs:
                if name in known:
                    raise self._place(operator, f"it makes `{clipped(name)}`, which something else makes, too")
                known.add(name)
        for name in outputs:
            if name not in known:
                raise self._error(f"its output `{clipped(name)}` is made by no operator")
            if self._values[name].constant is not None:
                raise self._error(f"its output `{clipped(name)}` is a constant")

    def _is_state(self, name: str) -> bool:
        """Whether a tensor keeps its values from one run to the next."""
        return bool(self._subgraph.Tensors(self._indexes[name]).IsVariable())

    # Values.

    def _used(self, tensors: int, operators: int) -> list[int]:
        """Tensors that the model or an operator takes or makes; others, as an LSTM's intermediates, may be anything."""
        parts = [self._subgraph, *(self._subgraph.Operators(index) for index in range(operators))]
        vectors = [vector for part in parts for vector in (part.InputsAsNumpy(), part.OutputsAsNumpy())]
        named = {at for vector in vectors for at in self._indices(vector) if at != -1}
        return sorted(self._tensor(at, tensors) for at in named)

    def _unique_names(self, count: int) -> list[str]:
        """The file's names; one that is empty or there already has a number, and none that is there."""
        names = [self._printable_name(self._subgraph.Tensors(index).Name() or b"", index) for index in range(count)]
        taken, seen = set(names), set[str]()
        for index, name in enumerate(names):
            number = index
            while not names[index] or names[index] in seen:
                candidate = f"{name}#{number}"
                names[index] = "" if candidate in taken else candidate
                number += count
            seen.add(names[index])
            taken.add(names[index])
        return names

    def _printable_name(self, name: bytes, index: int) -> str:
        if len(name) > MOST_NAME_BYTES:
            raise self._error(f"the name of tensor {index} must have at most {MOST_NAME_BYTES} bytes: {len(name)}")
        self._take(len(name))
        return printable(name.decode("utf-8", "replace"))

    def _value(self, index: int) -> Value:
        tensor, name = self._subgraph.Tensors(index), self._names[index]
        shape = tuple(int(extent) for extent in self._indices(tensor.ShapeAsNumpy()))
        if len(shape) > MOST_AXES:
            raise self._error(f"tensor `{clipped(name)}`: it must have at most {MOST_AXES} axes: {len(shape)}")
        if any(extent < 1 for extent in shape) or math.prod(shape) > MOST_ELEMENTS:
            raise self._error(f"tensor `{clipped(name)}`: its shape must be positive, of at most 2^31 values: {shape}")
        code = tensor.Type()
        if code not in TYPES:
            word = self._types.get(code, str(code))
            raise self._error(f"tensor `{clipped(name)}`: type {word} is not supported, known: {', '.join(DTYPES)}")
        return Value(name, shape, TYPES[code], self._quantization(tensor, name, shape), self._constant(tensor, shape))

    def _quantization(self, tensor: Any, name: str, shape: tuple[int, ...]) -> Quantization | None:
        parameters = tensor.Quantization()
        if parameters is None or not parameters.ScaleLength():
            return None
        scale = np.asarray(parameters.ScaleAsNumpy(), np.float32)
        zero_point = np.zeros(len(scale), np.int64)
        if parameters.ZeroPointLength():
            zero_point = np.asarray(parameters.ZeroPointAsNumpy(), np.int64)
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise self._error(f"tensor `{clipped(name)}`: scales must be positive and finite: {scale.min()}")
        low, high = RANGES.get(TYPES[tensor.Type()], (-(2**31), 2**31 - 1))
        if zero_point.min() < low or zero_point.max() > high:
            raise self._error(f"tensor `{clipped(name)}`: zero points must be within {low} and {high}: {zero_point[0]}")
        axis = parameters.QuantizedDimension() if len(scale) > 1 else None
        if axis is not None and (not 0 <= axis < len(shape) or shape[axis] != len(scale)):
            has = f"has {shape[axis]} channels" if 0 <= axis < len(shape) else "it does not have"
            raise self._error(f"tensor `{clipped(name)}`: {len(scale)} scales for axis {axis}, which {has}: {shape}")
        if len(zero_point) not in (1, len(scale)):
            counts = f"{len(zero_point)} zero points for {len(scale)} scales"
            raise self._error(f"tensor `{clipped(name)}`: one zero point or one for each scale is needed: {counts}")
        return Quantization(scale, np.broadcast_to(zero_point, scale.shape), axis)

    def _constant(self, tensor: Any, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
        buffer = self._model.Buffers(tensor.Buffer())
        if buffer is None or not buffer.DataLength():
            return None
        values = buffer.DataAsNumpy()
        self._take(values.nbytes)
        return np.frombuffer(values.tobytes(), DTYPES[TYPES[tensor.Type()]]).reshape(shape)

    # Operators.

    def _plain(self, index: int) -> Operator:
        """An operator of which nothing is known but its name, inputs and outputs."""
        operator = self._subgraph.Operators(index)
        word = self._word(operator)
        count = len(self._names)
        inputs = tuple(
            self._names[self._tensor(at, count)] for at in self._indices(operator.InputsAsNumpy()) if at != -1
        )
        outputs = tuple(self._names[self._tensor(at, count)] for at in self._indices(operator.OutputsAsNumpy()))
        if not outputs:
            raise self._error(f"operator {index} ({word}) makes nothing")
        layers = tuple(part for part in outputs[0].split(";") if part)
        return Operator(Kind.OTHER, layers, word, inputs, outputs, "fixed")

    def _is_simple(self, index: int) -> bool:
        """Whether a convolution has no border, stride and dilation."""
        operator = self._subgraph.Operators(index)
        is_depthwise = self._word(operator) == "DEPTHWISE_CONV_2D"
        options = self._options(operator, "DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions")
        steps = options.StrideH(), options.StrideW(), options.DilationHFactor(), options.DilationWFactor()
        return options.Padding() == VALID and steps == (1, 1, 1, 1)

    def _operators_of(self, index: int, plain: Operator) -> tuple[Operator, ...]:
        operator, word, output = self._subgraph.Operators(index), plain.operator, self._values[plain.outputs[0]]
        read: Callable[..., Operator] | None = {
            "CONV_2D": self._conv,
            "DEPTHWISE_CONV_2D": self._depthwise,
            "FULLY_CONNECTED": self._dense,
            "ADD": self._add,
        }.get(word)
        if read is None:
            taken = tuple(self._values[name] for name in plain.inputs)
            step = Step(plain, taken, output, partial(self._options, operator))
            make = transposed_operators if word == "TRANSPOSE_CONV" else typed_operators
            return make(step, self._values)
        if output.type not in ("u8", "s8"):
            self._refuse_half_quantized(plain)
            return (other(plain, f"its output must be 8-bit integers: {output.type}"),)
        made, dilation = read(plain, operator), self._dilations.get(index)
        return (made if dilation is None else dilation.applied(made),)

    def _refuse_half_quantized(self, operator: Operator) -> None:
        """8-bit weights for data that is not: numbers of a model whose weights alone are quantized, or int16."""
        types = [self._values[name].type for name in operator.inputs[:2]]
        if operator.operator not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") or types[1:] != ["s8"]:
            return
        if types[0] == "s16":
            raise self._place(operator, "its activations are int16 (int16x8 quantization): quantize them to 8 bits")
        why = f"8-bit weights for {types[0]} data (dynamic-range quantization): quantize the activations, too"
        raise self._place(operator, why)

    def _conv(self, plain: Operator, operator: Any) -> Operator:
        options = self._options(operator, "Conv2DOptions")
        data, weight = self._operands(plain, 4, 4)
        if data.shape[3] % weight.shape[3]:
            raise self._place(plain, f"{data.shape[3]} channels can't be shared by filters of {weight.shape[3]}")
        return self._convolution(Kind.CONV2D, plain, options, data.shape[3] // weight.shape[3])

    def _depthwise(self, plain: Operator, operator: Any) -> Operator:
        options = self._options(operator, "DepthwiseConv2DOptions")
        data, weight = self._operands(plain, 4, 4)
        if weight.name not in self._moved:
            if weight.shape[0] != 1 or weight.shape[3] % data.shape[3]:
                raise self._place(plain, f"weights {weight.shape} don't fit {data.shape[3]} channels")
            self._moved.add(weight.name)
            self._values[weight.name] = filters_first(weight)
        return self._convolution(Kind.DEPTHWISE, plain, options, data.shape[3])

    def _dense(self, plain: Operator, operator: Any) -> Operator:
        options = self._options(operator, "FullyConnectedOptions")
        if options.WeightsFormat():
            raise self._place(plain, "shuffled weights are not supported")
        data, weight = self._operands(plain, None, 2)
        if math.prod(data.shape) % weight.shape[1]:
            raise self._place(plain, f"data {data.shape} are no rows of {weight.shape[1]} values")
        return self._made(Kind.DENSE, plain, options.FusedActivationFunction(), {})

    def _add(self, plain: Operator, operator: Any) -> Operator:
        options = self._options(operator, "AddOptions")
        return checked(self._made(Kind.ADD, plain, options.FusedActivationFunction(), {}), self._values)

    def _convolution(self, kind: Kind, plain: Operator, options: Any, groups: int) -> Operator:
        data, weight, output = (self._values[name] for name in (*plain.inputs[:2], plain.outputs[0]))
        stride = options.StrideH(), options.StrideW()
        dilation = options.DilationHFactor(), options.DilationWFactor()
        if min(stride + dilation) < 1 or options.Padding() not in (SAME, VALID):
            what = f"stride {stride}, dilation {dilation} or padding {options.Padding()}"
            raise self._place(plain, f"{what} is out of range")
        kernel = weight.shape[1], weight.shape[2]
        padding = window_padding(options.Padding(), data.shape, kernel, stride, dilation)
        if len(output.shape) != 4:
            raise self._place(plain, f"its output must have four axes: {output.shape}")
        attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return self._made(kind, plain, options.FusedActivationFunction(), attributes)

    def _made(self, kind: Kind, plain: Operator, activation: int, attributes: dict[str, Any]) -> Operator:
        clamp = self._clamp(plain, activation)
        return Operator(kind, plain.layers, plain.operator, plain.inputs, plain.outputs, "fixed", clamp, attributes)

    def _clamp(self, plain: Operator, activation: int) -> tuple[int, int]:
        """The bounds of an activation in stored values of the output."""
        bounds = activation_bounds(self._values[plain.outputs[0]], activation)
        if isinstance(bounds, str):
            raise self._place(plain, bounds)
        return bounds

    def _operands(self, plain: Operator, data_axes: int | None, weight_axes: int) -> tuple[Value, Value]:
        """Data and weights of an 8-bit operator, which must have what a kernel needs."""
        if len(plain.inputs) not in (2, 3):
            raise self._place(plain, f"it must have data, weights and perhaps a bias: {len(plain.inputs)} inputs")
        data, weight, *bias = (self._values[name] for name in plain.inputs)
        for role, value, axes in (("data", data, data_axes), ("weights", weight, weight_axes)):
            if value.type not in ("u8", "s8") or value.quantization is None:
                what = f"`{clipped(value.name)}` is {value.type}" + " without a scale" * (value.quantization is None)
                raise self._place(plain, f"its {role} must be 8-bit and quantized, {what}")
            if axes is not None and len(value.shape) != axes:
                raise self._place(plain, f"its {role} must have {axes} axes: {value.shape}")
        if data.quantization is not None and data.quantization.per_channel:
            raise self._place(plain, "its data must have one scale")
        if weight.constant is None:
            raise self._place(plain, "its weights must be constant")
        if bias and (bias[0].type != "s32" or bias[0].constant is None):
            raise self._place(plain, "its bias must be a constant of 32 bits")
        return data, weight

    # The file.

    def _options(self, operator: Any, kind: str) -> Any:
        options, table = getattr(self._schema, kind)(), operator.BuiltinOptions()
        if table is None:
            raise self._error("an operator lacks its options")
        options.Init(table.Bytes, table.Pos)
        return options

    def _indices(self, vector: Any) -> list[int]:
        """A vector of the file, for which the schema's code gives 0 if it is not there."""
        if isinstance(vector, int):
            return []
        self._take(vector.nbytes)
        return [int(value) for value in vector]

    def _take(self, size_bytes: int) -> None:
        """Count what is copied from the file."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise self._error(f"its parts share data until they have over {self._most_bytes} bytes")

    def _tensor(self, index: int, count: int) -> int:
        if not 0 <= index < count:
            raise self._error(f"an operator names tensor {index} of {count}")
        return index

    def _count(self, what: str, count: int, most: int) -> int:
        if count > most:
            raise self._error(f"a model has at most {most} {what}: {count}")
        return int(count)

    def _place(self, operator: Operator, why: str) -> ModelError:
        return self._error(f"layer `{clipped(operator.outputs[0])}` ({operator.operator}): {why}")

    def _error(self, why: str) -> ModelError:
        return ModelError(f"{self._name}: {why}")

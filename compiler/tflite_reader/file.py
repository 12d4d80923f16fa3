"""TFLite files that somebody else wrote: their flatbuffers, whose schema is the package `tflite`.

Nothing of a file is trusted: names, values and operators are checked when they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import ElementType, Kind, Operator, Quantization, Value
from int8tune.compiler.tflite_reader.blocks import BLOCKWISE, NO_TENSOR, NONE, blocks_of, quantization_of
from int8tune.compiler.tflite_reader.packed import INT4, PACKED_BITS, PACKED_WORDS, packed_fault, packed_range, unpacked
from int8tune.compiler.tflite_reader.tables import EMPTY_TABLE, POWERLESS_TABLE, number_at
from int8tune.results.text import clipped, printable
from int8tune.schedules.numerics import RANGES

MOST_TENSORS = MOST_OPERATORS = 100_000
MOST_ELEMENTS, MOST_AXES = 1 << 31, 8
MOST_SHARED, MOST_NAME_BYTES = 8, 1 << 16
CUSTOM = "CUSTOM"
WITHOUT_OUTPUTS = ("CALL_ONCE", "ASSIGN_VARIABLE")
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
# Options whose defaults in the schema are no zeros, as LiteRT has them where they lack, or which name a subgraph.
NEVER_ZEROS = (
    *("Conv2DOptions", "DepthwiseConv2DOptions", "Conv3DOptions"),
    *("CallOnceOptions", "VarHandleOptions", "IfOptions", "WhileOptions", "StableHLOCompositeOptions"),
)
BUILTIN_CODE_SLOT = 10  # of `OperatorCode`
# Options of sums, whose 16-bit scales are powers of two by default, but not where options lack.
POWERLESS = ("AddOptions", "SubOptions")
# Complex numbers are pairs along one more axis; only these operators make and read them.
COMPLEX, MAKES_COMPLEX, READS_COMPLEX = 8, ("RFFT2D",), ("COMPLEX_ABS", "REAL", "IMAG")
# Pairs of numbers are their last axis here, which these leave where it is.
SHAPES_COMPLEX = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
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
IDENTIFIER = b"TFL3"
INSTALL = "pip install 'int8tune[models]'"


def schema_of(data: bytes, name: str) -> Any:
    """The package `tflite`, for a file that has its identifier.

    Raises:
        ModelError: the package is missing, or this is no TFLite file.
    """
    try:
        import tflite
    except ImportError:
        raise ModelError(f"{name}: reading TFLite models needs the package tflite: {INSTALL}") from None
    if data[4:8] != IDENTIFIER:
        raise ModelError(f"{name}: no TFLite model: it does not begin with its identifier {IDENTIFIER.decode()}")
    return tflite


@contextmanager
def damage_told(name: str) -> Iterator[None]:
    """What a damaged file makes fail, as one line: the schema's code follows its offsets wherever they lead.

    Raises:
        ModelError: in place of any error but this one and a missing package.
    """
    try:
        yield
    except (ModelError, ImportError):
        raise
    except Exception as error:
        reason = printable(clipped(str(error))) or type(error).__name__
        raise ModelError(f"{name}: the file is damaged: {reason}") from None


class TfliteFile:
    """A file; `schema` is the package `tflite`, `model` its root."""

    def __init__(self, schema: Any, data: bytes, name: str) -> None:
        self.schema, self.name = schema, name
        self.model = schema.Model.GetRootAs(data, 0)
        # Several may point to the same data, names and lists, of which each gets a copy.
        self._left_bytes = self._most_bytes = MOST_SHARED * len(data)
        self._operators = {code: word for word, code in vars(schema.BuiltinOperator).items() if word.isupper()}
        self.types = {code: word for word, code in vars(schema.TensorType).items() if word.isupper()} | PACKED_WORDS

    def word(self, operator: Any) -> str:
        """What the schema calls an operator; `CUSTOM` is followed by the file's own name for it."""
        code = self.model.OperatorCodes(operator.OpcodeIndex())
        word = str(self._operators.get(_builtin_code(code), CUSTOM))
        if word != CUSTOM:
            return word
        return clipped(printable(f"{CUSTOM} {(code.CustomCode() or b'').decode('utf-8', 'replace')}".strip()))

    def options(self, operator: Any, kind: str, is_second: bool = False) -> Any:
        """Options of a class of the schema; operators that came late have them in another place.

        An operator without any, or with those of another class, has what LiteRT then takes: zeros.
        """
        options = getattr(self.schema, kind)()
        kinds = self.schema.BuiltinOptions2 if is_second else self.schema.BuiltinOptions
        found = operator.BuiltinOptions2Type() if is_second else operator.BuiltinOptionsType()
        table = operator.BuiltinOptions2() if is_second else operator.BuiltinOptions()
        if table is not None and found == getattr(kinds, kind):
            options.Init(table.Bytes, table.Pos)
        elif kind in NEVER_ZEROS:
            raise self.error("an operator lacks its options")
        else:
            options.Init(*(POWERLESS_TABLE if kind in POWERLESS else EMPTY_TABLE))
        return options

    def indices(self, vector: Any) -> list[int]:
        """A vector of the file, for which the schema's code gives 0 if it is not there."""
        if isinstance(vector, int):
            return []
        self.take(vector.nbytes)
        return [int(value) for value in vector]

    def take(self, size_bytes: int) -> None:
        """Count what is copied from the file."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise self.error(f"its parts share data until they have over {self._most_bytes} bytes")

    def tensor(self, index: int, count: int) -> int:
        if not 0 <= index < count:
            raise self.error(f"an operator names tensor {index} of {count}")
        return index

    def count(self, what: str, count: int, most: int) -> int:
        if count > most:
            raise self.error(f"a model has at most {most} {what}: {count}")
        return int(count)

    def place(self, operator: Operator, why: str) -> ModelError:
        return self.error(f"layer `{clipped((*operator.outputs, '')[0])}` ({operator.operator}): {why}")

    def error(self, why: str) -> ModelError:
        return ModelError(f"{self.name}: {why}")


class Operators(Protocol):
    """A graph of a file, or one that was made of several: what is read operator by operator, as `Subgraph` has it."""

    names: list[str]
    values: dict[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    plains: list[Operator]

    def operator(self, index: int) -> Any: ...
    def slots(self, index: int) -> tuple[str | None, ...]: ...
    def intermediates(self, index: int) -> list[Quantization | None]: ...
    def is_state(self, name: str) -> bool: ...


class Subgraph:
    """One of a file's graphs.

    Attributes:
        names: of its tensors, each another one.
        values: of those that it or an operator takes or makes, by name; variables (resources) have none.
        plains: its operators, of which nothing is known but their names, inputs and outputs.
    """

    def __init__(self, file: TfliteFile, index: int) -> None:
        self._file, self._subgraph = file, file.model.Subgraphs(index)
        tensors = file.count("tensors", self._subgraph.TensorsLength(), MOST_TENSORS)
        operators = file.count("operators", self._subgraph.OperatorsLength(), MOST_OPERATORS)
        self.names = self._unique_names(tensors)
        self._indexes = {name: at for at, name in enumerate(self.names)}
        self.inputs: tuple[str, ...]
        self.outputs: tuple[str, ...]
        self.inputs, self.outputs = (
            tuple(self.names[file.tensor(at, tensors)] for at in file.indices(vector))
            for vector in (self._subgraph.InputsAsNumpy(), self._subgraph.OutputsAsNumpy())
        )
        self._complex: set[str] = set()
        self._packed: dict[str, int] = {}
        self.values = {
            self.names[at]: self._value(at) for at in self._used(tensors, operators) if not self._is_resource(at)
        }
        self.plains = [self._plain(at) for at in range(operators)]
        self._check_complex()
        self._check_packed()

    def operator(self, index: int) -> Any:
        """An operator as the file has it."""
        return self._subgraph.Operators(index)

    def slots(self, index: int) -> tuple[str | None, ...]:
        """The inputs of an operator by their places in the schema; None for what is left out."""
        places = self._file.indices(self._subgraph.Operators(index).InputsAsNumpy())
        return tuple(None if at == -1 else self.names[at] for at in places)

    def intermediates(self, index: int) -> list[Quantization | None]:
        """The scales of values inside of an operator, of which the file has no shapes."""
        places = self._file.indices(self._subgraph.Operators(index).IntermediatesAsNumpy())
        tensors = {at: self._subgraph.Tensors(self._file.tensor(at, len(self.names))) for at in places}
        is_known = {at: tensor.Type() in TYPES for at, tensor in tensors.items()}
        return [self._quantization(tensors[at], self.names[at], ()) if is_known[at] else None for at in places]

    def is_state(self, name: str) -> bool:
        """Whether a tensor keeps its values from one run to the next."""
        return bool(self._subgraph.Tensors(self._indexes[name]).IsVariable())

    def _is_resource(self, index: int) -> bool:
        return self._file.types.get(self._subgraph.Tensors(index).Type()) == "RESOURCE"

    # Values.

    def _used(self, tensors: int, operators: int) -> list[int]:
        """Tensors that the model or an operator takes or makes; others, as an LSTM's intermediates, may be anything."""
        parts = [self._subgraph, *(self._subgraph.Operators(index) for index in range(operators))]
        vectors = [vector for part in parts for vector in (part.InputsAsNumpy(), part.OutputsAsNumpy())]
        named = {at for vector in vectors for at in self._file.indices(vector) if at != -1}
        return sorted(self._file.tensor(at, tensors) for at in named)

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
            raise self._file.error(f"the name of tensor {index} must have at most {MOST_NAME_BYTES} bytes: {len(name)}")
        self._file.take(len(name))
        return printable(name.decode("utf-8", "replace"))

    def _value(self, index: int) -> Value:
        tensor, name = self._subgraph.Tensors(index), self.names[index]
        shape = tuple(int(extent) for extent in self._file.indices(tensor.ShapeAsNumpy()))
        if len(shape) > MOST_AXES:
            raise self._file.error(f"tensor `{clipped(name)}`: it must have at most {MOST_AXES} axes: {len(shape)}")
        code = tensor.Type()
        element = TYPES.get(code, "")
        if shape == (0,) and element in ("s32", "s64") and name not in self.inputs:  # the shape of a single number
            return Value(name, shape, TYPES[code], None, np.zeros(shape, DTYPES[element]))
        if any(extent < 1 for extent in shape) or math.prod(shape) > MOST_ELEMENTS:
            raise self._file.error(
                f"tensor `{clipped(name)}`: its shape must be positive, of at most 2^31 values: {shape}"
            )
        if code == COMPLEX and name not in (*self.inputs, *self.outputs) and self._stored(tensor) is None:
            self._complex.add(name)
            return Value(name, (*shape, 2), "f32")
        if code in PACKED_BITS and (packed := self._stored(tensor)) is not None:
            self._packed[name] = code
            self._file.take(math.prod(shape))
            constant = unpacked(packed, code, shape)
            if isinstance(constant, str):
                raise self._file.error(f"tensor `{clipped(name)}`: {constant}")
            found = self._blocks(tensor, name, shape) or self._quantization(tensor, name, shape)
            return Value(name, shape, "s8", found, constant)
        if code not in TYPES:
            word = self._file.types.get(code, str(code))
            raise self._file.error(
                f"tensor `{clipped(name)}`: type {word} is not supported, known: {', '.join(DTYPES)}"
            )
        return Value(name, shape, TYPES[code], self._quantization(tensor, name, shape), self._constant(tensor, shape))

    def _blocks(self, tensor: Any, name: str, shape: tuple[int, ...]) -> Quantization | None:
        """The quantization of weights with scales for blocks of their rows; None for others."""
        if tensor.Type() != INT4 or (blocks := blocks_of(tensor.Quantization())) is None:
            return None
        if blocks.zero_points != NO_TENSOR:
            raise self._file.error(f"tensor `{clipped(name)}`: blocks with zero points are not supported")
        scales = self._subgraph.Tensors(self._file.tensor(blocks.scales, len(self.names)))
        form = tuple(int(extent) for extent in self._file.indices(scales.ShapeAsNumpy()))
        constant = self._constant(scales, form) if scales.Type() in TYPES else None
        found = "its blocks have no scales" if constant is None else quantization_of(shape, blocks.size, constant)
        if isinstance(found, str):
            raise self._file.error(f"tensor `{clipped(name)}`: {found}")
        return found

    def _quantization(self, tensor: Any, name: str, shape: tuple[int, ...]) -> Quantization | None:
        parameters = tensor.Quantization()
        if parameters is not None and parameters.DetailsType() != NONE:
            kind = "blocks of values but of INT4" if parameters.DetailsType() == BLOCKWISE else "this kind"
            raise self._file.error(f"tensor `{clipped(name)}`: scales for {kind} are not supported")
        if parameters is None or not parameters.ScaleLength():
            return None
        scale = np.asarray(parameters.ScaleAsNumpy(), np.float32)
        zero_point = np.zeros(len(scale), np.int64)
        if parameters.ZeroPointLength():
            zero_point = np.asarray(parameters.ZeroPointAsNumpy(), np.int64)
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise self._file.error(f"tensor `{clipped(name)}`: scales must be positive and finite: {scale.min()}")
        low, high = _range_of(tensor.Type())
        if zero_point.min() < low or zero_point.max() > high:
            raise self._file.error(
                f"tensor `{clipped(name)}`: zero points must be within {low} and {high}: {zero_point[0]}"
            )
        axis = parameters.QuantizedDimension() if len(scale) > 1 else None
        if axis is not None and shape == (len(scale),):
            # Older converters wrote the axis of the weights for a bias, too.
            axis = 0
        if axis is not None and (not 0 <= axis < len(shape) or shape[axis] != len(scale)):
            has = f"has {shape[axis]} channels" if 0 <= axis < len(shape) else "it does not have"
            raise self._file.error(
                f"tensor `{clipped(name)}`: {len(scale)} scales for axis {axis}, which {has}: {shape}"
            )
        if len(zero_point) not in (1, len(scale)):
            counts = f"{len(zero_point)} zero points for {len(scale)} scales"
            raise self._file.error(
                f"tensor `{clipped(name)}`: one zero point or one for each scale is needed: {counts}"
            )
        return Quantization(scale, np.broadcast_to(zero_point, scale.shape), axis)

    def _check_complex(self) -> None:
        """Raise where complex numbers are not between the operators that have them."""
        for plain in self.plains:
            wanted = {*plain.outputs} if plain.operator in MAKES_COMPLEX else set()
            wanted |= {*plain.inputs[:1]} if plain.operator in READS_COMPLEX else set()
            if plain.operator in SHAPES_COMPLEX and self._complex.intersection(plain.inputs[:1]):
                wanted = {*plain.inputs[:1], *plain.outputs}
            if wrong := wanted ^ self._complex.intersection((*plain.inputs, *plain.outputs)):
                who = f"only {', '.join((*MAKES_COMPLEX, *SHAPES_COMPLEX, *READS_COMPLEX))} have complex numbers"
                raise self._file.error(f"tensor `{clipped(min(wrong))}` of {plain.operator}: {who}")

    def _check_packed(self) -> None:
        """Raise where LiteRT does not unpack a constant of few bits, or reads it as what it is not."""
        for plain in self.plains:
            for place, name in enumerate(plain.inputs):
                if name not in self._packed:
                    continue
                values = self.values[name], self.values[plain.inputs[0]]
                if (fault := packed_fault(plain.operator, place, self._packed[name], *values)) is not None:
                    raise self._file.error(f"tensor `{clipped(name)}`: {fault}")

    def _stored(self, tensor: Any) -> npt.NDArray[Any] | None:
        """The bytes that a file has of a tensor."""
        buffer = self._file.model.Buffers(tensor.Buffer())
        return None if buffer is None or not buffer.DataLength() else buffer.DataAsNumpy()

    def _constant(self, tensor: Any, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
        if (values := self._stored(tensor)) is None:
            return None
        self._file.take(values.nbytes)
        return np.frombuffer(values.tobytes(), DTYPES[TYPES[tensor.Type()]]).reshape(shape)

    def _plain(self, index: int) -> Operator:
        """An operator of which nothing is known but its name, inputs and outputs."""
        operator = self._subgraph.Operators(index)
        word = self._file.word(operator)
        count = len(self.names)
        inputs = tuple(
            self.names[self._file.tensor(at, count)] for at in self._file.indices(operator.InputsAsNumpy()) if at != -1
        )
        outputs = tuple(
            self.names[self._file.tensor(at, count)] for at in self._file.indices(operator.OutputsAsNumpy())
        )
        if not outputs and word not in WITHOUT_OUTPUTS:
            raise self._file.error(f"operator {index} ({word}) makes nothing")
        layers = tuple(part for part in (*outputs, word)[0].split(";") if part)
        return Operator(Kind.OTHER, layers, word, inputs, outputs, "fixed")


def _builtin_code(code: Any) -> int:
    """An operator's number, as LiteRT takes it: the greater one of two fields, of which writers may fill either.

    The package `tflite` looks at one of them only: what ai-edge-quantizer puts in would be an ADD.
    """
    number = number_at(code._tab, BUILTIN_CODE_SLOT) or 0
    return max(number, int(code.DeprecatedBuiltinCode()))


def _range_of(code: int) -> tuple[int, int]:
    """The least and the greatest zero point of a type of the schema."""
    if code in PACKED_BITS:
        return packed_range(code)
    return RANGES.get(TYPES[code], (-(2**31), 2**31 - 1))

"""The values of a graph that is read from an ONNX file, by the names of the file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Value
from int8tune.compiler.naming import free_name
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.quantization import Constant, Quantizations
from int8tune.compiler.onnx_reader.tensors import TYPES


class GraphValues:
    """Values that operators take and make; `by_name` grows while a file is read.

    Attributes:
        carrier: the value that carries what a name stands for, where that is another one.
    """

    def __init__(self, file: OnnxFile, quantizations: Quantizations) -> None:
        self._file, self._quantizations = file, quantizations
        self.by_name: dict[str, Value] = {}
        self.carrier: dict[str, str] = {}
        self._constants: dict[tuple[object, ...], str] = {}
        self._copies: Counter[str] = Counter()

    def carried(self, name: str) -> str:
        """The name of the value that stands for a name of the file."""
        return self.carrier.get(name, name)

    def activation(self, name: str) -> Value | None:
        """The quantized value that a name stands for; None for constants and floats."""
        value = self.by_name.get(self.carried(name))
        return value if value is not None and value.quantization is not None and value.constant is None else None

    def operand(self, name: str) -> Value | None:
        """A quantized value, constant or not; None for floats and for an input that is left out."""
        constant = self._quantizations.constants.get(name)
        if constant is not None and constant.quantization is not None:
            return self.by_name[self.constant(constant, "")]
        return self.activation(name)

    def unused(self, name: str) -> str:
        """A name that nothing has, like `name`."""
        return free_name(name, self.by_name, self._file.forms)

    def like(self, value: Value, name: str, shape: tuple[int, ...]) -> str:
        """The name of a new value that is like another one but for its shape."""
        name = self.unused(name)
        self.by_name[name] = replace(value, name=name, shape=shape)
        return name

    def taken(self, name: str) -> str:
        """The name of the value that an operator takes."""
        constant = self._quantizations.constants.get(name)
        return self.carried(name) if constant is None else self.constant(constant, "")

    def plain(self, name: str) -> Value:
        """A value as the file says."""
        element, shape = self._file.forms[name]
        return Value(name, shape, element, self._quantizations.stored.get(name))

    def constant(self, constant: Constant, order: str) -> str:
        """The value of a constant in an order of axes: one that is read in several ways is as many values."""
        quantization = constant.quantization
        key: tuple[object, ...] = (constant.name, order)
        if quantization is not None:
            scale, zero_point = quantization.scale, quantization.zero_point
            key += (np.asarray(scale).tobytes(), np.asarray(zero_point).tobytes(), quantization.axis)
        if key not in self._constants:
            name = constant.name
            while name in self.by_name or (self._copies[constant.name] and name in self._file.forms):
                self._copies[constant.name] += 1
                name = f"{constant.name}#{self._copies[constant.name] + 1}"
            element = TYPES[constant.array.dtype]
            self.by_name[name] = Value(name, constant.array.shape, element, quantization, constant.array)
            self._constants[key] = name
        return self._constants[key]

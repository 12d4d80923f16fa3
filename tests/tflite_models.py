"""Small TFLite models, written operator by operator, and what LiteRT computes for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the extra `oracle`")
litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]

TYPES = {"f32": 0, "f16": 1, "s32": 2, "u8": 3, "s64": 4, "bool": 6, "s16": 7, "s8": 9, "f64": 10}
DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "s32": np.int32,
    "u8": np.uint8,
    "s64": np.int64,
    "bool": np.bool_,
    "s16": np.int16,
    "s8": np.int8,
    "f64": np.float64,
}


class Writer:
    """Writes a model; tensors are called as they are added."""

    def __init__(self) -> None:
        self.buffers = [schema.BufferT()]
        self.tensors: list[Any] = []
        self.operators: list[Any] = []
        self.codes: list[Any] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def tensor(
        self, name: str, kind: str, shape: Sequence[int], scale: float | None = None, zero_point: int = 0
    ) -> int:
        made = schema.TensorT()
        made.name, made.type, made.shape = name, TYPES[kind], list(shape)
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale, made.quantization.zeroPoint = [scale], [zero_point]
        self.tensors.append(made)
        return len(self.tensors) - 1

    def input(self, *form: Any) -> int:
        self.inputs.append(self.tensor(*form))
        return self.inputs[-1]

    def constant(self, name: str, kind: str, values: Any, scale: float | None = None, zero_point: int = 0) -> int:
        array = np.asarray(values, DTYPES[kind])
        made = self.tensor(name, kind, array.shape, scale, zero_point)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self.tensors[made].buffer = len(self.buffers)
        self.buffers.append(buffer)
        return made

    def operator(
        self,
        word: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        version: int = 2,
        **fields: Any,
    ) -> None:
        """Add an operator; `options` is a class of the schema without its end, `fields` what it is set to."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, word)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = len(self.codes), list(inputs), list(outputs)
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
            made.builtinOptions = getattr(schema, f"{options}OptionsT")()
            for name, value in fields.items():
                assert hasattr(made.builtinOptions, name), name
                setattr(made.builtinOptions, name, value)
        self.codes.append(code)
        self.operators.append(made)

    def model(self, *outputs: int) -> bytes:
        import flatbuffers

        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = list(outputs)
        model = schema.ModelT()
        model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, self.codes, [graph], self.buffers
        builder = flatbuffers.Builder(4096)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def values_of(data: bytes, feeds: dict[str, Array], is_reference: bool = True) -> dict[str, Array]:
    """Every value of a run of LiteRT's reference kernels, or of those that it chooses itself."""
    resolver = litert.OpResolverType.BUILTIN_REF if is_reference else litert.OpResolverType.BUILTIN
    if not is_reference:
        resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(
        model_content=data, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_tensor_details()}

"""Small TFLite models, written operator by operator, and what LiteRT computes for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the extra `oracle`")
flexbuffers = pytest.importorskip("flatbuffers.flexbuffers", reason="needs the extra `models`")
litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]

TYPES = {"f32": 0, "f16": 1, "s32": 2, "u8": 3, "s64": 4, "bool": 6, "s16": 7, "s8": 9, "f64": 10, "resource": 13}
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
# Constants of which several are in a byte, the first in its lowest bits.
PACKED_BITS = {"s4": 4, "s2": 2}
TYPES |= {"s4": 17, "s2": 19}


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
        array: Any = np.asarray(values, DTYPES.get(kind, np.int8))
        made = self.tensor(name, kind, array.shape, scale, zero_point)
        buffer = schema.BufferT()
        stored = in_bytes(array, PACKED_BITS[kind]) if kind in PACKED_BITS else array
        buffer.data = np.frombuffer(stored.tobytes(), np.uint8)
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

    def custom(self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: dict[str, Any]) -> None:
        """Add a custom operator, whose options are a FlexBuffers map."""
        code, made = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode, code.version = name, 1
        made.opcodeIndex, made.inputs, made.outputs = len(self.codes), list(inputs), list(outputs)
        made.customOptions = np.frombuffer(flexbuffers.Dumps(options), np.uint8)
        self.codes.append(code)
        self.operators.append(made)

    def composite(self, name: str, inputs: Sequence[int], outputs: Sequence[int], subgraph: int) -> None:
        """Add a STABLEHLO_COMPOSITE that a subgraph says."""
        self.operator("STABLEHLO_COMPOSITE", inputs, outputs, version=1)
        made, options = self.operators[-1], schema.StableHLOCompositeOptionsT()
        options.name, options.decompositionSubgraphIndex = name, subgraph
        options.compositeAttributes = np.frombuffer(flexbuffers.Dumps({}), np.uint8)
        made.builtinOptions2Type, made.builtinOptions2 = schema.BuiltinOptions2.StableHLOCompositeOptions, options

    def other(self) -> Writer:
        """A writer of another subgraph of the same model."""
        made = Writer()
        made.buffers, made.codes = self.buffers, self.codes
        return made

    def model(self, *outputs: int, others: Sequence[Writer] = ()) -> bytes:
        model = schema.ModelT()
        model.version, model.operatorCodes, model.buffers = 3, self.codes, self.buffers
        model.subgraphs = [self._graph(outputs), *(each._graph(each.outputs) for each in others)]
        return packed(model)

    def _graph(self, outputs: Sequence[int]) -> Any:
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = self.tensors, self.operators, self.inputs
        graph.outputs = list(outputs)
        return graph


def in_bytes(values: Array, bits: int) -> Array:
    """Integers of few bits, several in a byte."""
    per_byte = 8 // bits
    fields = np.zeros(-(-values.size // per_byte) * per_byte, np.uint8)
    fields[: values.size] = values.reshape(-1).astype(np.int8).view(np.uint8) & (2**bits - 1)
    shifted = fields.reshape(-1, per_byte) << np.arange(0, 8, bits, dtype=np.uint8)
    made: Array = np.bitwise_or.reduce(shifted, axis=1).astype(np.uint8)
    return made


def packed(model: Any) -> bytes:
    """The file of a model."""
    import flatbuffers

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
    details = [detail for detail in interpreter.get_tensor_details() if 0 not in detail["shape"]]
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in details}


def network() -> bytes:
    """Layers with a residual addition, pools side by side, a table, a mean and a classifier."""
    rng, writer = np.random.default_rng(0), Writer()

    def layer(word: str, data: int, name: str, shape: Sequence[int], weights: Sequence[int], **fields: Any) -> int:
        channels = weights[3] if word.startswith("DEPTHWISE") else weights[0]
        weight = writer.constant(f"{name}.w", "s8", rng.integers(-127, 128, weights), 0.01)
        bias = writer.constant(f"{name}.b", "s32", rng.integers(-500, 500, channels), 0.0005)
        made = writer.tensor(name, "s8", shape, 0.05, -3)
        options = {"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D", "FULLY_CONNECTED": "FullyConnected"}
        writer.operator(word, [data, weight, bias], [made], options[word], **fields)
        return made

    def operator(
        word: str, inputs: Sequence[int], name: str, shape: Sequence[int], *options: Any, **fields: Any
    ) -> int:
        made = writer.tensor(name, "s8", shape, 0.05, -3)
        writer.operator(word, inputs, [made], *options, **fields)
        return made

    image, half = (1, 8, 8, 6), (1, 4, 4, 6)
    once, window = {"strideH": 1, "strideW": 1}, {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2}
    data = writer.input("x", "s8", (1, 8, 8, 4), 0.05, -3)
    data = layer("CONV_2D", data, "stem", image, (6, 3, 3, 4), fusedActivationFunction=1, **once)
    deep = layer("DEPTHWISE_CONV_2D", data, "deep", image, (1, 3, 3, 6), depthMultiplier=1, **once)
    data = operator("ADD", [layer("CONV_2D", deep, "body", image, (6, 1, 1, 6), **once), data], "sum", image, "Add")
    pools = [operator(f"{word}_POOL_2D", [data], word, half, "Pool2D", **window) for word in ("MAX", "AVERAGE")]
    data = operator("CONCATENATION", pools, "both", (1, 4, 4, 12), "Concatenation", axis=3)
    data = operator(
        "MUL",
        [data, operator("HARD_SWISH", [data], "swish", (1, 4, 4, 12), version=1)],
        "product",
        (1, 4, 4, 12),
        "Mul",
    )
    axes = writer.constant("axes", "s32", [1, 2])
    data = operator("MEAN", [data, axes], "mean", (1, 12), "Reducer")
    data = layer("FULLY_CONNECTED", data, "fc", (1, 10), (10, 12))
    made = writer.tensor("y", "s8", (1, 10), 1 / 256, -128)
    writer.operator("SOFTMAX", [data], [made], "Softmax", beta=1.0)
    return writer.model(made)


def float_network() -> bytes:
    """Two convolutions, one of them depthwise, an addition, a mean and a dense layer: [1, 8, 8, 3] to [1, 5]."""
    rng, writer = np.random.default_rng(0), Writer()
    once = {"strideH": 1, "strideW": 1}

    def layer(
        word: str, data: int, name: str, shape: Sequence[int], weights: Sequence[int], options: str, **fields: Any
    ) -> int:
        channels = weights[3] if word.startswith("DEPTHWISE") else weights[0]
        weight = writer.constant(f"{name}.w", "f32", rng.normal(size=weights) / np.sqrt(np.prod(weights[1:3])))
        bias = writer.constant(f"{name}.b", "f32", rng.normal(size=channels))
        made = writer.tensor(name, "f32", shape)
        writer.operator(word, [data, weight, bias], [made], options, 1, **fields)
        return made

    image = (1, 8, 8, 8)
    data = layer(
        "CONV_2D",
        writer.input("x", "f32", (1, 8, 8, 3)),
        "stem",
        image,
        (8, 3, 3, 3),
        "Conv2D",
        fusedActivationFunction=1,
        **once,
    )
    deep = layer("DEPTHWISE_CONV_2D", data, "deep", image, (1, 3, 3, 8), "DepthwiseConv2D", depthMultiplier=1, **once)
    total, mean = writer.tensor("sum", "f32", image), writer.tensor("mean", "f32", (1, 8))
    writer.operator("ADD", [deep, data], [total], "Add", version=1)
    writer.operator("MEAN", [total, writer.constant("axes", "s32", [1, 2])], [mean], "Reducer", version=1)
    return writer.model(layer("FULLY_CONNECTED", mean, "fc", (1, 5), (5, 8), "FullyConnected"))

"""One small network as tools write it when they quantize: the forms of `examples/zoo.py`."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.support.models.onnx_models import Writer, quantized

CHANNELS, OPSET_OF_HALF_SCALES = 8, 19


def network() -> Any:
    """A residual block with a depthwise layer, pools, a dense layer, and its shares."""
    w = Writer([1, 3, 12, 10])
    first = w.node("Relu", [w.conv("x", "stem", (CHANNELS, 3, 3, 3), strides=[2, 2], pads=[1] * 4)], "first")
    data = w.conv(first, "depthwise", (CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1] * 4)
    data = w.conv(w.node("Relu", [data], "second"), "pointwise", (CHANNELS, CHANNELS, 1, 1))
    data = w.node("MaxPool", [w.node("Add", [data, first], "sum", "add")], "most", kernel_shape=[2, 2])
    data = w.node("Flatten", [w.node("GlobalAveragePool", [data], "mean")], "flat")
    data = w.node("Gemm", [data, w.weight("fc.w", 5, CHANNELS), w.weight("fc.b", 5)], "logits", "fc", transB=1)
    return w.model(w.node("Softmax", [data], "y", "shares"))


def static(**options: Any) -> bytes:
    """As ONNX Runtime's `quantize_static` writes it, u8 data and s8 weights of channels if nothing else is said."""
    usual = {"data": "u8", "weight": "s8", "per_channel": True}
    with tempfile.TemporaryDirectory() as folder:
        return quantized(network(), Path(folder), **{**usual, **options})


def dynamic() -> bytes:
    """As ONNX Runtime's `quantize_dynamic` writes it."""
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "float.onnx", Path(folder) / "dynamic.onnx"
        onnx.save(network(), source)
        quantization.quantize_dynamic(source, made, weight_type=quantization.QuantType.QUInt8)
        return made.read_bytes()


def nncf() -> bytes:
    """As NNCF writes it: s8 without zero points, biases in float, data of a depthwise layer by channels."""
    model = network()
    graph, nodes = model.graph, []
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}

    def pair(name: str, values: Any, dtype: Any, **attributes: Any) -> list[Any]:
        parameters = [f"{name}.scale", f"{name}.zero"]
        scale = np.asarray(values, np.float32)
        for part, array in zip(parameters, (scale, np.zeros(scale.shape, dtype)), strict=True):
            graph.initializer.append(onnx.numpy_helper.from_array(array, part))
        return [
            onnx.helper.make_node(operator, [f"{before}{name}", *parameters], [f"{after}{name}"], **attributes)
            for operator, before, after in (("QuantizeLinear", "", "q "), ("DequantizeLinear", "q ", "dq "))
        ]

    for node in graph.node:
        if node.op_type in ("Conv", "Gemm"):
            read, weight = node.input[:2]
            by_channels = {"axis": 1} if node.name == "depthwise" else {}
            scale = np.linspace(0.01, 0.02, CHANNELS) if by_channels else 0.02
            nodes += pair(read, scale, np.uint8 if read != "x" else np.int8, **by_channels)
            scale = np.abs(weights[weight]).max(axis=tuple(range(1, weights[weight].ndim))) / 127
            stored = np.round(weights[weight] / scale.reshape(-1, *(1,) * (weights[weight].ndim - 1))).astype(np.int8)
            graph.initializer.append(onnx.numpy_helper.from_array(stored, f"q {weight}"))
            nodes.append(pair(weight, scale, np.int8, axis=0)[1])
            node.input[0], node.input[1] = f"dq {read}", f"dq {weight}"
        nodes.append(node)
    made = onnx.helper.make_graph(nodes, "g", graph.input, graph.output, graph.initializer)
    file = onnx.helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)
    data: bytes = file.SerializeToString()
    return data


def pytorch() -> bytes:
    """As PyTorch writes what it quantized: a Cast to its own type in front of each DequantizeLinear, and zero points of
    biases that are made of a shape, which several share by an Identity.
    """
    model = onnx.ModelProto.FromString(static())
    graph = model.graph
    stored = {node.output[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    sizes = {each.name: list(each.dims) for each in graph.initializer if each.data_type == onnx.TensorProto.INT32}
    shape = onnx.numpy_helper.from_array(np.array([CHANNELS], np.int64), "shape of biases")
    graph.initializer.append(shape)
    nodes = []
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in stored:
            cast = f"{node.output[0]}/cast"
            nodes.append(onnx.helper.make_node("Cast", [node.input[0]], [cast], name=cast, to=onnx.TensorProto.UINT8))
            node.input[0] = cast
        elif node.op_type == "DequantizeLinear" and sizes.get(node.input[0]) == [CHANNELS]:
            names = [f"{node.output[0]}/{part}" for part in ("shape", "zero point", "cast")]
            nodes += [
                onnx.helper.make_node("Identity", [shape.name], names[:1]),
                onnx.helper.make_node("ConstantOfShape", names[:1], names[1:2]),
                onnx.helper.make_node("Cast", names[1:2], names[2:], to=onnx.TensorProto.INT32),
            ]
            node.input[2] = names[2]
        nodes.append(node)
    return with_nodes(model, nodes)


def qcdq() -> bytes:
    """As Brevitas writes it: a Clip bounds stored values that use less than 8 bits, weights among them."""
    model = onnx.ModelProto.FromString(static())
    graph = model.graph
    stored = {each.name: each for each in graph.initializer if each.data_type == onnx.TensorProto.INT8 and each.dims}
    layers = {name for node in graph.node if node.op_type in ("Conv", "Add") for name in node.output}
    made = {node.output[0] for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] in layers}
    readers = Counter(name for node in graph.node for name in node.input)
    bounds = {"weights": (-127, 127, np.int8), "data": (0, 15, np.uint8)}
    for what, (least, most, dtype) in bounds.items():
        ends = ((f"least of {what}", least), (f"most of {what}", most))
        graph.initializer.extend(onnx.numpy_helper.from_array(np.array(end, dtype), name) for name, end in ends)
    nodes = []
    for node in graph.node:
        name = node.input[0]
        if node.op_type == "DequantizeLinear" and (name in stored or (name in made and readers[name] == 1)):
            what = "weights" if name in stored else "data"
            clipped = f"{node.output[0]}/clipped"
            nodes.append(onnx.helper.make_node("Clip", [name, f"least of {what}", f"most of {what}"], [clipped]))
            node.input[0] = clipped
        nodes.append(node)
    return with_nodes(model, nodes)


def numbered() -> bytes:
    """As Sony's Model Compression Toolkit writes it: weights are the numbers that their steps stand for."""
    return with_numbers(static())


def with_numbers(file: bytes) -> bytes:
    """A file whose weights are no longer stored as steps of 8 bits."""
    model = onnx.ModelProto.FromString(file)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        steps = constants.get(node.input[0])
        if node.op_type == "DequantizeLinear" and steps is not None and steps.dtype == np.int8:
            scale = constants[node.input[1]].reshape(-1, *(1,) * (steps.ndim - 1))
            numbers = steps.astype(scale.dtype) * scale
            model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, node.output[0]))
        else:
            nodes.append(node)
    return with_nodes(model, nodes)


def halves() -> bytes:
    """As NVIDIA's ModelOpt writes it in float16: numbers, scales and biases are; inputs and outputs are not."""
    model = onnx.ModelProto.FromString(static())
    graph = model.graph
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    nodes = [onnx.helper.make_node("Cast", ["x"], ["x/half"], to=onnx.TensorProto.FLOAT16)]
    for node in graph.node:
        steps = constants.get(node.input[0])
        if node.op_type == "DequantizeLinear" and steps is not None and steps.dtype == np.int32:
            constants[node.output[0]] = steps * constants[node.input[1]]
            continue
        node.input[:] = ["x/half" if name == "x" else name for name in node.input]
        node.output[:] = ["y/half" if name == "y" else name for name in node.output]
        nodes.append(node)
    nodes.append(onnx.helper.make_node("Cast", ["y/half"], ["y"], to=onnx.TensorProto.FLOAT))
    del graph.initializer[:], graph.value_info[:]
    for name, array in constants.items():
        kept = array.astype(np.float16) if array.dtype.kind == "f" else array
        graph.initializer.append(onnx.numpy_helper.from_array(kept, name))
    model.opset_import[0].version = OPSET_OF_HALF_SCALES
    return with_nodes(model, nodes)


def with_nodes(model: Any, nodes: list[Any]) -> bytes:
    """The file of a model that has these nodes in place of its own."""
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    data: bytes = model.SerializeToString()
    return data


TOOL_FORMS: dict[str, Callable[[], bytes]] = {
    "u8s8": static,
    "s8s8": partial(static, data="s8"),
    "u8u8": partial(static, weight="u8", per_channel=False),
    "qoperator": partial(static, form="QOperator"),
    "layers": partial(static, operators=("Conv", "MatMul", "Gemm")),
    "dynamic": dynamic,
    "nncf": nncf,
    "pytorch": pytorch,
    "halves": halves,
    "qcdq": qcdq,
    "numbered": numbered,
}

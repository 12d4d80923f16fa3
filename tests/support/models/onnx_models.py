"""Small ONNX models: float ones and what ONNX Runtime's quantization makes of them, and one layer node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

Array = npt.NDArray[Any]
OPSET, FILE_VERSION = 17, 8
FLOAT = 1


class Writer:
    """Writes a model node by node; its weights are random."""

    def __init__(self, shape: Sequence[int | str], name: str = "x") -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs = [onnx.helper.make_tensor_value_info(name, FLOAT, shape)]

    def constant(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))

    def node(
        self, operator: str, inputs: Sequence[str], output: str, name: str | None = None, **attributes: Any
    ) -> str:
        label = f"{output} node" if name is None else name
        self.nodes.append(onnx.helper.make_node(operator, inputs, [output], name=label, **attributes))
        return output

    def conv(self, data: str, name: str, shape: tuple[int, ...], bias: bool = True, **attributes: Any) -> str:
        inputs = [data, self.weight(f"{name}.w", *shape)]
        if bias:
            inputs.append(self.weight(f"{name}.b", shape[0]))
        return self.node("Conv", inputs, f"{name}.y", name, **attributes)

    def model(self, *outputs: str, opset: int = OPSET) -> Any:
        infos = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = onnx.helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION)
        return onnx.shape_inference.infer_shapes(model)


def residual() -> Any:
    writer = Writer(["batch", 6, 9, 8])
    first = writer.node("Relu", [writer.conv("x", "stem", (8, 6, 3, 3), pads=[1] * 4)], "first", "relu1")
    own = writer.conv(first, "body", (8, 8, 3, 3), pads=[1] * 4)
    total = writer.node("Add", [own, first], "sum", "add")
    return writer.model(writer.node("Relu", [total], "y", "relu2"))


def separable(height: int = 10, width: int = 11) -> Any:
    writer = Writer([1, 3, height, width])
    low, high = writer.constant("low", 0), writer.constant("high", 0.5)
    data = writer.conv("x", "stem", (8, 3, 3, 3), strides=[2, 2], pads=[0, 0, 1, 1])
    data = writer.node("Clip", [data, low, high], "clipped1", "clip1")
    data = writer.conv(data, "depthwise", (8, 1, 3, 3), group=8, pads=[1] * 4)
    data = writer.node("Clip", [data, low, high], "clipped2", "clip2")
    return writer.model(writer.conv(data, "pointwise", (16, 8, 1, 1), bias=False))


def windows() -> Any:
    """Groups, dilation, two filters for each channel, SAME padding."""
    writer = Writer([2, 4, 12, 9])
    data = writer.conv("x", "grouped", (6, 2, 3, 2), group=2, dilations=[2, 1], pads=[2, 0, 1, 1])
    data = writer.conv(data, "double", (12, 1, 4, 3), group=6, auto_pad="SAME_UPPER", strides=[2, 1])
    return writer.model(writer.conv(data, "lower", (5, 12, 2, 2), auto_pad="SAME_LOWER"))


def head() -> Any:
    writer = Writer([3, 4, 6, 6])
    data = writer.node("Relu", [writer.conv("x", "stem", (10, 4, 3, 3))], "r", "relu")
    data = writer.node("GlobalAveragePool", [data], "pooled")
    data = writer.node("Flatten", [data], "flat")
    hidden = writer.node("Gemm", [data, writer.weight("fc1.w", 7, 10), writer.weight("fc1.b", 7)], "h", "fc1", transB=1)
    hidden = writer.node("Gemm", [hidden, writer.weight("fc2.w", 7, 9), writer.weight("fc2.b", 9)], "g", "fc2")
    logits = writer.node("MatMul", [hidden, writer.weight("fc3.w", 9, 5)], "m", "fc3")
    return writer.model(writer.node("Softmax", [logits], "y", "softmax"))


def concat() -> Any:
    writer = Writer([1, 3, 8, 8])
    left = writer.node("Relu", [writer.conv("x", "left", (4, 3, 1, 1))], "l", "relu1")
    right = writer.node("Relu", [writer.conv("x", "right", (6, 3, 3, 3), pads=[1] * 4)], "r", "relu2")
    both = writer.node("Concat", [left, right], "both", "concat", axis=1)
    data = writer.node("MaxPool", [both], "pooled", "pool", kernel_shape=[2, 2], strides=[2, 2])
    return writer.model(writer.conv(data, "mixed", (8, 10, 1, 1)))


MODELS: dict[str, Callable[[], Any]] = {
    "residual": residual,
    "separable": separable,
    "windows": windows,
    "head": head,
    "concat": concat,
}


def input_data(model: Any, seed: int) -> Array:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value or 1 for dim in dims]
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def quantized(
    model: Any,
    folder: Path,
    data: str,
    weight: str,
    per_channel: bool,
    form: str = "QDQ",
    symmetric: bool = False,
    operators: Sequence[str] = (),
    **extra_options: Any,
) -> bytes:
    """What ONNX Runtime's `quantize_static` makes of a model; of all operators that it can quantize, or of some."""
    from onnxruntime import quantization

    class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.feeds = iter([{"x": input_data(model, seed)} for seed in range(3)])

        def get_next(self) -> dict[str, Array] | None:
            return next(self.feeds, None)

    names = {"u8": "QUInt8", "s8": "QInt8", "u16": "QUInt16", "s16": "QInt16"}
    types = {name: quantization.QuantType[each] for name, each in names.items()}
    path = folder / "quantized.onnx"
    quantization.quantize_static(
        model,
        path,
        Calibration(),
        quant_format=quantization.QuantFormat[form],
        per_channel=per_channel,
        op_types_to_quantize=list(operators) or None,
        activation_type=types[data],
        weight_type=types[weight],
        extra_options={"ActivationSymmetric": symmetric, **extra_options},
    )
    return path.read_bytes()


def values_of(
    data: bytes, names: Sequence[str], feed: Array | dict[str, Array], optimized: bool = True
) -> dict[str, Array]:
    """What ONNX Runtime computes for values of a model, whichever they are, from its first input or from several.

    Args:
        optimized: nodes may be replaced by others; of 16-bit and 4-bit values, some of these are less precise.
    """
    import onnxruntime

    model = onnx.ModelProto.FromString(data)
    made = {info.name for info in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in made)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = feed if isinstance(feed, dict) else {session.get_inputs()[0].name: feed}
    return dict(zip(names, session.run(list(names), feeds), strict=True))


def quantized_layer(
    operator: str = "Conv",
    *,
    activation: str | None = None,
    bounds: tuple[float, float] = (-0.5, 0.75),
    data_type: Any = np.uint8,
    zero_point: int = 117,
    weight: Any = None,
    float_weight: bool = False,
    bias_scale: float = 0.02 * 0.01,
    shape: Sequence[int | str] = (1, 4, 5, 6),
    opset: int = OPSET,
    **attributes: Any,
) -> Any:
    """One quantized layer, `conv`: `x` is stored as `xq`, the output `c` as `yq`, and `y` is the model's."""
    writer = Writer(shape)
    if weight is None:
        weight = writer.rng.integers(-127, 128, (6, 4, 3, 3))
    weight = np.asarray(weight)
    writer.constant("x.scale", 0.02)
    writer.constant("x.zero", 128 if data_type is np.uint8 else -3, data_type)
    writer.constant("w.scale", 0.01)
    writer.constant("w.zero", 0, np.int8)
    writer.constant("y.scale", 0.0301)  # with 0.03, one product of 150 would be a tie
    writer.constant("y.zero", zero_point, data_type)
    writer.node("QuantizeLinear", ["x", "x.scale", "x.zero"], "xq")
    writer.node("DequantizeLinear", ["xq", "x.scale", "x.zero"], "xd")
    if float_weight:
        writer.constant("wf", weight * 0.01 + 0.007)
        writer.node("QuantizeLinear", ["wf", "w.scale", "w.zero"], "w")
    else:
        writer.constant("w", weight, np.int8)
    writer.node("DequantizeLinear", ["w", "w.scale", "w.zero"], "wd")
    writer.constant("b", writer.rng.integers(-2000, 2000, weight.shape[0]), np.int32)
    writer.constant("b.scale", bias_scale)
    writer.node("DequantizeLinear", ["b", "b.scale"], "bd")
    made = writer.node(operator, ["xd", "wd", "bd"], "c", "conv", **attributes)
    if activation == "Clip":
        limits = [writer.constant("low", bounds[0]), writer.constant("high", bounds[1])]
        made = writer.node("Clip", [made, *limits], "clipped", "activation")
    elif activation:
        made = writer.node(activation, [made], "activated", "activation")
    writer.node("QuantizeLinear", [made, "y.scale", "y.zero"], "yq")
    writer.node("DequantizeLinear", ["yq", "y.scale", "y.zero"], "y")
    return writer.model("y", opset=opset)

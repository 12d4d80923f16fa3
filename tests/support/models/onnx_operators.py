"""ONNX models of single operators between QuantizeLinear nodes, and a small network with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_models import FLOAT, OPSET, Writer, values_of

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

Array = npt.NDArray[Any]
# Shape, scale, zero point.
Form = tuple[Sequence[int], float, int]


def operator_model(
    operator: str,
    inputs: Sequence[Form],
    output: tuple[float, int],
    dtype: Any = np.uint8,
    constants: Sequence[tuple[Any, ...] | None] = (),
    quantized: Sequence[tuple[Any, float, int]] = (),
    behind: str = "",
    opset: int = OPSET,
    dtypes: Sequence[Any] = (),
    **attributes: Any,
) -> Any:
    """Inputs `x0` and so on, stored as `q0`; the output is stored as `yq`, and `y` is the model's.

    Behind the inputs come quantized constants, then others (None for one that is left out). Where `dtypes` are given,
    they are those of the inputs and of the output.
    """
    *own, stored_as = dtypes or [dtype] * (len(inputs) + 1)
    writer = Writer(inputs[0][0], "x0")
    for index, (shape, _, _) in enumerate(inputs[1:], 1):
        writer.inputs.append(onnx.helper.make_tensor_value_info(f"x{index}", FLOAT, shape))
    taken = []
    for index, (_, scale, zero_point) in enumerate(inputs):
        parameters = [writer.constant(f"s{index}", scale), writer.constant(f"z{index}", zero_point, own[index])]
        writer.node("QuantizeLinear", [f"x{index}", *parameters], f"q{index}")
        taken.append(writer.node("DequantizeLinear", [f"q{index}", *parameters], f"d{index}"))
    for index, (values, scale, zero_point) in enumerate(quantized):
        parameters = [writer.constant(f"cs{index}", scale), writer.constant(f"cz{index}", zero_point, dtype)]
        stored = writer.constant(f"c{index}", values, dtype)
        taken.append(writer.node("DequantizeLinear", [stored, *parameters], f"cd{index}"))
    taken += [writer.constant(f"e{index}", *each) if each else "" for index, each in enumerate(constants)]
    made = writer.node(operator, taken, "made", "node", **attributes)
    if behind:
        made = writer.node(behind, [made], "behind", "behind")
    parameters = [writer.constant("sy", output[0]), writer.constant("zy", output[1], stored_as)]
    writer.node("QuantizeLinear", [made, *parameters], "yq")
    writer.node("DequantizeLinear", ["yq", *parameters], "y")
    return writer.model("y", opset=opset)


def feeds_of(inputs: Sequence[Form], dtype: Any, seed: int = 0, dtypes: Sequence[Any] = ()) -> dict[str, Array]:
    """Numbers whose stored values are random; all 256 where a shape has as many."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for index, (shape, scale, zero_point) in enumerate(inputs):
        low = np.iinfo(dtypes[index] if dtypes else dtype).min
        every = np.arange(low, low + 256).reshape(shape) if tuple(shape) == (1, 256) else None
        stored = rng.integers(low, low + 256, shape) if every is None else every
        feeds[f"x{index}"] = ((stored - zero_point) * np.float32(scale)).astype(np.float32)
    return feeds


def as_graph(array: Array, shape: tuple[int, ...]) -> Array:
    """An array of the file as the graph has it."""
    return array if array.shape == shape else np.ascontiguousarray(array.transpose(0, 2, 3, 1))


def compared(model: Any, feeds: dict[str, Array], steps: int = 0) -> tuple[Graph, int]:
    """The graph of a model, and how many stored values differ from ONNX Runtime's, by `steps` at most."""
    file = model if isinstance(model, bytes) else model.SerializeToString()
    model = onnx.ModelProto.FromString(file)
    graph = read_onnx(file, "one")
    assert [each.attributes for each in graph.operators if each.kind in (Kind.FLOAT, Kind.OTHER)] == []
    ours = run_reference(graph, {name: as_graph(feeds[name], graph.values[name].shape) for name in graph.inputs})
    stored = {name for name, value in graph.values.items() if value.type in ("u8", "s8") and name in ours}
    written = {name for node in model.graph.node if node.op_type != "DequantizeLinear" for name in node.output}
    # What has stored values in the graph may have floats in the file.
    kept = {each.outputs[0] for each in graph.operators if each.operator == "QuantizeLinear"}
    names = sorted((stored & written & quantized_names(model)) | kept)
    theirs = values_of(file, names, feeds)
    differ = 0
    for name in names:
        wide = as_graph(theirs[name], ours[name].shape).astype(np.int64) - ours[name]
        assert np.abs(wide).max() <= steps, name
        differ += int(np.count_nonzero(wide))
    return graph, differ


def quantized_names(model: Any) -> set[str]:
    """What a model's file has stored values of."""
    made = {node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    return made | {name for node in model.graph.node if node.op_type.startswith("Q") for name in node.output}


def every_operator() -> Any:
    """A network with nearly every operator that has a kind: squeeze-and-excite, channel shuffle, a head."""
    writer = Writer([1, 3, 20, 24])
    stem = writer.node("Relu", [writer.conv("x", "stem", (8, 3, 3, 3), pads=[1] * 4, strides=[2, 2])], "stem.r")
    window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    pools = [writer.node(f"{word}Pool", [stem], word, **window) for word in ("Max", "Average")]
    wide = writer.conv(writer.node("Concat", pools, "both", axis=1), "wide", (12, 16, 1, 1))
    swish = writer.node("Mul", [wide, writer.node("Sigmoid", [wide], "gate")], "swish")
    mean = writer.node("GlobalAveragePool", [swish], "mean")
    share = writer.node("Sigmoid", [writer.conv(mean, "squeeze", (12, 12, 1, 1))], "share")
    excited = writer.node("Mul", [swish, share], "excited")
    sizes = writer.constant("sizes", [5, 7], np.int64)
    writer.nodes.append(onnx.helper.make_node("Split", [excited, sizes], ["less", "more"], name="split", axis=1))
    data = writer.node("Concat", ["more", "less"], "swapped", axis=1)
    grouped, whole = (
        writer.constant(name, shape, np.int64) for name, shape in (("g", [1, 2, 6, 5, 6]), ("w", [1, 12, 5, 6]))
    )
    data = writer.node("Transpose", [writer.node("Reshape", [data, grouped], "groups")], "mixed", perm=[0, 2, 1, 3, 4])
    data = writer.node("Reshape", [data, whole], "shuffled")
    data = writer.node("Pad", [data, writer.constant("pads", [0, 0, 1, 1, 0, 0, 0, 2], np.int64)], "padded")
    scales = writer.constant("scales", [1, 1, 2, 2])
    nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    data = writer.node("Resize", [data, "", scales], "larger", mode="nearest", **nearest)
    data = writer.node("LeakyRelu", [writer.node("HardSwish", [data], "hard")], "leaky", alpha=0.1)
    data = writer.node("Flatten", [data], "flat")
    inputs = [data, writer.weight("fc.w", 10, 12 * 12 * 18), writer.weight("fc.b", 10)]
    return writer.model(writer.node("Softmax", [writer.node("Gemm", inputs, "logits", "fc", transB=1)], "y"))

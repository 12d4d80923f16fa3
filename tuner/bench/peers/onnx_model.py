"""ONNX models of one quantized node, as ONNX Runtime's optimizer makes them of quantized models."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.workload import Dense, Workload
from int8tune.tuner.bench.peers.base import Array
from int8tune.tuner.bench.peers.forms import groups_of

# The domain of ONNX Runtime's own operators.
MICROSOFT = "com.microsoft"
QUANTIZED_INPUTS = ("data", "data_scale", "data_zero_point", "weight", "weight_scale", "weight_zero_point")
OUTPUT_FORM = ("out_scale", "out_zero_point")

_OPERATOR_SETS = (("", 13), (MICROSOFT, 1))
_FILE_VERSION = 8
_ELEMENTS = {"uint8": 2, "int8": 3, "int32": 6, "float32": 1}


def layer_model(workload: Workload, operands: Operands, *, channels_last: bool) -> bytes:
    """A model that reads `data` and writes `out`.

    Data and output of a convolution are [N, H, W, C] with `channels_last`, which is an operator of ONNX Runtime's own,
    and [N, C, H, W] without.
    """
    import onnx

    if isinstance(workload, Dense):
        inputs = [*QUANTIZED_INPUTS, "bias", *OUTPUT_FORM]
        node = onnx.helper.make_node("QGemm", inputs, ["out"], transB=0, domain=MICROSOFT)
        return node_model(node, workload.data_shape, operands, operands.weight.T)
    window = workload.window
    own: dict[str, Any] = {"channels_last": 1, "domain": MICROSOFT} if channels_last else {}
    node = onnx.helper.make_node(
        "QLinearConv",
        [*QUANTIZED_INPUTS, *OUTPUT_FORM, "bias"],
        ["out"],
        kernel_shape=window.kernel,
        strides=window.stride,
        pads=window.padding,
        dilations=window.dilation,
        group=groups_of(workload),
        **own,
    )
    batch, height, width, channels = workload.data_shape
    shape = workload.data_shape if channels_last else (batch, channels, height, width)
    weight = operands.weight.reshape(workload.out_channels, *window.kernel, -1)
    return node_model(node, shape, operands, weight.transpose(0, 3, 1, 2))


def node_model(node: Any, data_shape: tuple[int, ...], operands: Operands, weight: Array) -> bytes:
    """A model of a node that takes some of the inputs named above; only `data` is not constant."""
    import onnx

    helper = onnx.helper
    kind = _ELEMENTS[str(operands.data.dtype)]
    constants = {name: value for name, value in _constants(operands, weight).items() if name in node.input}
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("data", kind, data_shape)],
        [helper.make_tensor_value_info("out", kind, None)],
        [
            helper.make_tensor(name, _ELEMENTS[str(value.dtype)], value.shape, value.tobytes(), raw=True)
            for name, value in constants.items()
        ],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in _OPERATOR_SETS]
    model: bytes = helper.make_model(graph, opset_imports=imports, ir_version=_FILE_VERSION).SerializeToString()
    return model


def _constants(operands: Operands, weight: Array) -> dict[str, Array]:
    """Unit data and output scales make the weight's scale that of the operands."""
    kind = operands.data.dtype
    per_channel = operands.scale.shape if operands.scale.size > 1 else ()
    return {
        "data_scale": np.ones((), np.float32),
        "data_zero_point": np.array(operands.data_zero_point, kind),
        "weight": np.ascontiguousarray(weight),
        "weight_scale": operands.scale.reshape(per_channel),
        "weight_zero_point": np.full(per_channel, operands.weight_zero_point, operands.weight.dtype),
        "out_scale": np.ones((), np.float32),
        "out_zero_point": np.array(operands.output_zero_point, kind),
        "bias": operands.bias,
    }

"""OpenVINO: the graph of a quantized model, which its low-precision transformations turn into one int8 operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Workload
from int8tune.tuner.bench.peers.base import Array, LoadedLayer, PeerError
from int8tune.tuner.bench.peers.forms import groups_of, usual_form

# https://docs.openvino.ai, "CPU Device": one request, in the calling thread where there is one thread.
OPTIONS = {"NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
OPERATORS = ("Convolution", "FullyConnected", "MatMul")
LEVELS = 256


class OpenVino:
    """Data stays with channels last: the transpositions around a convolution cost nothing, they are never executed."""

    name = "openvino"
    requires = ("openvino",)

    def form(self, workload: Workload) -> Workload | Rejection:
        return usual_form(workload, "u8")

    def version(self) -> str:
        import openvino

        return str(openvino.get_version()).partition("-")[0]

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        import openvino

        model = _model(workload, operands)
        compiled = openvino.Core().compile_model(model, "CPU", {**OPTIONS, "INFERENCE_NUM_THREADS": threads})
        _require_int8(compiled)
        return _Layer(compiled, workload, operands.data)


class _Layer:
    """A request with tensors in memory that stays."""

    def __init__(self, compiled: Any, workload: Workload, data: Array) -> None:
        import openvino

        self._request = compiled.create_infer_request()
        self._data = np.ascontiguousarray(data)
        self._out = np.zeros(workload.output_shape, data.dtype)
        self._request.set_input_tensor(openvino.Tensor(self._data, shared_memory=True))
        self._request.set_output_tensor(openvino.Tensor(self._out, shared_memory=True))

    def run(self) -> None:
        self._request.infer(share_outputs=True)

    def output(self) -> Array:
        return self._out


def _require_int8(compiled: Any) -> None:
    """Raise PeerError if the layer's operator would not be executed in int8."""
    for node in compiled.get_runtime_model().get_ordered_ops():
        about = node.get_rt_info()
        if about["layerType"].astype(str) in OPERATORS:
            primitive = about["primitiveType"].astype(str)
            if primitive.upper().endswith("_I8"):
                return
            raise PeerError(f"OpenVINO would not compute it in int8: {primitive}")
    raise PeerError("OpenVINO's graph has no operator of this layer")


def _model(workload: Workload, operands: Operands) -> Any:
    """Dequantized u8 data, the layer with a scale for each channel of its weights, and the output quantized to u8."""
    import openvino
    from openvino import opset13 as ops

    data = ops.parameter(workload.data_shape, np.uint8, name="data")
    values = ops.convert(data, "f32")
    if operands.data_zero_point:
        values = ops.subtract(values, np.float32(operands.data_zero_point))
    values = ops.multiply(values, np.float32(1))
    scale = np.broadcast_to(operands.scale, workload.out_channels).astype(np.float32)
    bias = (operands.bias * scale).astype(np.float32)
    if isinstance(workload, Dense):
        biased = ops.add(_product(values, operands.weight, scale), bias[None])
    else:
        images = ops.transpose(values, [0, 3, 1, 2])
        biased = ops.add(_convolution(workload, operands.weight, images, scale), bias[None, :, None, None])
    low, high = (np.float32(bound - operands.output_zero_point) for bound in (0, LEVELS - 1))
    output = ops.fake_quantize(biased, low, high, np.float32(0), np.float32(LEVELS - 1), LEVELS)
    if not isinstance(workload, Dense):
        output = ops.transpose(output, [0, 2, 3, 1])
    return openvino.Model([ops.convert(output, "u8")], [data], "layer")


def _product(values: Any, weight: Array, scale: Array) -> Any:
    from openvino import opset13 as ops

    return ops.matmul(values, _dequantized(weight, scale[:, None]), False, True)


def _convolution(workload: Conv2d | DepthwiseConv2d, weight: Array, images: Any, scale: Array) -> Any:
    from openvino import opset13 as ops

    window, groups = workload.window, groups_of(workload)
    moves = (window.stride, window.padding[:2], window.padding[2:], window.dilation)
    filters = weight.reshape(workload.out_channels, *window.kernel, -1).transpose(0, 3, 1, 2)
    scales = scale[:, None, None, None]
    if groups == 1:
        return ops.convolution(images, _dequantized(filters, scales), *moves)
    grouped, group_scales = (array.reshape(groups, -1, *array.shape[1:]) for array in (filters, scales))
    return ops.group_convolution(images, _dequantized(grouped, group_scales), *moves)


def _dequantized(weight: Array, scale: Array) -> Any:
    from openvino import opset13 as ops

    return ops.multiply(ops.convert(ops.constant(np.ascontiguousarray(weight)), "f32"), scale)

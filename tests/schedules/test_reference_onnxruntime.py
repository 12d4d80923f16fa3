"""The float rule against ONNX Runtime's QLinearConv, QLinearMatMul and QGemm, bit for bit."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.numerics import Numerics, Requantize
from int8tune.schedules.operands import Operands
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import accumulate, reference
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload, parse_workload
from int8tune.tuner.bench.peers.onnx_model import OUTPUT_FORM, QUANTIZED_INPUTS, layer_model, node_model
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `oracle`")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]

# What ONNX Runtime's kernels take: outputs of the data's type, and s8 data only with s8 weights.
TYPES = (("u8", "s8"), ("u8", "u8"), ("s8", "s8"))


def multiplies_exactly() -> bool:
    """Whether ONNX Runtime sums pairs of 8-bit products without saturation: on x86, only where it has VNNI."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and "_vnni" in cpuinfo.read_text()


def comparable(operands: Operands) -> Operands:
    """The operands with weights halved to 7 bits where ONNX Runtime would saturate."""
    if multiplies_exactly():
        return operands
    return replace(operands, weight=operands.weight >> 1, weight_zero_point=operands.weight_zero_point >> 1)


def run(model: bytes, data: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    out: Array = session.run(None, {"data": data})[0]
    return out


def qlinear_conv(workload: Conv2d | DepthwiseConv2d, operands: Operands) -> Array:
    data = np.ascontiguousarray(operands.data.transpose(0, 3, 1, 2))
    return run(layer_model(workload, operands, channels_last=False), data).transpose(0, 2, 3, 1)


def qgemm(workload: Dense, operands: Operands) -> Array:
    return run(layer_model(workload, operands, channels_last=False), operands.data)


def qlinear_matmul(operands: Operands) -> Array:
    node = onnx.helper.make_node("QLinearMatMul", [*QUANTIZED_INPUTS, *OUTPUT_FORM], ["out"])
    return run(node_model(node, operands.data.shape, operands, operands.weight.T), operands.data)


def random_numerics(rng: np.random.Generator) -> Numerics:
    data, weight = TYPES[rng.integers(len(TYPES))]
    kind: Any = data
    weight_kind: Any = weight
    return Numerics(
        data=kind,
        weight=weight_kind,
        output=kind,
        requantize=Requantize("float", per_channel=bool(rng.integers(2))),
        weight_zero_point=weight == "u8" or bool(rng.integers(2)),
    )


def random_window(rng: np.random.Generator) -> Window:
    kernel, stride, dilation = rng.integers(1, 4, 2), rng.integers(1, 3, 2), rng.integers(1, 3, 2)
    padding = rng.integers(0, 3, 4)
    return Window(
        kernel=(int(kernel[0]), int(kernel[1])),
        stride=(int(stride[0]), int(stride[1])),
        padding=(int(padding[0]), int(padding[1]), int(padding[2]), int(padding[3])),
        dilation=(int(dilation[0]), int(dilation[1])),
    )


def random_conv(seed: int) -> Conv2d | DepthwiseConv2d:
    rng = np.random.default_rng(seed)
    batch, height, width = int(rng.integers(1, 3)), int(rng.integers(6, 11)), int(rng.integers(6, 11))
    window, numerics = random_window(rng), random_numerics(rng)
    if seed % 3 == 0:
        channels, multiplier = int(rng.integers(1, 20)), int(rng.choice([1, 1, 2, 3]))
        return DepthwiseConv2d(batch, height, width, channels, window, multiplier, numerics)
    groups = int(rng.choice([1, 1, 2, 3]))
    per_group, outputs = int(rng.integers(1, 18)), int(rng.integers(1, 18))
    return Conv2d(batch, height, width, groups * per_group, groups * outputs, window, groups, numerics)


@pytest.mark.parametrize("seed", one_in(2, range(48)))
def test_random_convolutions(seed: int) -> None:
    workload = random_conv(seed)
    for name, chosen in adversarial_operands(workload, seed):
        operands = comparable(chosen)
        ours, theirs = reference(workload, operands), qlinear_conv(workload, operands)
        np.testing.assert_array_equal(ours, theirs, f"{workload.key} {name}")


@pytest.mark.parametrize("seed", range(24))
def test_random_products_with_bias(seed: int) -> None:
    workload = random_dense(seed)
    for name, chosen in adversarial_operands(workload, seed):
        operands = comparable(chosen)
        np.testing.assert_array_equal(
            reference(workload, operands), qgemm(workload, operands), f"{workload.key} {name}"
        )


@pytest.mark.parametrize("seed", range(24, 48))
def test_random_products_without_bias(seed: int) -> None:
    workload = random_dense(seed)
    for name, chosen in adversarial_operands(workload, seed):
        operands = without_bias(workload, comparable(chosen))
        np.testing.assert_array_equal(reference(workload, operands), qlinear_matmul(operands), f"{workload.key} {name}")


def random_dense(seed: int) -> Dense:
    rng = np.random.default_rng(seed)
    return Dense(int(rng.integers(1, 9)), int(rng.integers(1, 70)), int(rng.integers(1, 40)), random_numerics(rng))


def without_bias(workload: Workload, operands: Operands) -> Operands:
    """The operands without bias, their scales chosen anew so that outputs still spread over their range."""
    sums = accumulate(workload, operands.data, operands.weight, operands.data_zero_point, operands.weight_zero_point)
    scale = (100 / np.maximum(np.abs(sums).max(axis=0), 1)).astype(np.float32)
    low, high = operands.clamp_low, operands.clamp_high
    return replace(
        operands,
        bias=np.zeros_like(operands.bias),
        scale=scale if operands.scale.size == scale.size else scale.min(keepdims=True),
        output_zero_point=min(max(operands.output_zero_point, low + 100), high - 100),
    )


@pytest.mark.parametrize(
    "key",
    [
        "conv2d-u8s8-1x28x28x64-k3x3x64-s1-p1-float.c-u8",
        "conv2d-u8u8-1x14x14x96-k1x1x576-s1-p0-wz-float.t-u8",
        "conv2d-s8s8-1x56x56x3-k7x7x32-s2-p3-float.c-s8",
        "dwconv2d-u8s8-1x28x28x96-k3x3x1-s2-p0.0.1.1-float.c-u8",
        "dwconv2d-u8u8-1x14x14x64-k5x5x1-s1-p2-wz-float.t-u8",
    ],
)
def test_layers_of_networks(key: str) -> None:
    workload = parse_workload(key)
    assert not isinstance(workload, Dense)
    for name, chosen in adversarial_operands(workload, 1):
        operands = comparable(chosen)
        np.testing.assert_array_equal(reference(workload, operands), qlinear_conv(workload, operands), name)


def test_a_dense_layer_of_bert() -> None:
    workload = parse_workload("dense-u8s8-16x768-o768-float.c-u8")
    for name, chosen in adversarial_operands(workload, 2):
        operands = comparable(chosen)
        np.testing.assert_array_equal(reference(workload, operands), qgemm(workload, operands), name)

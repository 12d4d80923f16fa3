"""The fixed rule against TFLite's reference kernels, as LiteRT has them, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.numerics import Numerics, Requantize
from int8tune.schedules.operands import Operands, quantize_multiplier
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload, parse_workload
from int8tune.tuner.bench.peers.forms import same_padding
from int8tune.tuner.bench.peers.tflite_model import layer_model
from tests.support.run.thinned import one_in

pytest.importorskip("flatbuffers", reason="needs the extra `oracle`")
interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the extra `oracle`")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]

# Fused activations clamp to multiples of the output scale: with 2^-5, to 32 steps around the zero point and more.
OUTPUT_SCALE = 2.0**-5


def litert(workload: Workload, operands: Operands, data_scale: float, weight_scale: Array, activation: int) -> Array:
    """The outputs of LiteRT's reference kernel."""
    runner = interpreter.Interpreter(
        model_content=layer_model(workload, operands, weight_scale, data_scale, OUTPUT_SCALE, activation),
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    runner.allocate_tensors()
    runner.set_tensor(0, operands.data)
    runner.invoke()
    out: Array = runner.get_tensor(3)
    return out


def quantized(operands: Operands, data_scale: float) -> tuple[Operands, Array]:
    """The operands with multipliers that float32 scales can express, and the weight scales that give them.

    TFLite multiplies the scales of a uint8 layer in binary32, those of an int8 layer in binary64.
    """
    reals = np.ldexp(operands.multiplier.astype(np.float64), operands.shift - 31)
    weight_scale = (reals * OUTPUT_SCALE / data_scale).astype(np.float32)
    data_scales = np.full(weight_scale.shape, data_scale, np.float32)
    if operands.data.dtype == np.uint8:
        products = (data_scales * weight_scale).astype(np.float64)
    else:
        products = data_scales.astype(np.float64) * weight_scale
    pairs = np.array([quantize_multiplier(float(product / OUTPUT_SCALE)) for product in products], np.int32)
    multiplier, shift = pairs.T
    return replace(operands, multiplier=multiplier, shift=shift), weight_scale


def activated(workload: Workload, operands: Operands, rng: np.random.Generator) -> tuple[Operands, int]:
    """The operands with the bounds of a random fused activation, where the workload has a clamp."""
    if not workload.numerics.clamp:
        return operands, schema.ActivationFunctionType.NONE
    low, high = {"u8": (0, 255), "s8": (-128, 127)}[workload.numerics.output]
    zero_point = min(max(operands.output_zero_point, low + 40), high - 40)
    activation, lower, upper = [
        (schema.ActivationFunctionType.RELU, 0, 1000),
        (schema.ActivationFunctionType.RELU6, 0, 6 * 32),
        (schema.ActivationFunctionType.RELU_N1_TO_1, -32, 32),
    ][rng.integers(3)]
    bounds = max(zero_point + lower, low), min(zero_point + upper, high)
    return (
        replace(operands, output_zero_point=zero_point, clamp_low=bounds[0], clamp_high=bounds[1]),
        activation,
    )


def random_numerics(rng: np.random.Generator) -> Numerics:
    """TFLite's two kinds of layers: int8 with symmetric weights, and uint8 with a weight zero point, per tensor."""
    clamp = bool(rng.integers(2))
    if rng.integers(3) == 0:
        return Numerics("u8", "u8", "u8", Requantize("fixed", per_channel=False), weight_zero_point=True, clamp=clamp)
    return Numerics("s8", "s8", "s8", Requantize("fixed", per_channel=bool(rng.integers(4))), clamp=clamp)


def random_layer(seed: int) -> Conv2d | DepthwiseConv2d:
    rng = np.random.default_rng(seed)
    kernel, stride, dilation = rng.integers(1, 4, 2), rng.integers(1, 3, 2), rng.integers(1, 3, 2)
    window = Window(
        (int(kernel[0]), int(kernel[1])), (int(stride[0]), int(stride[1])), (0, 0, 0, 0), (1, int(dilation[1]))
    )
    batch, height, width = int(rng.integers(1, 3)), int(rng.integers(6, 11)), int(rng.integers(6, 11))
    numerics = random_numerics(rng)
    layer: Conv2d | DepthwiseConv2d
    if seed % 3 == 0:
        channels, multiplier = int(rng.integers(1, 20)), int(rng.choice([1, 1, 2, 3]))
        layer = DepthwiseConv2d(batch, height, width, channels, window, multiplier, numerics)
    else:
        groups = 1 if numerics.data == "u8" else int(rng.choice([1, 1, 2, 3]))
        inputs, outputs = groups * int(rng.integers(1, 18)), groups * int(rng.integers(1, 18))
        layer = Conv2d(batch, height, width, inputs, outputs, window, groups, numerics)
    return replace(layer, window=same_padding(layer)) if rng.integers(3) else layer


def compare(workload: Workload, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for index, (name, chosen) in enumerate(adversarial_operands(workload, seed)):
        # With a data scale of 1 the factors stay what they are, ties included; others fill all bits of a multiplier.
        data_scale = 1.0 if (seed + index) % 2 == 0 else float(np.float32(rng.uniform(0.1, 2)))
        operands, weight_scale = quantized(chosen, data_scale)
        operands, activation = activated(workload, operands, rng)
        theirs = litert(workload, operands, data_scale, weight_scale, activation)
        np.testing.assert_array_equal(reference(workload, operands), theirs, f"{workload.key} {name}")


@pytest.mark.parametrize("seed", one_in(2, range(60)))
def test_random_convolutions(seed: int) -> None:
    compare(random_layer(seed), seed)


@pytest.mark.parametrize(
    "key",
    [
        "conv2d-s8s8-1x14x14x32-k3x3x32-s1-p1-fixed.c-s8",
        "conv2d-u8u8-1x14x14x32-k1x1x48-s1-p0-wz-fixed.t-clamp-u8",
        "dwconv2d-u8u8-1x14x14x32-k3x3x1-s2-p0.0.1.1-wz-fixed.t-clamp-u8",
    ],
)
def test_layers_of_networks(key: str) -> None:
    workload = parse_workload(key)
    assert not isinstance(workload, Dense)
    assert workload.window == same_padding(workload)
    compare(workload, 7)


@pytest.mark.parametrize("seed", range(20))
def test_dense_layers(seed: int) -> None:
    """TFLite's reference FULLY_CONNECTED rounds in binary64, so only unscaled sums must be equal, others within one."""
    rng = np.random.default_rng(seed)
    workload = Dense(int(rng.integers(1, 9)), int(rng.integers(1, 70)), int(rng.integers(1, 40)), random_numerics(rng))
    for name, chosen in adversarial_operands(workload, seed):
        for unscaled in (True, False):
            operands, activation = activated(workload, chosen, rng)
            if unscaled:
                operands = replace(
                    operands,
                    multiplier=np.full_like(chosen.multiplier, 1 << 30),
                    shift=np.ones_like(chosen.shift),
                )
            operands, weight_scale = quantized(operands, 1.0)
            theirs = litert(workload, operands, 1.0, weight_scale, activation)
            np.testing.assert_allclose(
                reference(workload, operands).astype(int), theirs, 0, not unscaled, err_msg=f"{workload.key} {name}"
            )

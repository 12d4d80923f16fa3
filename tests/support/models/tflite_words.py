"""TFLite models of layers of 16-bit data and 8-bit weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.models.tflite_models import Writer

SHAPE = (1, 6, 8, 12)
SCALE = float(np.float32(0.000237))
CONV, DEPTHWISE, DENSE, TRANSPOSED = "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"
OPTIONS = {DENSE: "FullyConnected", CONV: "Conv2D", DEPTHWISE: "DepthwiseConv2D", TRANSPOSED: "TransposeConv"}
VERSIONS = {DENSE: 11, CONV: 8, DEPTHWISE: 5, TRANSPOSED: 5}
SHAPES = {DENSE: (9, 576), CONV: (9, 3, 3, 12), DEPTHWISE: (1, 3, 3, 12), TRANSPOSED: (9, 3, 3, 12)}
# Of the schema's types: what says how many bits sums have.
BITS = {64: 0, 32: 2}


def layer(
    w: Writer,
    word: str,
    data: int,
    name: str,
    activation: int = 0,
    *,
    bias: str = "s64",
    bits: int = 64,
    largest: bool = False,
    shape: tuple[int, ...] = (),
    stride: int = 1,
) -> int:
    """A layer with scales of channels; `largest` has weights whose sums are as far as they go."""
    shape, axis = shape or SHAPES[word], 3 if word == DEPTHWISE else 0
    channels, rng = shape[axis], np.random.default_rng(len(w.tensors))
    values = np.full(shape, 127) if largest else rng.integers(-127, 128, shape)
    weight = w.constant(f"{name}.w", "s8", values, 0.004)
    quantization = w.tensors[weight].quantization
    quantization.scale = list(rng.uniform(0.002, 0.006, channels).astype(np.float32))
    quantization.zeroPoint, quantization.quantizedDimension = [0] * channels, axis
    made_shape = (1, channels) if word == DENSE else (1, SHAPE[1] * stride, SHAPE[2] * stride, channels)
    inputs = [data, weight]
    if word == TRANSPOSED:
        inputs = [w.constant(f"{name}.shape", "s32", made_shape), weight, data]
    if bias:
        inputs.append(w.constant(f"{name}.b", bias, rng.integers(-(1 << 22), 1 << 22, channels), SCALE * 0.004))
    made = w.tensor(name, "s16", made_shape, 3.1 * SCALE * (40 if largest else 1))
    fields: dict[str, Any] = {} if word == DENSE else {"strideH": stride, "strideW": stride}
    if word != DEPTHWISE:
        fields["quantizedBiasType"] = BITS[bits]
    w.operator(word, inputs, [made], OPTIONS[word], VERSIONS[word], fusedActivationFunction=activation, **fields)
    return made


def network() -> bytes:
    """A layer of each kind, with sums of 64 and of 32 bits, one after the other."""
    w = Writer()
    data = layer(w, CONV, w.input("x", "s16", SHAPE, SCALE), "conv", 1, shape=(12, 3, 3, 12))
    data = layer(w, DEPTHWISE, data, "deep", 3)
    data = layer(w, TRANSPOSED, data, "wide", bias="s32", bits=32, shape=(3, 3, 3, 12), stride=2)
    return w.model(layer(w, DENSE, data, "dense", bias="s32", bits=32))

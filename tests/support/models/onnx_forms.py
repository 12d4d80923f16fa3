"""Small ONNX files of the forms that need more than 8-bit layers: few bits, many bits, scales that are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from tests.support.models.onnx_islands import GivenWriter, IslandWriter

INT4 = 22


def narrow() -> bytes:
    """A layer with weights of four bits, a product with blocks of them, and one of ONNX Runtime's."""
    w = IslandWriter((1, 6, 3, 8))
    values = w.rng.integers(-8, 8, 6 * 5)
    w.constants.append(onnx.helper.make_tensor("w", INT4, (5, 6, 1, 1), values.tolist()))
    w.constants.append(onnx.helper.make_tensor("w.z", INT4, (5,), [0] * 5))
    w.node("DequantizeLinear", ["w", w.constant("w.s", np.full(5, 0.0213)), "w.z"], "w.d", axis=0)
    made = w.quantized(w.node("Conv", [w.data, "w.d"], "c"))
    w.constants.append(onnx.helper.make_tensor("v", INT4, (8, 4), w.rng.integers(-8, 8, 32).tolist()))
    w.node("DequantizeLinear", ["v", w.constant("v.s", np.full((2, 4), 0.05))], "v.d", axis=0, block_size=4)
    product = w.apply("MatMul", made, "v.d")
    bits = [w.constant("n", w.rng.integers(0, 256, (3, 1, 8)), np.uint8), w.constant("n.s", np.ones(3))]
    w.node("MatMulNBits", [product, *bits], "y", K=4, N=3, bits=4, block_size=16)
    w.nodes[-1].domain = "com.microsoft"
    w.node("QuantizeLinear", [product, "s", "w.zero"], "few")
    w.constants.append(onnx.helper.make_tensor("w.zero", INT4, (), [1]))
    return w.file("y", w.node("DequantizeLinear", ["few", "s", "w.zero"], "z.few"), opset=21)


def words() -> bytes:
    """A layer between values of 16 bits, scales of channels and of blocks, and a computed one."""
    w = IslandWriter((1, 6, 4, 8))
    parameters = [w.constant("t", 0.001), w.constant("tz", 100, np.uint16)]
    first = w.node("DequantizeLinear", [w.node("QuantizeLinear", ["x", *parameters], "xq"), *parameters], "xd")
    w.constant("w", w.rng.integers(-127, 128, (5, 6, 1, 1)), np.int8)
    w.node("DequantizeLinear", ["w", w.constant("w.s", 0.02)], "w.d")
    made = w.apply("Relu", w.node("Conv", [first, "w.d"], "c"))
    channels = [w.constant("cs", np.full(5, 0.01)), w.constant("cz", np.zeros(5), np.int8)]
    w.node("QuantizeLinear", [made, *channels], "cq", axis=1)
    blocks = [w.constant("bs", np.full((1, 5, 2, 8), 0.01)), w.constant("bz", np.zeros((1, 5, 2, 8)), np.int16)]
    w.node("QuantizeLinear", [w.node("DequantizeLinear", ["cq", *channels], "cd", axis=1), *blocks], "bq", **_BLOCKS)
    second = w.node("DequantizeLinear", ["bq", *blocks], "bd", **_BLOCKS)
    scale = w.apply("Add", w.apply("ReduceMax", w.apply("Abs", second), keepdims=0), 0.1)
    w.node("QuantizeLinear", [second, scale, "z"], "yq")
    return w.file(w.node("DequantizeLinear", ["yq", scale, "z"], "y"), "xq", opset=21)


_BLOCKS: dict[str, Any] = {"axis": 2, "block_size": 2}


def dynamic() -> bytes:
    """A convolution and a product that are quantized while they run."""
    w = IslandWriter((1, 6, 4, 8))
    for name in ("a", "b"):
        w.constant(f"{name}.wz", 3 if name == "a" else 0, np.uint8 if name == "a" else np.int8)
    w.constant("a.w", w.rng.integers(0, 256, (5, 6, 3, 3)), np.uint8)
    w.constant("b.w", w.rng.integers(-128, 128, (8, 4)), np.int8)
    stored = w.apply("DynamicQuantizeLinear", "x", outputs=3)
    sums = w.apply("ConvInteger", stored, "a.w", f"{stored}.2", "a.wz", pads=[1, 1, 1, 1])
    numbers = w.apply("Mul", w.apply("Cast", sums, to=1), f"{stored}.1")
    stored = w.apply("DynamicQuantizeLinear", numbers, outputs=3)
    sums = w.apply("MatMulInteger", stored, "b.w", f"{stored}.2", "b.wz")
    return w.file(w.apply("Mul", w.apply("Cast", sums, to=1), f"{stored}.1"), opset=18)


def recurrent() -> bytes:
    """An LSTM in both directions, then a GRU with lengths of its sequences."""
    w = IslandWriter((3, 2, 4))
    inputs = [w.rng.normal(size=shape) for shape in ((2, 12, 4), (2, 12, 3), (2, 24))]
    states = [w.rng.normal(size=(2, 2, 3)) for _ in range(2)]
    made = w.apply("LSTM", w.data, *inputs, "", *states, outputs=3, hidden_size=3, direction="bidirectional")
    flat = w.apply("Reshape", made, np.array([3, 2, 6]))
    inputs = [w.rng.normal(size=shape) for shape in ((1, 9, 6), (1, 9, 3), (1, 18))]
    lengths = np.array([3, 2], np.int32)
    last = w.apply("GRU", flat, *inputs, lengths, outputs=2, hidden_size=3, linear_before_reset=1)
    return w.file(w.quantized(last), f"{made}.2", opset=18)


def quantized_lstm(steps: int = 3, is_per_channel: bool = True, direction: str = "bidirectional") -> bytes:
    """ONNX Runtime's LSTM whose data and states are quantized while it runs, as its `quantize_dynamic` writes it."""
    w, count = IslandWriter((steps, 2, 4)), 2 if direction == "bidirectional" else 1
    scales = (count, 12) if is_per_channel else (count,)
    weights = [w.constant(name, w.rng.integers(0, 256, (count, rows, 12)), np.uint8) for name, rows in _WEIGHTS.items()]
    parameters = [
        w.constant(f"{name}.{what}", values, dtype)
        for name in _WEIGHTS
        for what, values, dtype in (
            ("scale", w.rng.uniform(0.001, 0.01, scales), np.float32),
            ("zero", np.full(scales, 121), np.uint8),
        )
    ]
    states = [w.constant(name, w.rng.normal(size=(count, 2, 3))) for name in ("hidden", "cell")]
    bias, made = w.constant("bias", w.rng.normal(size=(count, 24))), ["every", "last", "last cell"]
    inputs = ["x", *weights, bias, "", *states, "", *parameters]
    w.node("DynamicQuantizeLSTM", inputs, "every", hidden_size=3, direction=direction)
    w.nodes[-1].domain = "com.microsoft"
    w.nodes[-1].output.extend(made[1:])
    return w.file(*made, opset=18)


_WEIGHTS = {"of data": 4, "of states": 3}


def compositions() -> bytes:
    """Operators that are written by others."""
    w = IslandWriter((1, 4, 3, 6))
    made = w.apply("GroupNormalization", w.data, np.ones(4), np.zeros(4), num_groups=2)
    made = w.apply("LpNormalization", w.apply("MeanVarianceNormalization", made), axis=-1)
    made = w.apply("ScatterElements", made, np.zeros((1, 4, 1, 6), np.int64), np.ones((1, 4, 1, 6)), axis=2)
    made = w.apply("ScatterND", made, np.array([[0, 1]]), np.ones((1, 3, 6)))
    made = w.apply("GridSample", made, w.rng.uniform(-1, 1, (1, 2, 2, 2)))
    places = w.apply("ArgMax", made, axis=1, keepdims=0)
    return w.file(w.apply("OneHot", places, np.array(4), np.array([0.0, 1.0])), w.apply("Celu", made), opset=21)


def attention() -> bytes:
    """Heads: scores of queries and keys, what they weigh, and a product whose output is a number."""
    w = IslandWriter((2, 6, 16))
    split = w.apply("Reshape", w.data, np.array([2, 6, 4, 4]))
    queries, keys = (w.apply("Transpose", split, perm=order) for order in ([0, 2, 1, 3], [0, 2, 3, 1]))
    scores = w.quantized(w.apply("MatMul", queries, keys))
    parts = [w.constant("part", 1 / 256), w.constant("none", 0, np.uint8)]
    stored = w.node("QuantizeLinear", [w.apply("Softmax", scores, axis=-1), *parts], "stored shares")
    shares = w.node("DequantizeLinear", [stored, *parts], "shares")
    mixed = w.apply("MatMul", shares, queries)
    return w.file(mixed, w.quantized(w.apply("Transpose", w.quantized(mixed), perm=[0, 2, 1, 3])))


def language() -> bytes:
    """Heads that share keys and values, with a cache of earlier ones, and what turns their pairs."""
    w = GivenWriter((1, 3, 64))
    angles = w.rng.uniform(0, 6, (8, 8))
    turning = [w.constant("cosines", np.cos(angles)), w.constant("sines", np.sin(angles))]
    made = w.own("RotaryEmbedding", w.data, w.constant("first", [2], np.int64), *turning, interleaved=1)
    past = [w.constant(name, w.rng.normal(size=(1, 1, 5, 16))) for name in ("past keys", "past values")]
    lengths = [w.constant("last", [7], np.int32), w.constant("total", 8, np.int32)]
    bias, sink = w.constant("bias", w.rng.normal(size=(1, 2, 3, 8))), w.constant("sink", w.rng.normal(size=2))
    inputs = [made, "", "", *past, *lengths, *turning, "", bias, sink]
    heads = {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1, "local_window_size": 4, "softcap": 3.0}
    y = w.own("GroupQueryAttention", *inputs, **heads)
    w.nodes[-1].output.extend(["keys", "values"])
    return w.file(y, "keys", "values")


def regions() -> bytes:
    """Regions of images in one size, and their blocks added up."""
    w = GivenWriter((2, 3, 5, 6))
    sampled = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    made = w.apply("RoiAlign", w.data, w.rng.uniform(0, 6, (4, 4)), np.array([0, 1, 1, 0]), **sampled)
    blocks = w.apply("Reshape", w.quantized(made), np.array([2, 6, 6]))
    return w.file(w.apply("Col2Im", blocks, np.array([3, 4]), np.array([2, 3]), pads=[0, 0, 0, 1]), opset=18)


FORMS: dict[str, Callable[[], bytes]] = {
    "narrow": narrow,
    "words": words,
    "dynamic": dynamic,
    "recurrent": recurrent,
    "quantized-lstm": quantized_lstm,
    "compositions": compositions,
    "language": language,
    "regions": regions,
    "attention": attention,
}

"""A small language model as exporters write it for ONNX Runtime: products of 4-bit weights, and caches of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.support.models.onnx_models import FILE_VERSION

WIDTH, HEADS, GROUPS, SIZE, INNER, WORDS = 64, 4, 2, 16, 128, 50
BLOCK, PLACES, EPSILON = 32, 64, 1e-5
BATCH, NEW, PAST, TOTAL = "batch_size", "sequence_length", "past_sequence_length", "total_sequence_length"


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.rng = np.random.default_rng(0)

    def constant(self, name: str, values: Any) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, operator: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        made = onnx.helper.make_node(operator, inputs, outputs, outputs[0], domain=domain, **attributes)
        self.nodes.append(made)
        return outputs[0]

    def own(self, operator: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        """A node of ONNX Runtime's own."""
        return self.node(operator, inputs, *outputs, domain="com.microsoft", **attributes)

    def product(self, data: str, name: str, deep: int, wide: int) -> str:
        bits = self.constant(f"{name}.bits", self.rng.integers(0, 256, (wide, deep // BLOCK, BLOCK // 2), np.uint8))
        scales = self.rng.uniform(0.01, 0.02, (wide, deep // BLOCK)).astype(np.float32)
        inputs = [data, bits, self.constant(f"{name}.scales", scales)]
        return self.own("MatMulNBits", inputs, name, K=deep, N=wide, bits=4, block_size=BLOCK)

    def ones(self, name: str) -> str:
        return self.constant(name, np.ones(WIDTH, np.float32))


def language_model(layers: int) -> bytes:
    """Inputs: words, a mask of all tokens, and caches; outputs: logits, and caches with the new tokens."""
    w = _Writer()
    _write_lengths(w)
    table = w.constant("table", w.rng.normal(0, 1, (WORDS, WIDTH)).astype(np.float32))
    rest = w.node("Gather", [table, "input_ids"], "words")
    data = w.node("SimplifiedLayerNormalization", [rest, w.ones("first")], "normal", axis=-1, epsilon=EPSILON)
    for layer in range(layers):
        rest, data = _write_layer(w, str(layer), rest, data)
    w.product(data, "logits", WIDTH, WORDS)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("input_ids", 7, [BATCH, NEW]), value("attention_mask", 7, [BATCH, TOTAL])]
    outputs = [value("logits", 1, [BATCH, NEW, WORDS])]
    for layer in range(layers):
        for part in ("key", "value"):
            inputs.append(value(f"past.{layer}.{part}", 1, [BATCH, GROUPS, PAST, SIZE]))
            outputs.append(value(f"present.{layer}.{part}", 1, [BATCH, GROUPS, TOTAL, SIZE]))
    graph = onnx.helper.make_graph(w.nodes, "g", inputs, outputs, w.constants)
    imports = [onnx.helper.make_opsetid("", 14), onnx.helper.make_opsetid("com.microsoft", 1)]
    data_: bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION).SerializeToString()
    return data_


def _write_lengths(w: _Writer) -> None:
    """What the mask says: the last place of each sequence, and how many tokens there are."""
    one, place = w.constant("one", np.array([1])), w.constant("place", np.array(1))
    last = w.node("Sub", [w.node("ReduceSum", ["attention_mask", one], "sums"), one], "last")
    w.node("Cast", [last], "lengths", to=6)
    extent = w.node("Gather", [w.node("Shape", ["attention_mask"], "shape"), place], "extent", axis=0)
    w.node("Cast", [extent], "total", to=6)
    angles = w.rng.uniform(0, 6, (PLACES, SIZE // 2)).astype(np.float32)
    w.constant("cosines", np.cos(angles))
    w.constant("sines", np.sin(angles))


def _write_layer(w: _Writer, layer: str, rest: str, data: str) -> tuple[str, str]:
    """What goes by the next layer, and what it takes."""
    widths = {"query": HEADS * SIZE, "key": GROUPS * SIZE, "value": GROUPS * SIZE}
    parts = [w.product(data, f"{part}.{layer}", WIDTH, wide) for part, wide in widths.items()]
    caches = [f"past.{layer}.{part}" for part in ("key", "value")]
    outputs = [f"mixed.{layer}", *(f"present.{layer}.{part}" for part in ("key", "value"))]
    inputs = [*parts, *caches, "lengths", "total", "cosines", "sines"]
    heads = {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": 1}
    mixed = w.product(w.own("GroupQueryAttention", inputs, *outputs, **heads), f"out.{layer}", HEADS * SIZE, WIDTH)
    sums = [f"sum.{layer}.{at}" for at in range(2)]
    inputs = [rest, mixed, w.ones(f"second.{layer}")]
    data = w.own("SkipSimplifiedLayerNormalization", inputs, f"inner.{layer}", "", "", sums[0], epsilon=EPSILON)
    gate, up = (w.product(data, f"{part}.{layer}", WIDTH, INNER) for part in ("gate", "up"))
    open_ = w.node("Mul", [gate, w.node("Sigmoid", [gate], f"share.{layer}")], f"open.{layer}")
    down = w.product(w.node("Mul", [open_, up], f"wide.{layer}"), f"down.{layer}", INNER, WIDTH)
    inputs = [sums[0], down, w.ones(f"third.{layer}")]
    made = w.own("SkipSimplifiedLayerNormalization", inputs, f"next.{layer}", "", "", sums[1], epsilon=EPSILON)
    return sums[1], made

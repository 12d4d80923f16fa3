"""What ONNX Runtime's optimizer fuses in transformers, compiled, beside ONNX Runtime; it writes opset 11 by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import FILE_VERSION
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which they are compared with")

BATCH, LENGTH, WIDTH, HEADS, WORDS = 2, 7, 16, 4, 30
SHAPE = (BATCH, LENGTH, WIDTH)
INT32 = 6
RNG = np.random.default_rng(4)
OPSETS = (11, 17)
MASK = np.array([[1] * LENGTH, [1] * (LENGTH - 3) + [0] * 3], np.int32)


class TransformerWriter(IslandWriter):
    """Writes ONNX Runtime's own nodes."""

    def __init__(self) -> None:
        super().__init__(SHAPE)
        self.feeds: dict[str, Any] = {"x": feed_of(SHAPE)}

    def fused(self, operator: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        made = onnx.helper.make_node(operator, inputs, outputs, outputs[0], domain="com.microsoft", **attributes)
        self.nodes.append(made)
        return outputs[0]

    def numbers(self, name: str, *shape: int) -> str:
        return self.constant(name, RNG.normal(0, 0.3, shape))

    def integers(self, name: str, values: Any) -> str:
        self.inputs.append(onnx.helper.make_tensor_value_info(name, INT32, values.shape))
        self.feeds[name] = values.astype(np.int32)
        return name

    def written(self, outputs: Sequence[str], opset: int) -> bytes:
        infos = [onnx.helper.make_tensor_value_info(name, 1, None) for name in outputs]
        graph = onnx.helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        data: bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION).SerializeToString()
        return data


def attention(w: TransformerWriter) -> list[str]:
    inputs = [w.data, w.numbers("w", WIDTH, 3 * WIDTH), w.numbers("b", 3 * WIDTH), w.integers("mask", MASK)]
    return [w.fused("Attention", inputs, "y", num_heads=HEADS)]


def attention_with_bias(w: TransformerWriter) -> list[str]:
    added = w.numbers("added", BATCH, HEADS, LENGTH, LENGTH)
    inputs = [w.data, w.numbers("w", WIDTH, 3 * WIDTH), w.numbers("b", 3 * WIDTH), "", "", added]
    return [w.fused("Attention", inputs, "y", num_heads=HEADS, scale=0.3)]


def quantized_attention(w: TransformerWriter) -> list[str]:
    weight = w.constant("w", RNG.integers(-127, 128, (WIDTH, 3 * WIDTH)), np.int8)
    scale, point = w.constant("w.s", 0.01), w.constant("w.z", 3, np.int8)
    inputs = ["q", weight, w.numbers("b", 3 * WIDTH), "s", scale, w.integers("mask", MASK), "z", point]
    return [w.fused("QAttention", inputs, "y", num_heads=HEADS)]


def causal_attention(w: TransformerWriter) -> list[str]:
    """The first words of the second sentence are left out: its first queries have no key but later ones."""
    inputs = [w.data, w.numbers("w", WIDTH, 3 * WIDTH), w.numbers("b", 3 * WIDTH), w.integers("mask", MASK[:, ::-1])]
    return [w.fused("Attention", inputs, "y", num_heads=HEADS, unidirectional=1)]


def causal_quantized_attention(w: TransformerWriter) -> list[str]:
    weight = w.constant("w", RNG.integers(-127, 128, (WIDTH, 3 * WIDTH)), np.int8)
    inputs = ["q", weight, w.numbers("b", 3 * WIDTH), "s", w.constant("w.s", 0.01), "", "z"]
    return [w.fused("QAttention", inputs, "y", num_heads=HEADS, unidirectional=1)]


def parts(w: TransformerWriter) -> list[str]:
    """Queries, and keys and values of other lengths and widths."""
    keys, values = (w.apply("MatMul", w.data, w.numbers(name, WIDTH, width)) for name, width in (("k", 16), ("v", 24)))
    return [w.apply("Tanh", w.data), keys, values]


def heads_by_themselves(w: TransformerWriter) -> list[str]:
    inputs = [*parts(w), w.numbers("b", 2 * WIDTH + 24), w.integers("mask", MASK)]
    return [w.fused("MultiHeadAttention", inputs, "y", num_heads=HEADS)]


def causal_heads(w: TransformerWriter) -> list[str]:
    inputs = [*parts(w), "", "", w.numbers("added", 1, HEADS, LENGTH, LENGTH)]
    return [w.fused("MultiHeadAttention", inputs, "y", num_heads=HEADS, unidirectional=1, scale=0.3)]


def other_lengths(w: TransformerWriter) -> list[str]:
    """Keys and values of a sequence that is shorter than that of queries."""
    rest = [w.apply("Slice", name, np.array([2]), np.array([7]), np.array([1])) for name in parts(w)[1:]]
    return [w.fused("MultiHeadAttention", [w.data, *rest], "y", num_heads=HEADS)]


def skipped(w: TransformerWriter) -> list[str]:
    added, rows = w.apply("Relu", w.data), [w.numbers(name, WIDTH) for name in ("scale", "bias", "added")]
    return [w.fused("SkipLayerNormalization", [w.data, added, *rows], "y", "", "", "sum", epsilon=1e-5), "sum"]


def normalized(w: TransformerWriter) -> list[str]:
    """In ONNX's domain before ONNX had it, as ONNX Runtime's optimizer writes it."""
    return [w.apply("LayerNormalization", w.data, RNG.normal(size=WIDTH), RNG.normal(size=WIDTH), axis=-1)]


def simplified(w: TransformerWriter) -> list[str]:
    """The first one is in ONNX's domain, though ONNX has none of this name."""
    first = w.apply("SimplifiedLayerNormalization", w.data, RNG.normal(size=WIDTH), axis=-1, epsilon=1e-3)
    rows = [w.numbers(name, WIDTH) for name in ("scale", "added")]
    inputs = [w.data, first, *rows]
    return [first, w.fused("SkipSimplifiedLayerNormalization", inputs, "y", "", "", "sum", epsilon=1e-5), "sum"]


def chosen(w: TransformerWriter) -> list[str]:
    """One of two quantized values of other scales, as ONNX Runtime's own node."""
    condition = w.apply("Greater", w.data, 0.2)
    other = [w.constant("o", RNG.integers(0, 256, WIDTH), np.uint8), w.constant("o.s", 0.017)]
    inputs = [condition, "q", "s", "z", *other, w.constant("o.z", 90, np.uint8)]
    inputs += [w.constant("y.s", 0.021), w.constant("y.z", 133, np.uint8)]
    return [w.apply("DequantizeLinear", w.fused("QLinearWhere", inputs, "y"), "y.s", "y.z")]


def embedded(w: TransformerWriter) -> list[str]:
    words = w.integers("words", RNG.integers(0, WORDS, SHAPE[:2]))
    segments = w.integers("segments", RNG.integers(0, 2, SHAPE[:2]))
    tables = [w.numbers(name, count, WIDTH) for name, count in (("table", WORDS), ("places", 20), ("kinds", 2))]
    rows = [w.numbers(name, WIDTH) for name in ("scale", "bias")]
    made = w.fused("EmbedLayerNormalization", [words, segments, *tables, *rows], "made", "counts")
    return [w.apply("Add", made, w.data)]


def embedded_bytes(w: TransformerWriter, has_segments: bool = True, element: Any = np.uint8) -> list[str]:
    """Tables of bytes, of whose rows some are the least and the most; ends of the mask are counted."""
    words = w.integers("words", RNG.integers(0, WORDS, SHAPE[:2]))
    segments = w.integers("segments", RNG.integers(0, 2, SHAPE[:2])) if has_segments else ""
    limits = np.iinfo(element)
    shapes = ((WORDS, WIDTH), (20, WIDTH), (2, WIDTH), (WIDTH,), (WIDTH,))
    stored, scales, points = [], [], []
    for at, shape in enumerate(shapes):
        is_left_out = at == 2 and not has_segments
        values = RNG.integers(limits.min, limits.max + 1, shape)
        stored.append("" if is_left_out else w.constant(f"table {at}", values, element))
        scales.append("" if is_left_out else w.constant(f"scale {at}", 0.01 + 0.003 * at))
        points.append("" if is_left_out else w.constant(f"point {at}", limits.max - 100 - at, element))
    inputs = [words, segments, *stored, w.integers("mask", MASK), *scales, *points]
    made = w.fused("QEmbedLayerNormalization", inputs, "made", "counts", epsilon=1e-5)
    return [w.apply("Add", made, w.data), w.apply("Cast", "counts", to=1)]


def multiplied(w: TransformerWriter) -> list[str]:
    other = w.numbers("other", BATCH, 9, WIDTH)
    return [w.fused("FusedMatMul", [w.data, other], "y", alpha=0.25, transB=1)]


def multiplied_batches(w: TransformerWriter) -> list[str]:
    """Operands whose batch axes lie behind their rows, and then some with their last two axes swapped."""
    data, other = w.numbers("rows first", 5, BATCH, 3, 7), w.numbers("columns last", 7, BATCH, 3, 9)
    swapped = w.numbers("columns first", 9, BATCH, 3, 7)
    mixed = w.fused("FusedMatMul", [data, other], "mixed", transBatchA=1, transBatchB=1)
    turned = w.fused("FusedMatMul", [data, swapped], "turned", transBatchA=1, transBatchB=1, transB=1)
    early = w.fused("TransposeMatMul", [w.numbers("turned rows", BATCH, 7, 5), w.data], "early", transA=1, alpha=0.5)
    return [mixed, turned, early, w.fused("ExpandDims", [mixed, w.constant("axis", -2, np.int32)], "y")]


def gelu(w: TransformerWriter) -> list[str]:
    return [w.fused("QuickGelu", [w.data], "y", alpha=1.5)]


BUILDS: list[Callable[[TransformerWriter], list[str]]] = [
    attention,
    quantized_attention,
    causal_attention,
    heads_by_themselves,
    other_lengths,
    skipped,
    normalized,
    simplified,
    chosen,
    embedded,
    multiplied,
    multiplied_batches,
    gelu,
]
THOROUGH = pytest.mark.thorough
VARIANTS = [attention_with_bias, causal_quantized_attention, causal_heads]
EMBEDDED = [(True, np.uint8), (False, np.int8), (True, np.int8), (False, np.uint8)]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("build", [*one_in(4, BUILDS), *(pytest.param(each, marks=THOROUGH) for each in VARIANTS)])
@pytest.mark.matrix(at_most=1)
def test_fused_nodes_are_onnx_runtimes(
    build: Callable[[TransformerWriter], list[str]], opset: int, tmp_path: Path
) -> None:
    writer = TransformerWriter()
    file = writer.written(build(writer), opset)
    assert_close(*outputs_of(file, tmp_path, writer.feeds))


@pytest.mark.thorough
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("has_segments", "element"), EMBEDDED)
def test_embeddings_of_bytes_are_onnx_runtimes(has_segments: bool, element: Any, opset: int, tmp_path: Path) -> None:
    writer = TransformerWriter()
    file = writer.written(embedded_bytes(writer, has_segments, element), opset)
    assert_close(*outputs_of(file, tmp_path, writer.feeds))


@pytest.mark.parametrize("name", ["scale 0", "point 2", "scale 4"])
def test_embeddings_of_several_scales_are_named(name: str) -> None:
    w = TransformerWriter()
    outputs = embedded_bytes(w)
    at = next(at for at, each in enumerate(w.constants) if each.name == name)
    values = np.resize(onnx.numpy_helper.to_array(w.constants[at]), LENGTH)
    w.constants[at].CopyFrom(onnx.numpy_helper.from_array(values, name))
    with pytest.raises(ModelError, match=r"^[^\n]*`made` \(QEmbedLayerNormalization\)[^\n]*$"):
        read_onnx(w.written(outputs, 17), "one")


HOSTILE: list[tuple[str, list[str], dict[str, Any]]] = [
    ("QuickGelu", ["d"], {"alpha": "much"}),
    ("QuickGelu", ["d"], {"alpha": [1, 2]}),
    ("SkipLayerNormalization", ["d", "d", "rows"], {"epsilon": "little"}),
    ("SkipLayerNormalization", ["", "d", "rows"], {}),
    ("SkipSimplifiedLayerNormalization", ["", "d", "rows"], {}),
    ("SkipSimplifiedLayerNormalization", ["d", "d", "rows"], {"epsilon": float("inf")}),
    ("FusedMatMul", ["d"], {}),
    ("FusedMatMul", ["d", "square"], {"alpha": "1"}),
    ("ExpandDims", ["d", "d"], {}),
    ("FusedGemm", ["d", "square"], {"activation": "LeakyRelu", "activation_alpha": "1"}),
    ("FusedGemm", ["d", "square"], {"output": "y"}),
    ("Attention", ["d", "weights", "biases"], {"num_heads": "4"}),
    ("Attention", ["d", "weights", "biases"], {"num_heads": 4, "scale": "1"}),
    ("MultiHeadAttention", ["d", "d", "d"], {"num_heads": [4]}),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes"), HOSTILE)
def test_other_attributes_and_inputs_are_named(operator: str, inputs: list[str], attributes: dict[str, Any]) -> None:
    """What no ONNX Runtime reads ends in one line, too."""
    w = TransformerWriter()
    for name, shape in (("rows", (WIDTH,)), ("square", (WIDTH, WIDTH)), ("weights", (WIDTH, 48)), ("biases", (48,))):
        w.numbers(name, *shape)
    made = onnx.helper.make_node(operator, inputs, ["made"], "made", domain="com.microsoft")
    made.attribute.extend(onnx.helper.make_attribute(*each) for each in attributes.items())
    w.nodes.append(made)
    with pytest.raises(ModelError, match=rf"^[^\n]*`made` \({operator}\)[^\n]*$"):
        read_onnx(w.written(["made"], 17), "one")


@pytest.mark.parametrize("operator", ["Attention", "MultiHeadAttention", "packed", "heads"])
def test_what_is_not_written_is_named(operator: str, tmp_path: Path) -> None:
    """A state of earlier words, and queries, keys and values of other forms."""
    w = TransformerWriter()
    state = w.numbers("state", 2, BATCH, HEADS, 3, WIDTH // HEADS)
    if operator == "Attention":
        inputs = [w.data, w.numbers("w", WIDTH, 3 * WIDTH), w.numbers("b", 3 * WIDTH), "", state]
    elif operator == "MultiHeadAttention":
        inputs = [*parts(w), "", "", "", w.numbers("past", BATCH, HEADS, 3, 4), w.numbers("more", BATCH, HEADS, 3, 4)]
    elif operator == "packed":
        inputs = [w.apply("Reshape", w.data, np.array([BATCH, LENGTH, HEADS, 1, 4]))]
    else:
        keys = w.apply("Transpose", w.apply("Reshape", w.data, np.array([0, 0, HEADS, 4])), perm=[0, 2, 1, 3])
        inputs = [w.data, keys, keys]
    made = w.fused("Attention" if operator == "Attention" else "MultiHeadAttention", inputs, "y", num_heads=HEADS)
    with pytest.raises(ModelError, match=r"`y[^`]*` \((Multi|Head|Attention|Transpose)+\)"):
        compiled(w.written([made], 17), tmp_path)

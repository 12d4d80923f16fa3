"""Weights of 4 and 2 bits, several in a byte, and those whose scales belong to blocks: LiteRT's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import int8tune as it
from int8tune.compiler.errors import ModelError
from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.onnx_islands import assert_close
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import PACKED_BITS, in_bytes, values_of
from tests.support.models.tflite_packed import IMAGE, LAYERS, ROWS, SCALE, PackedWriter

pytest.importorskip("tflite", reason="needs the extra `models`")


def feed(kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(2)
    if kind == "f32":
        return rng.normal(size=shape).astype(np.float32)
    ends = np.iinfo(np.int8 if kind == "s8" else np.int16)
    made = rng.integers(ends.min, ends.max + 1, shape).astype(ends.dtype)
    made.reshape(-1)[:2] = ends.min, ends.max
    return made


@pytest.mark.parametrize("has_scales", [False, True])
@pytest.mark.parametrize(
    ("word", "kind", "data"),
    [
        ("FULLY_CONNECTED", "s4", "s8"),
        ("FULLY_CONNECTED", "s4", "s16"),
        ("FULLY_CONNECTED", "s2", "s8"),
        ("FULLY_CONNECTED", "s2", "s16"),
        ("CONV_2D", "s4", "s8"),
        ("CONV_2D", "s4", "s16"),
        ("DEPTHWISE_CONV_2D", "s4", "s8"),
    ],
)
@pytest.mark.matrix
def test_layers_are_litert_s_bit_for_bit(word: str, kind: str, data: str, has_scales: bool, tmp_path: Path) -> None:
    file = PackedWriter().layer(word, kind, data, has_scales)
    assert int8_share(read_tflite(file, "packed")) == 1
    x = feed(data, LAYERS[word][0])
    (made,) = compiled(file, tmp_path).run([x])
    assert np.array_equal(made, values_of(file, {"x": x})["y"])


@pytest.mark.parametrize("is_asymmetric", [False, True])
@pytest.mark.parametrize(("word", "kind"), [("FULLY_CONNECTED", "s4"), ("FULLY_CONNECTED", "s2"), ("CONV_2D", "s4")])
@pytest.mark.matrix(at_most=1)
def test_dynamic_layers_are_litert_s(word: str, kind: str, is_asymmetric: bool, tmp_path: Path) -> None:
    fields = {"asymmetricQuantizeInputs": is_asymmetric} if word == "FULLY_CONNECTED" else {}
    file = PackedWriter().layer(word, kind, "f32", **fields)
    x = feed("f32", LAYERS[word][0])
    (made,) = compiled(file, tmp_path).run([x])
    assert_close({"y": made}, {"y": values_of(file, {"x": x})["y"]})


@pytest.mark.parametrize("kind", PACKED_BITS)
def test_numbers_of_weights_alone_are_litert_s(kind: str, tmp_path: Path) -> None:
    """As of models whose weights alone have few bits; the last byte is not full."""
    w = PackedWriter()
    x = w.input("x", "f32", ROWS)
    numbers = w.tensor("numbers", "f32", ROWS)
    w.operator("DEQUANTIZE", [w.weights(kind, ROWS, 0)], [numbers], version=6)
    y = w.tensor("y", "f32", ROWS)
    w.operator("MUL", [x, numbers], [y], "Mul")
    words = w.input("words", "s32", (4,))
    rows = w.tensor("rows", "f32", (4, 44))
    w.operator("EMBEDDING_LOOKUP", [words, w.weights(kind, (9, 44), 0)], [rows], version=4)
    file = w.model(y, rows)
    feeds = {"x": feed("f32", ROWS), "words": np.array([8, 0, 3, 3], np.int32)}
    model = compiled(file, tmp_path)
    made = model.run([feeds[form["name"]] for form in model.about.inputs])
    found = values_of(file, feeds)
    assert np.array_equal(made[0], found["y"])
    assert np.array_equal(made[1], found["rows"])


def test_rows_with_scales_for_blocks_are_litert_s(tmp_path: Path) -> None:
    file = PackedWriter().blocks()
    assert float_operators(read_tflite(file, "blocks"))["FULLY_CONNECTED"] == 1
    x = feed("f32", (5, 96))
    x[3] = 0
    (made,) = compiled(file, tmp_path).run([x])
    # Its reference kernels don't read these scales.
    assert_close({"y": made}, {"y": values_of(file, {"x": x}, is_reference=False)["y"]})


@pytest.mark.thorough
def test_scales_for_blocks_are_compared_with_what_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "blocks.tflite"
    path.write_bytes(PackedWriter().blocks())
    found = it.accuracy(path, count=12, results=tmp_path / "none")
    assert found.outputs[0].sqnr_db is None or found.outputs[0].sqnr_db > 40


def transposed(w: PackedWriter) -> bytes:
    sizes = w.constant("sizes", "s32", [1, 12, 12, 7])
    x = w.input("x", "s8", IMAGE, SCALE, -3)
    y = w.tensor("y", "s8", (1, 12, 12, 7), SCALE, -3)
    w.operator("TRANSPOSE_CONV", [sizes, w.weights("s4", (7, 3, 3, 5), 0), x], [y], "TransposeConv", 4)
    return w.model(y)


def computed(w: PackedWriter) -> bytes:
    x = w.input("x", "s8", ROWS, SCALE, -3)
    y = w.tensor("y", "s4", ROWS, SCALE, 0)
    w.operator("QUANTIZE", [x], [y])
    return w.model(y)


def short(w: PackedWriter) -> bytes:
    file = w.layer("FULLY_CONNECTED", "s4")
    w.buffers[w.tensors[1].buffer].data = np.zeros(157, np.uint8)
    assert len(file) > 0
    return w.model(3)


def many_blocks(w: PackedWriter) -> bytes:
    w.blocks()
    w.block(1, 2, 48)
    return w.model(3)


def blocks_of_numbers(w: PackedWriter) -> bytes:
    w.blocks()
    w.block(1, 4, 32)  # the bias
    return w.model(3)


def half_rows(w: PackedWriter) -> bytes:
    words = w.input("words", "s32", (4,))
    y = w.tensor("y", "f32", (4, 45))
    w.operator("EMBEDDING_LOOKUP", [words, w.weights("s4", (9, 45), 0)], [y], version=4)
    return w.model(y)


REFUSED: Mapping[str, tuple[Callable[[PackedWriter], bytes], str]] = {
    "2 bits of a convolution": (lambda w: w.layer("CONV_2D", "s2"), "`w`: LiteRT has no CONV_2D of INT2"),
    "depthwise of 16-bit data": (
        lambda w: w.layer("DEPTHWISE_CONV_2D", "s4", "s16"),
        "`w`: LiteRT has no DEPTHWISE_CONV_2D of INT4",
    ),
    "a transposed convolution": (transposed, "`w`: LiteRT has no TRANSPOSE_CONV of INT4"),
    "values that are computed": (computed, "tensor `y`: type INT4 is not supported"),
    "too few bytes": (short, "315 values of 4 bits need 158 bytes: 157"),
    "rows that end within a byte": (
        half_rows,
        "`w`: LiteRT takes rows of an EMBEDDING_LOOKUP for whole bytes: [9, 45] of INT4",
    ),
    "blocks of 2 bits": (lambda w: w.blocks("s2"), "`w`: scales for blocks of values but of INT4 are not supported"),
    "blocks of 8 bits": (lambda w: w.blocks("s8"), "`w`: scales for blocks of values but of INT4 are not supported"),
    "blocks that don't divide rows": (many_blocks, "f16 scales of shape [8, 2]: float16 [8, 3]"),
    "blocks with f32 scales": (blocks_of_numbers, "f16 scales of shape [8, 3]: float32 [8]"),
    "blocks with zero points": (lambda w: w.blocks(zero_points=2), "`w`: blocks with zero points are not supported"),
    "blocks in an operator of its own": (
        lambda w: w.blocks(word="EMBEDDING_LOOKUP"),
        "`w`: only a FULLY_CONNECTED of numbers has scales for blocks, not EMBEDDING_LOOKUP",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_litert_does_not_read_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(ModelError, match=r"^packed: tensor") as caught:
        read_tflite(make(PackedWriter()), "packed")
    assert message in str(caught.value)


def test_bytes_are_read_from_their_lowest_bits() -> None:
    assert in_bytes(np.array([1, -8, 7]), 4).tolist() == [0x81, 0x07]
    w = PackedWriter()
    x = w.input("x", "s8", (1, 3), SCALE, 0)
    weight = w.constant("w", "s4", [[1, -8, 7]], 0.02)
    y = w.tensor("y", "s8", (1, 1), SCALE, 0)
    w.operator("FULLY_CONNECTED", [x, weight], [y], "FullyConnected", 9)
    values = read_tflite(w.model(y), "packed").values
    assert values["w"].constant is not None
    assert values["w"].constant.tolist() == [[1, -8, 7]]

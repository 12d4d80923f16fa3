"""Spectra of TFLite models, as classifiers of sounds begin, beside LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import outputs_of
from tests.support.models.tflite_models import Writer
from tests.support.run.thinned import chosen

pytest.importorskip("tflite", reason="needs the extra `models`")

COMPLEX = 8
PARTS = ("COMPLEX_ABS", "REAL", "IMAG")


def spectra(length: int, taken: int, rows: int = 1, shaped: Sequence[str] = ()) -> bytes:
    """Magnitudes and both parts of the spectra of five frames of u8, in each shape that `shaped` gives these."""
    w = Writer()
    stored, numbers = w.input("x", "u8", (5, rows, taken), 0.02, 128), w.tensor("numbers", "f32", (5, rows, taken))
    w.operator("DEQUANTIZE", [stored], [numbers])
    form = (5, rows, length // 2 + 1)
    made = w.tensor("spectra", "f32", form)
    w.tensors[made].type = COMPLEX
    w.operator("RFFT2D", [numbers, w.constant("length", "s32", [rows, length])], [made], "Rfft2d", version=1)
    others = {f"{word} ": reshaped(w, word, made, form) for word in shaped}
    ends = []
    for name, (each, shape) in (others or {"": (made, form)}).items():
        for word in PARTS:
            ends.append(w.tensor(f"{name}{word}", "f32", shape))
            w.operator(word, [each], [ends[-1]], version=1)
    return w.model(*ends)


def reshaped(w: Writer, word: str, spectrum: int, form: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    shape, constants, options, fields = {
        "RESHAPE": (form[1:] + form[:1], [w.constant("shape", "s32", form[1:] + form[:1])], "", {}),
        "SQUEEZE": ((form[0], form[2]), [], "Squeeze", {"squeezeDims": [1]}),
        "EXPAND_DIMS": ((form[0], 1, *form[1:]), [w.constant("axis", "s32", [1])], "", {}),
    }[word]
    made = w.tensor(f"{word} spectra", "f32", shape)
    w.tensors[made].type = COMPLEX
    w.operator(word, [spectrum, *constants], [made], options, 1, **fields)
    return made, shape


@pytest.mark.thorough
def test_spectra_in_another_shape_are_litert_s(tmp_path: Path) -> None:
    words = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
    feed = np.random.default_rng(3).integers(0, 256, (5, 1, 16)).astype(np.uint8)
    ours, theirs = outputs_of(spectra(16, 16, shaped=words), tmp_path, {"x": feed})
    assert set(theirs) == {f"{word} {part}" for word in words for part in PARTS}
    largest = float(np.abs(theirs["RESHAPE COMPLEX_ABS"]).max())
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-6 * largest, strict=True)


@pytest.mark.parametrize(
    ("length", "taken"),
    chosen([(64, 64), (64, 50), (32, 45), (2, 3), (512, 400)], lambda form: form == (64, 50)),
)
def test_spectra_are_litert_s(length: int, taken: int, tmp_path: Path) -> None:
    feed = np.random.default_rng(length).integers(0, 256, (5, 1, taken)).astype(np.uint8)
    feed[3] = 128  # silence, whose magnitudes are 0
    ours, theirs = outputs_of(spectra(length, taken), tmp_path, {"x": feed})
    largest = float(np.abs(theirs["COMPLEX_ABS"]).max())
    for name in PARTS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-6 * largest, strict=True)
    assert not ours["COMPLEX_ABS"][3].any()


def test_images_have_no_spectra_here() -> None:
    (found,) = [each for each in obstacles(read_tflite(spectra(8, 8, rows=2), "image")) if each.operator == "RFFT2D"]
    assert found.reason == "its spectra must be of single rows: lengths [2, 8] of (5, 2, 8)"


@pytest.mark.parametrize("length", [1, 48])
def test_lengths_that_litert_has_not_are_refused(length: int) -> None:
    (found,) = [each for each in obstacles(read_tflite(spectra(length, 8), "odd")) if each.operator == "RFFT2D"]
    assert found.reason == f"its length must be a power of two, from 2: {length}"


@pytest.mark.parametrize("word", ["ABS", "TRANSPOSE"])
def test_complex_numbers_are_no_others(word: str) -> None:
    w = Writer()
    numbers, made, end = w.input("x", "f32", (1, 8)), w.tensor("spectra", "f32", (1, 5)), w.tensor("end", "f32", (1, 5))
    w.operator("RFFT2D", [numbers, w.constant("length", "s32", [1, 8])], [made], "Rfft2d", version=1)
    w.operator(word, [made], [end])
    w.tensors[made].type = COMPLEX
    with pytest.raises(
        ModelError,
        match=f"tensor `spectra` of {word}: only RFFT2D, RESHAPE, SQUEEZE, EXPAND_DIMS, COMPLEX_ABS, REAL, IMAG",
    ):
        read_tflite(w.model(end), "wrong")
    w.outputs = [made]
    with pytest.raises(ModelError, match="type COMPLEX64 is not supported"):
        read_tflite(w.model(made), "wrong")


def test_real_numbers_are_not_complex() -> None:
    w = Writer()
    numbers, end = w.input("x", "f32", (1, 8)), w.tensor("end", "f32", (1, 8))
    w.operator("COMPLEX_ABS", [numbers], [end])
    with pytest.raises(ModelError, match="tensor `x` of COMPLEX_ABS: only"):
        read_tflite(w.model(end), "wrong")

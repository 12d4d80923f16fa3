"""A language model as exporters write it, compiled for prompts and for words behind a cache, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.given import Given
from int8tune.compiler.onnx_reader.specialized import specialized
from tests.support.models.onnx_islands import assert_close, compiled
from tests.support.models.onnx_models import values_of

pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

from tests.support.models.onnx_language import GROUPS, SIZE, WORDS, language_model


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("new", "past", "mask"),
    [
        (1, 5, [[1] * 6]),
        (4, 4, [[1] * 8]),
        (1, 7, [[1] * 5 + [0] * 3, [1] * 8]),
    ],
)
def test_words_and_caches_are_onnx_runtimes(new: int, past: int, mask: list[list[int]], tmp_path: Path) -> None:
    layers, rng = 2, np.random.default_rng(1)
    caches = [f"past.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    forms = {"input_ids": (len(mask), new), "attention_mask": (len(mask), len(mask[0]))}
    forms |= dict.fromkeys(caches, (len(mask), GROUPS, past, SIZE))
    whole = language_model(layers)
    model = compiled(specialized(whole, "language", Given({}, forms)), tmp_path)
    feeds = {"input_ids": rng.integers(0, WORDS, forms["input_ids"]), "attention_mask": np.array(mask)}
    feeds |= {name: rng.normal(0, 1, forms[name]).astype(np.float32) for name in caches}
    made = model.run([feeds[form["name"]] for form in model.about.inputs])
    names = [form["name"] for form in model.about.outputs]
    assert_close(dict(zip(names, made, strict=True)), values_of(whole, names, feeds))

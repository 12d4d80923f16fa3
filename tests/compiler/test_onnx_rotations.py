"""RotaryEmbedding of ONNX Runtime, compiled, beside itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import GivenWriter, assert_close, compiled, outputs_of
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

ROWS = 20
RNG = np.random.default_rng(2)
PLACES = RNG.integers(0, ROWS, (2, 3))
JOINED, APART = (2, 3, 64), (2, 4, 3, 16)
PARTLY = {"num_heads": 4, "rotary_embedding_dim": 8}

Form = tuple[tuple[int, ...], int, Any, dict[str, Any]]
FORMS: dict[str, Form] = {
    "in part, heads apart": (APART, 4, PLACES, {**PARTLY, "interleaved": 1}),
    "heads joined": (JOINED, 8, PLACES, {}),
    "from a place on": (JOINED, 8, [4], {"interleaved": 1, "num_heads": 4}),
    "in part": (JOINED, 4, [4], PARTLY),
    "heads apart": (APART, 8, PLACES, {}),
}


def rotated(shape: tuple[int, ...], pairs: int, places: Any, **attributes: Any) -> tuple[GivenWriter, str]:
    w, angles = GivenWriter(shape), RNG.uniform(0, 6, (ROWS, pairs)).astype(np.float32)
    caches = w.constant("cosines", np.cos(angles)), w.constant("sines", np.sin(angles))
    return w, w.own("RotaryEmbedding", w.data, w.given("places", np.array(places)), *caches, **attributes)


@pytest.mark.parametrize("name", one_in(2, FORMS))
@pytest.mark.matrix(at_most=1)
def test_pairs_are_turned_as_by_onnx_runtime(name: str, tmp_path: Path) -> None:
    shape, pairs, places, attributes = FORMS[name]
    w, made = rotated(shape, pairs, places, **attributes)
    assert_close(*outputs_of(w.file(made), tmp_path, w.feeds))


def test_places_beyond_the_caches_are_their_ends(tmp_path: Path) -> None:
    """ONNX Runtime stops there."""
    w, made = rotated(JOINED, 8, [[0, ROWS - 1, 5], [ROWS - 1, ROWS - 1, 0]])
    model = compiled(w.file(made), tmp_path)
    (wanted,) = model.run([w.feeds["x"], w.feeds["places"]])
    (found,) = model.run([w.feeds["x"], np.array([[-ROWS, ROWS, 5], [2**63 - 1, -1, -(2**63)]])])
    np.testing.assert_array_equal(found, wanted)


REFUSED: dict[str, Form] = {
    "other heads": (JOINED, 8, [4], {"num_heads": 2}),
    "heads of other sizes": (APART, 4, PLACES, {}),
    "negative heads": (JOINED, 8, [4], {"num_heads": -4}),
    "text": (JOINED, 8, [4], {"num_heads": "4"}),
    "other caches": (JOINED, 8, [4], PARTLY),
    "large caches": (JOINED, 40, [4], {}),
    "scale": (JOINED, 8, [4], {"scale": 2.0}),
    "packed": (JOINED, 8, [4], {"is_packed_batching": 1}),
    "places of others": (JOINED, 8, PLACES[:1], {}),
    "places of 32 bits": (JOINED, 8, PLACES.astype(np.int32), {}),
    "two axes": ((6, 16), 8, [4], {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_turned_is_named(name: str) -> None:
    shape, pairs, places, attributes = REFUSED[name]
    w, made = rotated(shape, pairs, places, **attributes)
    with pytest.raises(ModelError, match=r"\n1 RotaryEmbedding: its [^\n]*$"):
        refuse_obstacles(read_onnx(w.file(made, "d"), "one"))

"""Convolutions of three dimensions: int8 layers, bit for bit ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import float_parts, int8_share
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import compiled
from tests.support.models.onnx_models import quantized_layer, values_of

pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

# Shapes of data and weights, and attributes.
FORMS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], Mapping[str, Any]]] = {
    "a border on all sides": ((1, 4, 5, 6, 7), (6, 4, 3, 3, 3), {"pads": [1] * 6}),
    "strides, and a border behind": (
        (1, 3, 8, 9, 6),
        (5, 3, 3, 3, 2),
        {"pads": [0, 1, 0, 2, 0, 1], "strides": [2, 1, 2]},
    ),
    "frames that are far from each other": ((1, 4, 9, 5, 5), (6, 4, 3, 1, 1), {"dilations": [3, 1, 1]}),
    "a frame alone": ((1, 4, 3, 6, 7), (6, 4, 1, 3, 3), {"pads": [0, 1, 1] * 2}),
    "groups of a frame": ((1, 4, 3, 6, 7), (6, 2, 1, 3, 3), {"group": 2, "strides": [2, 1, 1]}),
    "channels of a frame": ((1, 4, 3, 6, 7), (4, 1, 1, 3, 3), {"group": 4}),
    "one frame in a border": ((1, 4, 1, 6, 7), (6, 4, 3, 3, 3), {"pads": [1] * 6}),
    "as large as the data": ((1, 4, 5, 6, 7), (6, 4, 3, 2, 3), {"auto_pad": "SAME_LOWER"}),
    "larger than the data": ((1, 4, 5, 6, 7), (6, 4, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]}),
    "a whole clip": ((1, 4, 3, 4, 4), (6, 4, 3, 4, 4), {}),
}


@pytest.mark.parametrize("data_type", [np.uint8, np.int8])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.matrix(at_most=5)
def test_layers_are_exact(form: str, data_type: Any, tmp_path: Path) -> None:
    shape, weights, attributes = FORMS[form]
    rng = np.random.default_rng(len(form))
    layer = {"weight": rng.integers(-127, 128, weights), "shape": shape, "data_type": data_type, "zero_point": 100}
    file = quantized_layer(activation="Relu", **layer, **attributes).SerializeToString()
    assert int8_share(read_onnx(file, "frames")) == 1
    x = rng.normal(0, 1.5, shape).astype(np.float32)
    (made,) = compiled(file, tmp_path).run([x])
    assert np.array_equal(made, values_of(file, ["y"], x)["y"])


ISLANDS = {
    "a batch": ((2, 4, 5, 6, 7), (6, 4, 3, 3, 3), {}, "a 3-D convolution must have a batch of 1: 2"),
    "groups of frames": (
        (1, 4, 5, 6, 7),
        (6, 2, 3, 3, 3),
        {"group": 2},
        "a 3-D convolution of several frames must have one group",
    ),
}


@pytest.mark.parametrize("case", ISLANDS)
def test_others_are_computed_in_float(case: str) -> None:
    shape, weights, attributes, reason = ISLANDS[case]
    file = quantized_layer(weight=np.ones(weights), shape=shape, **attributes).SerializeToString()
    (found,) = float_parts(read_onnx(file, "frames"))
    assert found.reason == reason


@pytest.mark.parametrize("name", ["pads", "strides"])
def test_attributes_that_do_not_fit_are_refused(name: str) -> None:
    model = quantized_layer(weight=np.ones((6, 4, 3, 3, 3)), shape=(1, 4, 5, 6, 7), **{name: [1] * 5})
    with pytest.raises(ModelError):
        read_onnx(model.SerializeToString(), "frames")

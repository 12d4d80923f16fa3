"""Float weights that are steps of a scale, and stored values that a Clip bounds, are what int8 layers take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8tune.compiler.graph import Kind
from int8tune.compiler.islands.island import ISLAND
from int8tune.compiler.onnx_reader import quantization
from int8tune.compiler.onnx_reader.grids import steps_of
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.onnx_reader.nodes import Node
from tests.support.models.onnx_islands import assert_equal, outputs_of
from tests.support.models.onnx_tool_forms import numbered, qcdq

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which outputs are compared with")

LAYERS = [Kind.CONV2D, Kind.DEPTHWISE, Kind.CONV2D, Kind.DENSE]


@pytest.mark.parametrize("form", [qcdq, numbered])
def test_all_layers_are_int8_layers(form: Callable[[], bytes], tmp_path: Path) -> None:
    file = form()
    operators = read_onnx(file, "one").operators
    assert [each.kind for each in operators if each.kind in LAYERS] == LAYERS
    assert not any(ISLAND in each.attributes for each in operators)
    data = np.random.default_rng(3).standard_normal((1, 3, 12, 10)).astype(np.float32)
    assert_equal(*outputs_of(file, tmp_path, {"x": data}))


def node_of(operator: str, **attributes: int) -> Node:
    return Node("layer", operator, operator, ("x", "w"), ("y",), attributes)


@given(
    seed=st.integers(0, 1 << 16),
    log_scale=st.floats(-80, 20),
    least=st.integers(-128, 0),
    most=st.integers(0, 127),
    operator=st.sampled_from(["Conv", "ConvTranspose", "MatMul", "Gemm"]),
)
def test_steps_of_any_scale_are_found(seed: int, log_scale: float, least: int, most: int, operator: str) -> None:
    rng = np.random.default_rng(seed)
    shape = (5, 4, 3, 2) if operator.startswith("Conv") else (5, 4)
    axis = 0 if operator == "Conv" else 1
    steps = rng.integers(least, most, shape, endpoint=True).astype(np.float32)
    along = [-1 if at == axis else 1 for at in range(len(shape))]
    scales = np.float32(2.0**log_scale) * rng.uniform(0.5, 2, shape[axis]).astype(np.float32).reshape(along)
    weights = steps * scales
    found = steps_of(node_of(operator), weights)
    assert found is not None
    stored, quantization = found
    assert stored.dtype == np.int8
    assert quantization.axis == axis
    assert not quantization.zero_point.any()
    np.testing.assert_array_equal(stored.astype(np.float32) * quantization.scale.reshape(along), weights)


@given(seed=st.integers(0, 1 << 16), at=st.integers(0, 99))
def test_one_value_beside_its_step_is_enough(seed: int, at: int) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.integers(-127, 128, (100, 3)).astype(np.float32)
    steps[:2] = [[127] * 3, [-126] * 3]
    weights = steps * rng.uniform(0.001, 0.002, 3).astype(np.float32)
    assert steps_of(node_of("MatMul"), weights) is not None
    weights[at, 1] += np.float32(0.0003)
    assert steps_of(node_of("MatMul"), weights) is None


@pytest.mark.parametrize(
    "weights",
    [
        np.random.default_rng(0).standard_normal((40, 4)),
        np.full((3, 4), np.nan),
        np.full((3, 4), np.inf),
        np.arange(-129, 3).reshape(66, 2),
        np.arange(1, 258, 2).reshape(129, 1),
        np.full((3, 4), 1e-44),
        np.zeros((0, 4)),
        np.zeros(4),
    ],
    ids=["drawn", "nan", "inf", "beyond", "odd", "tiny", "empty", "row"],
)
def test_other_values_stay_numbers(weights: np.ndarray) -> None:
    assert steps_of(node_of("MatMul"), weights.astype(np.float32)) is None


def test_a_file_of_very_many_channels_is_read_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first layers are taken, the others stay in float."""
    monkeypatch.setattr(quantization, "MAX_CHANNELS", 20)
    kinds = [each.kind for each in read_onnx(numbered(), "one").operators]
    assert [kind for kind in kinds if kind in LAYERS] == LAYERS[:2]


def test_other_types_stay_as_they_are() -> None:
    assert steps_of(node_of("MatMul"), np.ones((2, 2))) is None
    assert steps_of(node_of("Add"), np.ones((2, 2), np.float32)) is None

"""QuantizeLinear and DequantizeLinear of float16, and bounds of Clip that are computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import values_of

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

Array = npt.NDArray[Any]
FLOAT, UINT8, FLOAT16 = 1, 2, 10
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = HALVES[np.isfinite(HALVES)]


def written(operator: str, element: int, shape: tuple[int, ...], scale: Array, opset: int = 21, **fields: Any) -> bytes:
    """One node between an input `x` and an output `y`."""
    constants = [onnx.numpy_helper.from_array(scale, "s"), onnx.numpy_helper.from_array(np.uint8(120), "z")]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, ["x", "s", "z"], ["y"], **fields)],
        "g",
        [onnx.helper.make_tensor_value_info("x", element, shape)],
        [onnx.ValueInfoProto(name="y")],
        constants,
    )
    imports = [onnx.helper.make_opsetid("", opset)]
    data: bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return data


def assert_equal(file: bytes, feed: Array, folder: Path | None = None) -> None:
    theirs = values_of(file, ["y"], {"x": feed}, False)["y"]
    made = run_reference(read_onnx(file, "half"), {"x": feed})["y"]
    np.testing.assert_array_equal(made, theirs, strict=True)
    if folder is not None:
        np.testing.assert_array_equal(compiled(file, folder).run([feed])[0], theirs, strict=True)


@pytest.mark.parametrize("opset", [19, 21])
def test_every_half_is_stored_as_onnx_runtime_does(opset: int, tmp_path: Path) -> None:
    for scale in (0.03, 1 / 7):
        file = written("QuantizeLinear", FLOAT16, FINITE.shape, np.float16(scale), opset)  # type: ignore[arg-type]
        assert_equal(file, FINITE, tmp_path if (opset, scale) == (21, 0.03) else None)


def test_every_stored_value_is_the_half_that_onnx_runtime_makes(tmp_path: Path) -> None:
    every = np.arange(256, dtype=np.uint8)
    assert_equal(written("DequantizeLinear", UINT8, (256,), np.float16(0.031)), every, tmp_path)  # type: ignore[arg-type]
    assert_equal(written("DequantizeLinear", UINT8, (256,), np.float32(0.031), 23, output_dtype=FLOAT16), every)  # type: ignore[arg-type]
    assert_equal(written("DequantizeLinear", UINT8, (256,), np.float16(0.031), 23, output_dtype=FLOAT), every)  # type: ignore[arg-type]


def test_a_precision_of_f32_is_that_of_older_versions() -> None:
    assert_equal(written("QuantizeLinear", FLOAT16, FINITE.shape, np.float16(0.03), 23, precision=FLOAT), FINITE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("element", "fields", "message"),
    [(FLOAT16, {}, "its precision must be 1"), (FLOAT, {"precision": FLOAT}, "its data must be f16 as its scale is")],
)
def test_other_quotients_are_refused(element: int, fields: dict[str, int], message: str) -> None:
    file = written("QuantizeLinear", element, (8,), np.float16(0.03), 23, **fields)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=message):
        read_onnx(file, "half")


def test_weights_with_scales_of_float16_are_numbers(tmp_path: Path) -> None:
    rng, w = np.random.default_rng(0), IslandWriter((4, 16))
    w.constant("w", rng.integers(-127, 128, (16, 8)), np.int8)
    w.constant("w.s", rng.uniform(0.005, 0.02, 8), np.float16)
    w.node("DequantizeLinear", ["w", "w.s"], "w.d", axis=1)
    made = w.apply("MatMul", w.data, w.apply("Cast", "w.d", to=FLOAT))
    assert_close(*outputs_of(w.file(made, opset=21), tmp_path, {"x": feed_of((4, 16))}, optimized=False))


def test_computed_bounds_of_a_clip_are_onnx_runtime_s(tmp_path: Path) -> None:
    """Also where they cross, and where one is left out or constant."""
    w = IslandWriter()
    low, high = w.apply("ReduceMin", w.data, keepdims=0), w.apply("ReduceMean", w.data, keepdims=0)
    half = w.apply("Mul", low, 0.5)
    made = [
        w.apply("Clip", w.data, half, high),
        w.apply("Clip", w.data, high, half),
        w.apply("Clip", w.data, "", high),
        w.apply("Clip", w.data, half),
        w.apply("Clip", w.data, -0.3, high),
    ]
    assert_close(*outputs_of(w.file(*made), tmp_path, {"x": feed_of()}))

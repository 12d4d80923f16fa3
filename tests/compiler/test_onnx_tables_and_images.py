"""Tables of a few bits whose rows are gathered, and images that are resized with antialias."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import values_of
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

UINT4, INT4 = 21, 22
ROWS, WIDE = 20, 96


def table(kind: str, size: int = 32, has_points: bool = True, wide: int = WIDE, **fields: Any) -> bytes:
    """Rows of a table; `kind` is `packed`, values of 4 bits in bytes, `bytes`, or a type of 4 bits."""
    rng, per_byte = np.random.default_rng(0), 2 if kind == "packed" else 1
    blocks = -(-wide // size)
    shapes = (ROWS, wide // per_byte), (ROWS, -(-blocks // per_byte))
    constants = [onnx.numpy_helper.from_array(rng.uniform(0.01, 0.1, (ROWS, blocks)).astype(np.float32), "s")]
    for name, shape in zip(("t", "z"), shapes, strict=True):
        if kind in ("packed", "bytes"):
            constants.append(onnx.numpy_helper.from_array(rng.integers(0, 256, shape).astype(np.uint8), name))
        else:
            low, high = (-8, 8) if kind == "s4" else (0, 16)
            values = rng.integers(low, high, shape).ravel().tolist()
            constants.append(onnx.helper.make_tensor(name, INT4 if kind == "s4" else UINT4, shape, values))
    attributes = {"bits": 8 if kind == "bytes" else 4, "block_size": size, "gather_axis": 0, "quantize_axis": 1}
    taken = ["t", "i", "s", "z"] if has_points else ["t", "i", "s"]
    node = onnx.helper.make_node("GatherBlockQuantized", taken, ["y"], domain="com.microsoft", **attributes | fields)
    places = onnx.helper.make_tensor_value_info("i", 7, [2, 5])
    graph = onnx.helper.make_graph([node], "g", [places], [onnx.ValueInfoProto(name="y")], constants)
    imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    data: bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return data


KINDS = [
    (kind, size, points) for kind in ("packed", "bytes", "s4", "u4") for size in (16, 32) for points in (True, False)
]


@pytest.mark.parametrize(("kind", "size", "has_points"), one_in(3, KINDS))
@pytest.mark.matrix(at_most=2)
def test_rows_of_a_table_are_onnx_runtime_s(kind: str, size: int, has_points: bool, tmp_path: Path) -> None:
    file = table(kind, size, has_points)
    feed = np.random.default_rng(1).integers(-ROWS, ROWS, (2, 5))
    theirs = values_of(file, ["y"], {"i": feed}, False)["y"]
    np.testing.assert_array_equal(run_reference(read_onnx(file, "table"), {"i": feed})["y"], theirs, strict=True)
    if (kind, size, has_points) == ("packed", 16, True):
        np.testing.assert_array_equal(compiled(file, tmp_path).run([feed])[0], theirs, strict=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gather_axis": 1}, "rows of a table of two axes"),
        ({"bits": 3}, "bits one of"),
        ({"block_size": 16}, "scales of f32"),
        ({"block_size": 0}, "its block_size must be"),
    ],
)
def test_other_tables_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_onnx(table("packed", **fields), "table")  # type: ignore[arg-type]


SHAPE = (2, 3, 12, 16)
RESIZES: list[tuple[str, str, int, tuple[int, int]]] = [
    (method, mode, excluded, size)
    for method in ("linear", "cubic")
    for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    for excluded in (0, 1)
    for size in ((5, 7), (17, 4), (13, 31), (12, 1))
    if size != (12, 1) or mode == "half_pixel"
]


@pytest.mark.parametrize(("method", "mode", "excluded", "size"), one_in(12, RESIZES))
@pytest.mark.matrix(at_most=2)
def test_images_are_resized_with_antialias(
    method: str, mode: str, excluded: int, size: tuple[int, int], tmp_path: Path
) -> None:
    w = IslandWriter(SHAPE)
    fields = {"mode": method, "coordinate_transformation_mode": mode, "exclude_outside": excluded, "antialias": 1}
    made = w.apply("Resize", w.data, "", "", np.array([*SHAPE[:2], *size]), **fields)
    assert_close(*outputs_of(w.file(made), tmp_path, {"x": feed_of(SHAPE)}))


@pytest.mark.thorough
def test_scales_of_a_resize_with_antialias(tmp_path: Path) -> None:
    w = IslandWriter(SHAPE)
    made = [
        w.apply("Resize", w.data, "", np.array([1, 1, 0.6, 0.3]), mode="linear", antialias=1),
        w.apply("Resize", w.data, "", np.array([0.6, 0.3]), mode="cubic", antialias=1, axes=[2, 3], cubic_coeff_a=-0.5),
    ]
    assert_close(*outputs_of(w.file(*made), tmp_path, {"x": feed_of(SHAPE)}))

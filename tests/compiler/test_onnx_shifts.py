"""BitShift of integers of all widths, compiled, beside ONNX Runtime and whole numbers of any length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.models.onnx_islands import GivenWriter, compiled
from tests.support.models.onnx_models import FILE_VERSION
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

# From this version on, integers may have signs; ONNX Runtime quantizes none of its values yet.
OPSET = 28
KINDS = [(np.int64, "LEFT"), (np.int64, "RIGHT")]
KINDS += [(dtype, way) for dtype in (np.int8, np.int16, np.int32, np.uint8, np.uint16) for way in ("LEFT", "RIGHT")]


def shifted(value: int, count: int, way: str, dtype: Any) -> int:
    """Wrapped to the type; at or beyond its bits, and for counts below 0, nothing but the sign is left."""
    bits = np.iinfo(dtype).bits
    count = count if 0 <= count < bits else bits
    made = value << count if way == "LEFT" else value >> count
    return int(np.array(made % 2**bits, np.uint64).astype(f"u{bits // 8}").view(dtype))


def theirs(values: Any, counts: Any, way: str) -> Any:
    """What ONNX Runtime makes of a BitShift alone."""
    element = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
    infos = [onnx.helper.make_tensor_value_info(name, element, values.shape) for name in "vcy"]
    node = onnx.helper.make_node("BitShift", ["v", "c"], ["y"], direction=way)
    graph = onnx.helper.make_graph([node], "g", infos[:2], infos[2:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=FILE_VERSION)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"v": values, "c": counts})[0]


@pytest.mark.parametrize(("dtype", "way"), one_in(6, KINDS))
def test_bits_are_shifted(dtype: Any, way: str, tmp_path: Path) -> None:
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    values = [
        *rng.integers(limits.min, limits.max, 40, dtype, endpoint=True),
        limits.min,
        limits.min + 1,
        limits.max,
        1,
    ]
    counts = [0, 1, limits.bits - 2, limits.bits - 1, limits.bits, limits.bits + 1, limits.min, limits.max, 3, 5]
    pairs = [(int(value), int(count)) for value in values for count in counts]
    first, second = (np.array([pair[at] for pair in pairs], dtype) for at in (0, 1))
    w = GivenWriter((2, 3))
    made = w.apply("BitShift", w.given("values", first), w.given("counts", second), direction=way)
    model = compiled(w.file(made, "d", opset=OPSET), tmp_path)
    found = dict(zip((form["name"] for form in model.about.outputs), model.run(_fed(w, model)), strict=True))[made]
    np.testing.assert_array_equal(found, np.array([shifted(*pair, way, dtype) for pair in pairs], dtype), strict=True)
    np.testing.assert_array_equal(found, theirs(first, second, way), strict=True)


def _fed(w: GivenWriter, model: Any) -> list[Any]:
    return [w.feeds[form["name"]] for form in model.about.inputs]

"""MatMulInteger of two computed matrices: an int8 layer for each pair, exact as ONNX Runtime's."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import Writer, values_of
from tests.support.models.onnx_products import DTYPES, Shape
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which products are compared with")
onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

ELEMENTS = {"u8": 2, "s8": 3}
COMPUTED = "computed"
Point = int | str | None
POINTS: list[tuple[Point, Point]] = [
    (COMPUTED, COMPUTED),
    (COMPUTED, 9),
    (COMPUTED, None),
    (100, COMPUTED),
    (None, COMPUTED),
    (3, 5),
]
SHAPES: list[tuple[Shape, Shape]] = [((2, 3, 5, 37), (2, 3, 37, 9)), ((5, 70), (70, 33)), ((3, 5, 7), (7, 9))]


def product_of_stored(
    shapes: tuple[Shape, Shape], types: tuple[str, str], points: tuple[Point, Point], made: str = "y", opset: int = 17
) -> bytes:
    """The product of inputs `x` and `w`; zero points that are computed are the inputs `xz` and `wz`."""
    writer = Writer(shapes[0])
    writer.inputs = []
    inputs = ["x", "w", "", ""]
    for at, (name, shape, element, point) in enumerate(zip("xw", shapes, types, points, strict=True)):
        writer.inputs.append(onnx.helper.make_tensor_value_info(name, ELEMENTS[element], shape))
        if point == COMPUTED:
            inputs[2 + at] = f"{name}z"
            writer.inputs.append(onnx.helper.make_tensor_value_info(f"{name}z", ELEMENTS[element], ()))
        elif point is not None:
            inputs[2 + at] = writer.constant(f"{name}z", point, DTYPES[element])
    while not inputs[-1]:
        inputs.pop()
    writer.node("MatMulInteger", inputs, made)
    data: bytes = writer.model(made, opset=opset).SerializeToString()
    return data


def feeds_of(shapes: tuple[Shape, Shape], types: tuple[str, str]) -> list[dict[str, Any]]:
    """Extremes of both matrices, and drawn ones, with all kinds of zero points."""
    rng, found = np.random.default_rng(0), []
    for draw in itertools.product(("least", "most", "drawn"), repeat=2):
        feeds: dict[str, Any] = {}
        for name, shape, element, how in zip("xw", shapes, types, draw, strict=True):
            limits = np.iinfo(DTYPES[element])
            drawn = rng.integers(limits.min, limits.max + 1, shape)
            whole = {"least": np.full(shape, limits.min), "most": np.full(shape, limits.max), "drawn": drawn}
            feeds[name] = whole[how].astype(DTYPES[element])
            feeds[f"{name}z"] = np.asarray(rng.choice([limits.min, limits.max, 77]), DTYPES[element])
        found.append(feeds)
    return found


def require_exact(file: bytes, made: str, feeds: list[dict[str, Any]], folder: Path) -> None:
    graph = read_onnx(file, "sums")
    assert [each.kind for each in graph.operators].count(Kind.MATMUL) == 1
    assert int8_share(graph) == 1.0
    (folder / made).mkdir()
    model = compiled(file, folder / made)
    for each in feeds:
        taken = {form["name"]: each[form["name"]] for form in model.about.inputs}
        (ours,) = model.run(list(taken.values()))
        np.testing.assert_array_equal(ours, values_of(file, [made], taken)[made])


@pytest.mark.parametrize(("first", "second"), one_in(3, POINTS))
@pytest.mark.parametrize(
    "types", [("u8", "u8"), pytest.param(("u8", "s8"), marks=pytest.mark.thorough), ("s8", "s8")], ids="".join
)
@pytest.mark.matrix(at_most=1)
def test_products_of_computed_matrices(types: Any, first: Point, second: Point, tmp_path: Path) -> None:
    points = first, second
    for at, shapes in enumerate(SHAPES[: 3 if points == (COMPUTED, COMPUTED) else 1]):
        file = product_of_stored(shapes, types, points, f"y{at}")
        require_exact(file, f"y{at}", feeds_of(shapes, types), tmp_path)


@pytest.mark.thorough
def test_names_of_the_file_are_not_those_of_the_correction(tmp_path: Path) -> None:
    """And axes of a ReduceSum are attributes before ONNX's operators of version 13."""
    for made in ("sums", "data", "point"):
        file = product_of_stored(SHAPES[0], ("u8", "u8"), (COMPUTED, COMPUTED), made, opset=12)
        require_exact(file, made, feeds_of(SHAPES[0], ("u8", "u8"))[-2:], tmp_path)


@pytest.mark.thorough
def test_attention_that_is_quantized_at_run_time(tmp_path: Path) -> None:
    """As ONNX Runtime's `quantize_dynamic` writes it with `MatMulConstBOnly=False`."""
    w = IslandWriter((2, 3, 5, 8))
    keys = w.apply("Transpose", w.apply("Exp", w.data), perm=[0, 1, 3, 2])
    scores = w.apply("Softmax", _dynamic_product(w, w.data, keys), axis=-1)
    file = w.file(_dynamic_product(w, scores, w.apply("Sin", w.data)))
    graph = read_onnx(file, "attention")
    assert [each.kind for each in graph.operators].count(Kind.MATMUL) == 2
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of((2, 3, 5, 8))}))


def _dynamic_product(w: IslandWriter, *names: str) -> str:
    stored = [w.apply("DynamicQuantizeLinear", name, outputs=3) for name in names]
    sums = w.apply("MatMulInteger", *stored, *(f"{name}.2" for name in stored))
    scale = w.apply("Mul", *(f"{name}.1" for name in stored))
    return w.apply("Mul", w.apply("Cast", sums, to=1), scale)

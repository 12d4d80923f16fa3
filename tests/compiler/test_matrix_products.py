"""Products of two quantized matrices: layers whose weights are packed at run time, exact as ONNX Runtime has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.matrices.packing import packing_of
from int8tune.compiler.model import read_model
from int8tune.compiler.movements_merged import with_movements_merged
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import network_of
from int8tune.compiler.schedule_choice import Schedules
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.schedules.numerics import DataType, Numerics, Requantize
from int8tune.schedules.workload import Dense
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_models import values_of
from tests.support.models.onnx_products import DTYPES, ProductWriter, Shape, Types, product
from tests.support.run.probes import any_target, host_target
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which products are compared with")

TYPES: list[Types] = [
    ("u8", "u8", (13, 200, 100)),
    ("s8", "s8", (-3, 0, 5)),
    ("u8", "s8", (0, 0, 128)),
    ("s8", "s8", (0, 7, 0)),
]
SHAPES: list[tuple[Shape, Shape]] = [
    ((1, 12, 128, 64), (1, 12, 64, 128)),
    ((3, 197, 197), (3, 197, 64)),
    ((2, 3, 5, 7), (7, 9)),
    ((5, 7), (2, 3, 7, 9)),
    ((2, 1, 5, 7), (1, 3, 7, 4)),
    ((5, 70), (70, 33)),
]
PROFILES = ("x86-amx", "x86-avx512vnni", "x86-avxvnni", "x86-avx2", "generic")


def run_both(
    file: bytes, feeds: dict[str, Any], folder: Path, profile: str, threads: int = 1
) -> tuple[Any, Any, Graph]:
    graph = with_movements_merged(read_onnx(file, "net"))
    target = replace(host_target(profile), threads=threads)
    library = folder / "model.so"
    compile_once(graph, target, library)
    model = CompiledModel(library)
    (made,) = model.run([feeds[form["name"]] for form in model.about.inputs])
    return made, values_of(file, graph.outputs, feeds)[graph.outputs[0]], graph


def feeds_of(*shapes: Shape) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in zip("xw", shapes, strict=False)}


@pytest.mark.parametrize("profile", one_in(3, PROFILES))
@pytest.mark.parametrize("types", TYPES, ids=["u8u8", "s8s8", "u8s8", "s8s8z"])
@pytest.mark.parametrize(("first", "second"), one_in(2, SHAPES))
@pytest.mark.matrix
def test_products_are_onnx_runtimes(first: Shape, second: Shape, types: Any, profile: str, tmp_path: Path) -> None:
    shapes = first, second
    ours, theirs, graph = run_both(product(shapes, types), feeds_of(*shapes), tmp_path, profile)
    assert Kind.MATMUL in {operator.kind for operator in graph.operators}
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("types", TYPES[:2], ids=["u8u8", "s8s8"])
def test_sums_become_numbers(types: Any, tmp_path: Path) -> None:
    ours, theirs, graph = run_both(product(SHAPES[0], types, False), feeds_of(*SHAPES[0]), tmp_path, PROFILES[1])
    assert Kind.MATMUL in {operator.kind for operator in graph.operators}
    np.testing.assert_allclose(ours, theirs, 1e-6, 1e-5)


@pytest.mark.parametrize("shapes", one_in(3, [(each,) for each in SHAPES[:3]]), ids=str)
def test_threads_share_the_matrices(shapes: Any, tmp_path: Path) -> None:
    ours, theirs, _ = run_both(product(shapes, TYPES[0]), feeds_of(*shapes), tmp_path, PROFILES[1], 2)
    np.testing.assert_array_equal(ours, theirs)


def test_heads_are_packed_where_they_lie(tmp_path: Path) -> None:
    """Keys [S, H, D] become [H, D, S]: no transposition of them is left."""
    writer = ProductWriter((2, 6, 40))
    shape = writer.constant("shape", [2, 6, 5, 8], np.int64)
    data = writer.node("Reshape", [writer.quantized("x", "u8", 120, 0.03), shape], "heads")
    queries = writer.node("Transpose", [data], "queries", perm=[0, 2, 1, 3])
    keys = writer.node("Transpose", [data], "keys", perm=[0, 2, 3, 1])
    writer.node("MatMul", [queries, keys], "y", "scores")
    file = writer.model(writer.quantized("y", "u8", 130, 0.07)).SerializeToString()
    ours, theirs, graph = run_both(file, feeds_of((2, 6, 40)), tmp_path, PROFILES[1])
    np.testing.assert_array_equal(ours, theirs)
    (found,) = [operator for operator in graph.operators if operator.kind is Kind.MATMUL]
    assert found.attributes["order"] == (0, 2, 3, 1)
    assert sum(operator.kind is Kind.TRANSPOSE for operator in graph.operators) == 1


def test_layers_are_counted_for_each_pair() -> None:
    network = network_of(read_onnx(product(SHAPES[0], TYPES[0]), "net"))
    (layer,) = network.layers
    assert (layer.count, layer.workload.data_shape, layer.workload.weight_shape) == (12, (128, 64), (128, 64))


@pytest.mark.parametrize("weight", ["u8", "s8"])
@pytest.mark.parametrize("profile", [*PROFILES, "arm-neon", "arm-dotprod"])
@pytest.mark.matrix(at_most=3)
def test_weights_are_packed_as_the_layout_packs_them(profile: str, weight: DataType) -> None:
    """Random weights, and extremes: a unit that is found by chance would differ."""
    target, zero_point = any_target(profile), 17
    for sizes in ((128, 64, 128), (197, 197, 64), (5, 7, 9), (33, 130, 70), (1, 1, 1)):
        numerics = Numerics("u8", weight, "u8", Requantize("float", False), weight_zero_point=True)
        workload = Dense(*sizes, numerics)
        choice = Schedules(target).choose(workload)
        layout = choice.template.apply(workload, target, choice.config).layout
        found = packing_of(workload, layout, zero_point)
        if found is None:
            assert profile.startswith("arm")
            continue
        bounds = np.iinfo(DTYPES[weight])
        for values in (np.full(workload.weight_shape, bounds.min), np.full(workload.weight_shape, bounds.max)):
            array = values.astype(DTYPES[weight])
            packed = np.ascontiguousarray(layout.pack(array, zero_point)).reshape(-1).view(np.int8)
            np.testing.assert_array_equal(found.pack(array), packed)


# TFLite: outputs and scales, of which the last ones saturate many values.
TFLITE_SCALES = [(0.02, 0.03, 0.011, 0), (0.02, 0.03, 0.05, -7), (1 / 256, 0.0173, 0.0009, 127)]


def tflite_product(
    shapes: tuple[Shape, Shape],
    turned: tuple[bool, bool],
    form: tuple[float, float, float, int],
    zero_points: tuple[int, int],
) -> tuple[bytes, tuple[Shape, Shape]]:
    """A BATCH_MATMUL, and the shapes of its inputs."""
    from tests.support.models import tflite_models

    writer = tflite_models.Writer()
    first, second = (
        (*shape[:-2], shape[-1], shape[-2]) if is_turned else shape
        for shape, is_turned in zip(shapes, turned, strict=True)
    )
    inputs = [
        writer.input(name, "s8", shape, scale, zero_point)
        for name, shape, scale, zero_point in zip("xw", (first, second), form, zero_points, strict=False)
    ]
    output = (*np.broadcast_shapes(first[:-2], second[:-2]), shapes[0][-2], shapes[1][-1])
    made = writer.tensor("y", "s8", output, form[2], form[3])
    writer.operator("BATCH_MATMUL", inputs, [made], "BatchMatMul", 4, adjX=turned[0], adjY=turned[1])
    return writer.model(made), (first, second)


@pytest.mark.matrix(at_most=2)
@pytest.mark.parametrize("turned", [(True, True), (False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("form", TFLITE_SCALES, ids=str)
@pytest.mark.parametrize("profile", one_in(3, PROFILES[1:4]))
def test_products_are_litert(profile: str, form: Any, turned: tuple[bool, bool], tmp_path: Path) -> None:
    from tests.support.models import tflite_models

    for index, shapes in enumerate((((2, 3, 17, 64), (2, 3, 64, 33)), ((1, 20, 70), (1, 70, 9)))):
        file, given = tflite_product(shapes, turned, form, (-11, 0 if index else 5))
        path = tmp_path / f"{index}.tflite"
        path.write_bytes(file)
        graph = read_model(path)
        assert [each.kind for each in graph.operators] == [*[Kind.TRANSPOSE] * turned[0], Kind.MATMUL]
        target, library = host_target(profile), tmp_path / f"{index}.so"
        compile_once(graph, target, library)
        rng = np.random.default_rng(index)
        inputs = [rng.integers(-128, 128, shape).astype(np.int8) for shape in given]
        feeds = dict(zip("xw", inputs, strict=True))
        expected = tflite_models.values_of(file, feeds)["y"]
        np.testing.assert_array_equal(CompiledModel(library).run(inputs)[0], expected)


def test_constant_first_matrices_are_turned_when_they_are_read(tmp_path: Path) -> None:
    from tests.support.models import tflite_models

    writer, values = tflite_models.Writer(), np.random.default_rng(0).integers(-128, 128, (1, 64, 17), np.int8)
    first = writer.constant("c", "s8", values, 0.02, -11)
    made = writer.tensor("y", "s8", (1, 17, 9), 0.011, 0)
    inputs = [first, writer.input("x", "s8", (1, 64, 9), 0.03, 5)]
    writer.operator("BATCH_MATMUL", inputs, [made], "BatchMatMul", 4, adjX=True)
    file = writer.model(made)
    graph = read_tflite(file, "product")
    assert [each.kind for each in graph.operators] == [Kind.MATMUL]
    compile_once(graph, host_target(), tmp_path / "y.so")
    given = np.random.default_rng(1).integers(-128, 128, (1, 64, 9)).astype(np.int8)
    expected = tflite_models.values_of(file, {"x": given})["y"]
    np.testing.assert_array_equal(CompiledModel(tmp_path / "y.so").run([given])[0], expected)

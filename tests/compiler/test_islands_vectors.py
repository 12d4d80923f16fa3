"""Kernels of islands that are written for vectors: what they have in the place of TVM's own, and what they compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.graph import Kind
from int8tune.compiler.islands.convolutions import Window
from int8tune.compiler.islands.emission import float_calls
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import Build, IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import values_of
from tests.support.run.probes import host_target
from tests.support.run.thinned import chosen

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(4)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def einsum(equation: str, *other: int) -> Build:
    return lambda w: w.apply("Einsum", w.data, normal(*other), equation=equation)


def resized(height: int, width: int, mode: str = "half_pixel") -> Build:
    sizes = np.array([2, 3, height, width])
    return lambda w: w.apply("Resize", w.data, "", "", sizes, mode="linear", coordinate_transformation_mode=mode)


def chosen_remainder(w: IslandWriter, divisor: int) -> str:
    """An int32 that a model itself chooses: of all that is, only what TVM's importer writes is a cast."""
    whole = w.apply("Cast", w.apply("Mul", w.data, 99.0), to=7)
    remainder = w.apply("Mod", whole, np.array(divisor, np.int64))
    chosen = w.apply("Where", w.apply("Greater", w.data, 0.5), np.array([77], np.int64), remainder)
    return w.apply("Cast", w.apply("Cast", chosen, to=6), to=1)


IMAGES = (2, 3, 5, 8)
# Of each kernel the shape of its data, the node, what its text has, and what it has not.
FORMS: dict[str, tuple[tuple[int, ...], Build, str, str]] = {
    "log": ((3, 40), lambda w: w.apply("Log", w.apply("Abs", w.data)), "reinterpret", "T.log("),
    "cube": ((3, 40), lambda w: w.apply("Pow", w.data, 3.0), "fma", "T.pow("),
    "silu": ((3, 40), lambda w: w.apply("Mul", w.data, w.apply("Sigmoid", w.data)), "T.Let(", "sblock_alloc_buffer"),
    "softplus": ((3, 40), lambda w: w.apply("Softplus", w.data), "log_of_one_and_power", "T.log("),
    "mish": ((3, 40), lambda w: w.apply("Mish", w.data), "tanh_of_softplus", "log_of_one_and_power"),
    "mish of its parts": (
        (3, 40),
        lambda w: w.apply("Mul", w.data, w.apply("Tanh", w.apply("Softplus", w.data))),
        "tanh_of_softplus",
        "log_of_one_and_power",
    ),
    "mish of other parts": (
        (3, 40),
        lambda w: w.apply("Mul", w.data, w.apply("Tanh", w.apply("Log", w.apply("Add", w.apply("Exp", w.data), 1.0)))),
        "tanh_of_softplus",
        "log_of_one_and_power",
    ),
    "another sum's logarithm": (
        (3, 40),
        lambda w: w.apply("Log", w.apply("Add", w.apply("Exp", w.data), 1.5)),
        "log",
        "log_of_one_and_power",
    ),
    "square": ((3, 40), lambda w: w.apply("Pow", w.data, 2.0), "fma", "T.pow("),
    "square root": ((3, 40), lambda w: w.apply("Pow", w.apply("Abs", w.data), 0.5), "T.sqrt(", "T.pow("),
    "three fourths": ((3, 40), lambda w: w.apply("Pow", w.apply("Abs", w.data), 0.75), "T.sqrt(", "T.pow("),
    "neighbouring channels": ((2, 9, 4, 8), lambda w: w.apply("LRN", w.data, size=5), "T.sqrt(", "T.pow("),
    "squares of rows": ((3, 40), lambda w: w.apply("ReduceL2", w.data, np.array([-1])), "row_mean", "fma"),
    "mean squares of rows": (
        (3, 40),
        lambda w: w.apply("ReduceMean", w.apply("Pow", w.data, 2.0), np.array([-1])),
        "row_mean",
        "fma",
    ),
    "squares of other axes": ((3, 40, 2), lambda w: w.apply("ReduceL2", w.data, np.array([1])), "fma", "row_mean"),
    "whole numbers": (
        (3, 40),
        lambda w: w.apply("Cast", w.apply("Cast", w.apply("Mul", w.data, 9.0), to=6), to=1),
        "T.Select(",
        "isfinite",
    ),
    "whole numbers of another choice": ((3, 40), lambda w: chosen_remainder(w, 5), "floor_mod", "integer"),
    "whole numbers that wrap elsewhere": ((3, 40), lambda w: chosen_remainder(w, 2**32), "floor_mod", "integer"),
    "whole bytes": (
        (3, 40),
        lambda w: w.apply("Cast", w.apply("Cast", w.apply("Mul", w.data, 9.0), to=3), to=1),
        "isfinite",
        "integer",
    ),
    "sine": ((3, 100), lambda w: w.apply("Sin", w.data), "fma", "T.tan("),
    "cosine": ((3, 100), lambda w: w.apply("Cos", w.data), "fma", "T.tan("),
    "few sines": ((3, 7), lambda w: w.apply("Sin", w.data), "fma", "T.tan("),
    "log softmax": ((5, 47), lambda w: w.apply("LogSoftmax", w.data, axis=-1), "T.vectorized(", "T.exp("),
    "log softmax of channels": ((2, 5, 3, 7), lambda w: w.apply("LogSoftmax", w.data, axis=1), "T.Let(", "T.exp("),
    "softmax of channels": ((2, 5, 3, 7), lambda w: w.apply("Softmax", w.data, axis=1), "T.Let(", "T.exp("),
    "softmax of few columns": ((2, 5, 3), lambda w: w.apply("Softmax", w.data, axis=1), "T_softmax", "powers"),
    "instance normalization": (
        (2, 6, 9, 11),
        lambda w: w.apply("InstanceNormalization", w.data, normal(6), normal(6)),
        "row_squares",
        "T.pow(",
    ),
    "bytes at run time": (
        (3, 40),
        lambda w: w.apply("Cast", w.apply("DynamicQuantizeLinear", w.data, outputs=3), to=1),
        "T.nearbyint(",
        "T.isnan(",
    ),
    "bytes of computed scales": (
        (3, 40),
        lambda w: w.apply(
            "Cast", w.apply("QuantizeLinear", w.data, w.apply("Exp", w.apply("ReduceMean", w.data, keepdims=0))), to=1
        ),
        "T.nearbyint(",
        "T.isnan(",
    ),
    "groups": (
        (1, 12, 9, 10),
        lambda w: w.apply("Conv", w.data, normal(8, 3, 3, 3), normal(8), group=4, pads=[1] * 4),
        "products_",
        "group_conv",
    ),
    "larger images": (IMAGES, resized(11, 16), "across_rows", "T.floor("),
    "smaller images": (IMAGES, resized(3, 5), "across_rows", "T.floor("),
    "one row": (IMAGES, resized(1, 8), "across_rows", "T.floor("),
    "images by corners": (IMAGES, resized(9, 15, "align_corners"), "across_rows", "T.floor("),
    "images from the first pixel": (IMAGES, resized(10, 24, "asymmetric"), "across_rows", "T.floor("),
    "slopes of channels": ((1, 6, 4, 5), lambda w: w.apply("PRelu", w.data, normal(6, 1, 1)), "T.Let(", "x * "),
    "one slope": ((3, 40), lambda w: w.apply("PRelu", w.data, normal(1)), "T.Let(", "x * "),
    "window": (
        (1, 3, 11, 24),
        lambda w: w.apply("MaxPool", w.apply("Exp", w.data), kernel_shape=[3, 3], pads=[1] * 4),
        "T.vectorized(",
        "pool_max[v_ax0, v_ax1, v_ax2, v_ax3], T.if_then_else",
    ),
    "means of a window": (
        (1, 3, 11, 24),
        lambda w: w.apply("AveragePool", w.data, kernel_shape=[3, 3], pads=[1] * 4),
        "T.vectorized(",
        "pool_sum[v_ax0, v_ax1, v_ax2, v_ax3] + T.if_then_else",
    ),
    "few rows with a number": (
        (3, 5, 16),
        lambda w: w.apply(
            "ReduceSum", w.apply("Mul", w.data, w.apply("ReduceMax", w.data, keepdims=0)), np.array([1]), keepdims=0
        ),
        "T.vectorized(",
        "T.pow(",
    ),
    "rows far apart": (
        (1, 4, 9, 32),
        lambda w: w.apply("MaxPool", w.apply("Exp", w.data), kernel_shape=[2, 2], strides=[2, 2]),
        "pool_max",
        "T.vectorized(",
    ),
    "scores": ((3, 5, 16), einsum("bij,bkj->bik", 3, 7, 16), "products_", "einsum"),
    "product of turned sides": ((5, 3, 16), einsum("ibj,jk->kib", 16, 4), "products_", "einsum"),
    "several axes": ((2, 3, 4, 5), einsum("abcd,ecbf->aefd", 6, 4, 3, 7), "products_", "einsum"),
    "one number": ((4, 6), einsum("ij,ij->", 4, 6), "products_", "einsum"),
    "no product": ((4, 6), einsum("ij,ij->ij", 4, 6), "einsum", "products_"),
    "a diagonal": ((4, 4), einsum("ii,ij->j", 4, 6), "einsum", "products_"),
    "two sums": ((4, 6), einsum("ij,kl->ik", 3, 5), "einsum", "products_"),
    "spread rows": ((4, 1), einsum("ij,jk->ik", 6, 5), "einsum", "products_"),
}
# Their kernels are written as another form's here, or are compared with exact numbers below.
ALIKE = {
    "log",
    "cube",
    "softplus",
    "mish of its parts",
    "mish of other parts",
    "another sum's logarithm",
    "square",
    "three fourths",
    "mean squares of rows",
    "whole numbers that wrap elsewhere",
    "sine",
    "cosine",
    "log softmax of channels",
    "bytes of computed scales",
    "smaller images",
    "images by corners",
    "images from the first pixel",
    "one slope",
    "means of a window",
    "rows far apart",
    "product of turned sides",
    "one number",
    "two sums",
    "spread rows",
}


def file_of(name: str) -> bytes:
    shape, build, *_ = FORMS[name]
    w = IslandWriter(shape)
    w.data = "x"
    return w.file(build(w), w.apply("Neg", "x"))


def text_of(file: bytes) -> str:
    graph, calls = read_onnx(file, "island"), list[Any]()
    for operator in graph.operators:
        calls += float_calls(graph, operator, host_target("generic")) if operator.kind is Kind.FLOAT else []
    return "\n".join(f"{call.name}\n{call.function.script()}" for call in calls if call.function is not None)


@pytest.mark.parametrize("name", FORMS)
def test_a_kernel_is_the_one_for_vectors(name: str) -> None:
    *_, has, lacks = FORMS[name]
    text = text_of(file_of(name))
    assert has in text
    assert lacks not in text


@pytest.mark.parametrize("name", chosen(FORMS, lambda name: name not in ALIKE))
@pytest.mark.matrix(at_most=9)
def test_a_kernel_computes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    assert_close(*outputs_of(file_of(name), tmp_path, {"x": feed_of(FORMS[name][0])}))


@pytest.mark.thorough
@pytest.mark.parametrize("profile", ["x86-avx2", "generic"])
@pytest.mark.parametrize("name", FORMS)
def test_kernels_of_other_targets(name: str, profile: str, tmp_path: Path) -> None:
    file, feed = file_of(name), feed_of(FORMS[name][0])
    model = compiled(file, tmp_path, host_target(profile))
    names = [form["name"] for form in model.about.outputs]
    assert_close(dict(zip(names, model.run([feed]), strict=True)), values_of(file, names, feed))


def test_bands_of_an_image_are_whole_tiles_where_they_can_be() -> None:
    first = Window(1, 3, (224, 224), 64, (7, 7), (2, 2), (1, 1), (3, 3), (3, 3), (112, 112))
    assert 112 // first.bands * 112 % 64 == 0
    few = replace(first, channels=32, kernel=(5, 5), output=(28, 28))
    assert few.bands == 4
    assert replace(first, batch=2).bands == 2


def test_softplus_and_its_tangent_of_all_sizes(tmp_path: Path) -> None:
    """As near to the truth as the sum of 1 and e^x lets them be, and what they are of numbers that have no e^x."""
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 88.0, 89.0, 3e38, -3e38, -87.4, -104.0, 20.0, 20.1, 9.1])
    feed = np.concatenate([np.linspace(-30, 30, 1 << 14), odd]).astype(np.float32)[None]
    w = IslandWriter(feed.shape)
    soft = w.apply("Softplus", "x")
    ours, _ = outputs_of(w.file(soft, tangent := w.apply("Tanh", soft), w.data), tmp_path, {"x": feed})
    with np.errstate(invalid="ignore"):
        exact = np.logaddexp(0.0, feed.astype(np.float64))
    np.testing.assert_allclose(ours[soft], exact, 4e-7, 2.0**-24)
    np.testing.assert_allclose(ours[tangent], np.tanh(exact), 6e-7, 2.0**-149)


@pytest.mark.parametrize("function", ["Sin", "Cos"])
def test_sines_of_all_sizes(function: str, tmp_path: Path) -> None:
    """Also of parts with a number that is too large for vectors, or none, and of the last one, which overlaps."""
    random = np.random.default_rng(2)
    near = [np.arange(-400, 400) * np.pi / 2 + step for step in (-1e-4, 0.0, 1e-4)]
    usual = [random.uniform(-10, 10, 3000), random.uniform(-1e6, 1e6, 3000), random.uniform(-1e9, 1e9, 3000), *near]
    odd = [0.0, -0.0, 2.0**30, -(2.0**30), 3e38, -3e38, 1e-45, 1e15, np.inf, -np.inf, np.nan]
    feed = np.concatenate([*usual, odd]).astype(np.float32)[None]
    w = IslandWriter(feed.shape)
    ours, _ = outputs_of(w.file(name := w.apply(function, "x"), w.data), tmp_path, {"x": feed})
    with np.errstate(invalid="ignore"):
        exact = getattr(np, function.lower())(feed.astype(np.float64))
    np.testing.assert_allclose(ours[name], exact, 3e-7, 2.0**-40)
    if function == "Sin":
        assert np.signbit(ours[name][feed == 0]).tolist() == [False, False, True]


def test_numbers_that_are_no_int32_are_converted_as_there(tmp_path: Path) -> None:
    odd = [np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31, -(2.0**31), 2147483520.0, -2147483904.0, -0.9, 0.9, 1e-40]
    w = IslandWriter((1, len(odd)))
    name = w.apply("Cast", "x", to=6)
    ours, theirs = outputs_of(w.file(name, w.data), tmp_path, {"x": np.array([odd], np.float32)})
    np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.parametrize("exponent", [0.5, 0.75, 2.0, 3.0])
def test_powers_of_numbers_that_have_none(exponent: float, tmp_path: Path) -> None:
    odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, -2.0, 3.0, 3e38, 1e-30]
    w = IslandWriter((1, len(odd)))
    name = w.apply("Pow", "x", exponent)
    ours, theirs = outputs_of(w.file(name, w.data), tmp_path, {"x": np.array([odd], np.float32)})
    np.testing.assert_allclose(ours[name], theirs[name], 4e-7)


def test_logarithms_of_all_sizes(tmp_path: Path) -> None:
    """Normal numbers, those below them, and those that have none."""
    bits = np.random.default_rng(1).integers(0, 0x7F800000, 1 << 16, dtype=np.uint32)
    near = 1 + np.arange(-64, 64, dtype=np.float32) / 2**20
    odd = np.array([0.0, -0.0, -1.0, -np.inf, np.inf, np.nan, 1.0, 1e-45, 2**-126, 3.4e38, 2**0.5, 0.5**0.5])
    feed = np.concatenate([bits.view(np.float32), near, odd.astype(np.float32)])[None]
    w = IslandWriter(feed.shape)
    ours, _ = outputs_of(w.file(name := w.apply("Log", "x"), w.data), tmp_path, {"x": feed})
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log(feed.astype(np.float64))
    is_finite = np.isfinite(exact)
    np.testing.assert_array_equal(ours[name][~is_finite], exact[~is_finite])
    error = np.abs(ours[name][is_finite].astype(np.float64) - exact[is_finite])
    assert (error / np.spacing(np.abs(exact[is_finite]).astype(np.float32))).max() < 2

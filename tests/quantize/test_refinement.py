"""What brings a quantized model nearer to its float model: channels made alike, weights rounded by outputs, biases."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.blas_threads import one_blas_thread
from int8tune.quantize.equalization import equalized
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.layer_samples import drawn_rows, groups_of, mean_row, views_of
from int8tune.quantize.least_squares import moments_of, rounded
from int8tune.quantize.prepared import prepared
from int8tune.quantize.tensors import initializer_arrays
from int8tune.quantize.weights import layers_of
from tests.support.models.float_models import pictures, run, saved, small, sqnr_db
from tests.support.models.onnx_models import Writer, onnx
from tests.support.models.shared_quant import NETWORKS, float_model, inputs_of

PLAIN = {"equalize": False, "round_weights": False, "bias_correction": False}
# The best of ONNX Runtime's and of NNCF's signal to noise, in dB, of 200 calibration inputs.
BEST_OF_OTHERS = {"dscnn": 31.2, "resnet8": 31.8, "resnet8_large": 31.3, "mobilenet_v2_cifar": 33.1, "vww": 25.8}
GAIN_DB = 2.0


def uneven() -> Any:
    """A separable network whose channels have very different ranges, and readers that make up for that."""
    writer = Writer(["n", 3, 8, 8])
    data = writer.node("Relu", [writer.conv("x", "stem", (8, 3, 3, 3), pads=[1] * 4)], "a", "relu1")
    data = writer.node("Relu", [writer.conv(data, "depthwise", (8, 1, 3, 3), group=8, pads=[1] * 4)], "b", "relu2")
    data = writer.node("Relu", [writer.conv(data, "pointwise", (8, 8, 1, 1))], "c", "relu3")
    total = writer.node("Add", [writer.conv(data, "body", (8, 8, 3, 3), pads=[1] * 4), data], "sum", "add")
    data = writer.node("Relu", [total], "d", "relu4")
    model = writer.model(writer.conv(data, "last", (4, 8, 1, 1)))
    scales = np.geomspace(0.02, 1, 8).astype(np.float32)
    made = {"stem.w": scales.reshape(-1, 1, 1, 1), "stem.b": scales, "depthwise.b": scales}
    factors = made | {"pointwise.w": 1 / scales.reshape(1, -1, 1, 1)}
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor) * factors.get(tensor.name, np.float32(1))
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return model


def test_equalization_changes_channels_and_no_output(tmp_path: Path) -> None:
    file = saved(uneven(), tmp_path)
    ranges = it.profile(file, pictures(8)).ranges.tensors
    proto, factors = equalized(prepared(read_float_model(file)).proto, ranges)
    assert {"a", "b"} <= set(factors)
    assert not {"x", "last.y"} & set(factors)
    right = run(file, pictures(8))
    np.testing.assert_allclose(run(proto, pictures(8)), right, rtol=1e-4, atol=1e-5 * np.abs(right).max())
    after = it.profile(saved(proto, tmp_path, "e.onnx"), pictures(8)).ranges.tensors
    for name, factor in factors.items():
        before = np.asarray(ranges[name].channel_maximum) * factor
        np.testing.assert_allclose(after[name].channel_maximum, before, rtol=1e-3, atol=1e-5)


def test_equalization_stops_at_a_clip(tmp_path: Path) -> None:
    writer = Writer(["n", 3, 8, 8])
    data = writer.conv("x", "stem", (8, 3, 3, 3), pads=[1] * 4)
    bounds = [writer.constant("low", 0.0), writer.constant("high", 0.5)]
    data = writer.node("Clip", [data, *bounds], "clipped", "clip")
    file = saved(writer.model(writer.conv(data, "last", (4, 8, 1, 1))), tmp_path)
    assert equalized(prepared(read_float_model(file)).proto, it.profile(file, pictures(4)).ranges.tensors)[1] == {}


def test_each_step_brings_the_outputs_nearer(tmp_path: Path) -> None:
    file = saved(uneven(), tmp_path)
    samples, others = pictures(64), pictures(64, seed=1)

    def apart_db(**options: bool) -> float:
        return sqnr_db(run(file, others), run(it.quantize(file, samples, **(PLAIN | options)).proto, others))

    plain = apart_db()
    assert apart_db(equalize=True) > plain + 3
    assert apart_db(round_weights=True, bias_correction=True) > plain
    assert apart_db(equalize=True, round_weights=True, bias_correction=True) > apart_db(equalize=True) + 0.5


def test_bias_correction_takes_up_the_mean_error(tmp_path: Path) -> None:
    file = saved(small(), tmp_path)
    samples = pictures(64)
    right = run(file, samples).mean(axis=0)
    errors = [
        np.abs(
            run(it.quantize(file, samples, **(PLAIN | {"bias_correction": each})).proto, samples).mean(axis=0) - right
        )
        for each in (False, True)
    ]
    assert errors[1].mean() < errors[0].mean() / 2


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 0, 2, 1], "strides": [2, 1]},
        {"dilations": [2, 1], "pads": [1] * 4},
        {"group": 2, "auto_pad": "VALID"},
        {"group": 4, "pads": [1] * 4},
    ],
    ids=str,
)
def test_rows_are_what_a_convolution_multiplies(attributes: dict[str, Any], tmp_path: Path) -> None:
    groups = attributes.get("group", 1)
    writer = Writer(["n", 4, 7, 6])
    model = writer.model(writer.conv("x", "c", (8, 4 // groups, 3, 3), bias=False, **attributes))
    data = np.random.default_rng(3).standard_normal((2, 4, 7, 6)).astype(np.float32)
    right = run(saved(model, tmp_path), data)
    (layer,) = layers_of(model.graph)
    weight = initializer_arrays(model.graph)["c.w"]
    views = views_of(layer, weight, data)
    assert views is not None
    rows = drawn_rows(views, groups_of(layer), 10**6, 0)
    made = np.einsum("gri,goi->rgo", rows, weight.reshape(groups, 8 // groups, -1)).reshape(2, *right.shape[2:], 8)
    np.testing.assert_allclose(np.moveaxis(made, -1, 1), right, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean_row(views, groups), rows.mean(axis=1), atol=1e-6)
    assert drawn_rows(views, groups, 5, 0).shape[:2] == (groups, 5)


def test_padding_that_is_left_to_the_runtime_is_not_guessed() -> None:
    writer = Writer(["n", 4, 7, 6])
    model = writer.model(writer.conv("x", "c", (8, 4, 3, 3), auto_pad="SAME_UPPER"))
    (layer,) = layers_of(model.graph)
    assert views_of(layer, initializer_arrays(model.graph)["c.w"], np.zeros((1, 4, 7, 6), np.float32)) is None


def test_rounding_is_near_the_best_of_all_and_better_than_the_nearest() -> None:
    rng = np.random.default_rng(5)
    logs = []
    steps = np.asarray(list(itertools.product(range(-2, 4), repeat=5)))
    for _ in range(20):
        rows = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 5))
        weights, scale = rng.standard_normal(5), 0.25
        moments = rows.T @ rows / len(rows)
        candidates = [
            rounded(weights[None], np.asarray([scale]), moments_of(rows, None), -128, 127),
            np.rint(weights / scale)[None],
            np.floor(weights / scale) + steps,
        ]
        errors = [weights - each * scale for each in candidates]
        logs.append([np.log(np.einsum("ni,ij,nj->n", each, moments, each).min()) for each in errors])
    seen, nearest, least = np.mean(logs, axis=0)
    assert least - 1e-9 <= seen < nearest - 0.3
    assert seen - least < (nearest - least) / 2


def test_rounded_numbers_stay_within_their_type() -> None:
    weights = np.full((2, 70), 5.0)
    rows = np.random.default_rng(0).standard_normal((100, 70))
    found = rounded(weights, np.asarray([0.01, 1.0]), moments_of(rows, rows.mean(axis=0)), -128, 127)
    assert found.max() == 127
    np.testing.assert_array_equal(found[1], 5)


def test_dead_inputs_are_rounded_to_the_nearest() -> None:
    found = rounded(np.asarray([[0.4, 1.6]]), np.ones(1), np.zeros((2, 2)), -128, 127)
    np.testing.assert_array_equal(found, [[0, 2]])


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_trained_networks_are_nearer_than_by_other_tools() -> None:
    gains = []
    for network in NETWORKS:
        made = it.quantize(float_model(network), inputs_of(network, "calibration")[:200])
        test = inputs_of(network, "test")[:800]
        gains.append(sqnr_db(run(float_model(network), test), run(made.proto, test)) - BEST_OF_OTHERS[network])
    assert min(gains) > 0
    assert np.mean(gains) > GAIN_DB


def test_linear_algebra_has_one_thread_and_then_what_it_had() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="needs the extra `quantize`")

    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}

"""Thresholds beside plainer ways to the same: loops over bins, values themselves, ONNX Runtime's published form."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.options import Calibration, Method, Options, calibration_named
from int8tune.quantize.ranges import BINS, TensorRange
from int8tune.quantize.statistics import Extremes, Histogram, tensor_range
from int8tune.quantize.tensors import Producer
from int8tune.quantize.thresholds import (
    KL_LEVELS,
    kl_divergence,
    kl_threshold,
    mse_threshold,
    percentile_threshold,
    threshold,
)

A_VALUE = 1.5 / 60_000
RNG = np.random.default_rng(7)
LAPLACE = RNG.laplace(0, 1, 60_000).astype(np.float32)
RELU = np.maximum(RNG.laplace(0.2, 1, 60_000), 0).astype(np.float32)
SHIFTED = (RNG.standard_normal(60_000) * 2 + 3).astype(np.float32)


def range_of(values: np.ndarray) -> TensorRange:
    extremes = Extremes()
    extremes.add(values.reshape(1, -1))
    histogram = Histogram(extremes)
    histogram.add(values)
    return tensor_range("t", Producer("Conv", "c"), extremes, histogram)


def published_kl(histogram: Sequence[int]) -> tuple[int, list[float]]:
    """The algorithm of Migacz's slides, line by line: how many bins are kept, and each divergence."""
    divergences = []
    for i in range(KL_LEVELS, len(histogram) + 1):
        reference = list(histogram[:i])
        reference[i - 1] += sum(histogram[i:])
        expanded = [0.0] * i
        for level in range(KL_LEVELS):
            bins = [b for b in range(i) if b * KL_LEVELS // i == level]
            occupied = [b for b in bins if histogram[b]]
            for b in occupied:
                expanded[b] = sum(histogram[c] for c in bins) / len(occupied)
        p_sum, q_sum = sum(reference), sum(expanded)
        divergence = 0.0
        for p, q in zip(reference, expanded, strict=True):
            if p:
                divergence += p / p_sum * math.log(p / p_sum / (q / q_sum)) if q else math.inf
        divergences.append(divergence)
    return KL_LEVELS + divergences.index(min(divergences)), divergences


def test_kl_is_the_published_algorithm() -> None:
    counts = np.histogram(np.abs(LAPLACE[:3000]), 300)[0]
    expected, divergences = published_kl([int(count) for count in counts])
    seen = [kl_divergence(counts, bins) for bins in range(KL_LEVELS, len(counts) + 1)]
    np.testing.assert_allclose(seen, divergences, rtol=1e-9)
    assert KL_LEVELS < expected < len(counts)


@pytest.mark.thorough
def test_kl_chooses_as_an_implementation_of_another_library() -> None:
    """ONNX Runtime's function has the form of MXNet's, around zero: with 255 levels of both signs, as published."""
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate", reason="needs the extra `quantize`")
    collector = calibrate.HistogramCollector("entropy", False, 4095, 255, 99.99, "same")
    values = np.concatenate([LAPLACE, -LAPLACE])
    largest = float(np.abs(values).max())
    counts, edges = np.histogram(values, 4095, (-largest, largest))
    _, high = collector.get_entropy_threshold((counts, edges, -largest, largest, largest), 255)[:2]
    ours = kl_threshold(range_of(values)).high
    assert 0.5 * largest < ours < largest
    assert ours == pytest.approx(float(np.asarray(high).item()), rel=0.25)


def test_kl_of_a_relu_does_not_count_its_zeros() -> None:
    found = kl_threshold(range_of(RELU))
    without = kl_threshold(range_of(np.append(RELU[RELU > 0], np.float32(0))))
    assert found.low == 0
    assert found.high == pytest.approx(without.high, rel=0.02)
    assert found.high > RELU.max() / 4


def error_of(values: np.ndarray, low: float, high: float) -> float:
    """The mean squared error of values rounded to 256 levels."""
    step = (high - low) / 255
    zero = round(-low / step)
    rounded = (np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step
    return float(((values - rounded) ** 2).mean())


@pytest.mark.parametrize("values", [LAPLACE, RELU, SHIFTED], ids=["laplace", "relu", "shifted"])
def test_mse_is_the_least_that_a_search_on_the_values_finds(values: np.ndarray) -> None:
    found = mse_threshold(range_of(values))
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    shares = np.linspace(0.3, 1, 36)
    lows = low * shares if low < 0 else np.zeros(1)
    least = min(error_of(values, each, other) for each in lows for other in high * shares)
    assert error_of(values, found.low, found.high) <= least * 1.03
    assert error_of(values, found.low, found.high) < error_of(values, low, high)


def test_a_range_of_the_same_values_in_another_unit_is_the_same() -> None:
    """One clipped value more or less decides here, by the part of the squared error that rounded values make."""
    values = np.random.default_rng(97).standard_t(5, 500).astype(np.float32)
    for calibration in map(Calibration, Method):
        small, large = (threshold(range_of(values * np.float32(2.0**by)), calibration) for by in (-12, 12))
        assert (large.low, large.high) == (small.low * 2.0**24, small.high * 2.0**24)


def test_symmetric_ranges_are_as_far_below_zero_as_above() -> None:
    for calibration in map(Calibration, Method):
        found = threshold(range_of(SHIFTED), calibration, symmetric=True)
        assert found.low == -found.high < 0


@pytest.mark.parametrize("percent", [99.0, 99.9, 100.0])
def test_percentiles_have_as_many_values_outside_on_both_sides(percent: float) -> None:
    found = percentile_threshold(range_of(LAPLACE), percent)
    width = (float(LAPLACE.max()) - float(LAPLACE.min())) / BINS
    outside = (1 - percent / 100) / 2
    for sign, end in ((1, found.low), (-1, found.high)):
        values = sign * LAPLACE
        below, within_a_bin = ((values < sign * end + shift).mean() for shift in (-1e-5, 1.01 * width))
        assert below - A_VALUE <= outside <= within_a_bin + A_VALUE


@pytest.mark.parametrize("calibration", [Calibration(method) for method in Method], ids=str)
@pytest.mark.parametrize("value", [0.0, 3.5, -2.0])
def test_constant_tensors_have_a_range_with_zero(calibration: Calibration, value: float) -> None:
    found = threshold(range_of(np.full(50, value, np.float32)), calibration)
    assert found == (min(0.0, value), max(0.0, value))


def test_methods_by_name() -> None:
    assert calibration_named("mse") == Calibration()
    assert calibration_named("percentile:99.9") == Calibration(Method.PERCENTILE, 99.9)
    assert str(calibration_named("percentile")) == "percentile:99.999"
    for text in ("entropy", "mse:3", "percentile:", "percentile:50", "percentile:1e2", "percentile:nan"):
        with pytest.raises(QuantizeSpecError):
            calibration_named(text)
    with pytest.raises(QuantizeSpecError, match="add --per-tensor"):
        Options(weight_zero_points=True)

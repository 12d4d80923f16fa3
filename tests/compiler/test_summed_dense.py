"""Dense layers of TFLite that no rounding of a template computes are LiteRT's in every bit all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler import fused_graph
from int8tune.compiler.fused_graph import with_fused_rules
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.rounding.staircases import ExactStaircase, FixedStaircase
from int8tune.compiler.summed_dense import needs_sums
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.target import Target
from tests.support.models.compiled import assert_exact

pytest.importorskip("tflite", reason="needs the extra `models`")

from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_models import Writer, values_of

ROWS, DEPTH, CHANNELS = 3, 40, 96
RELU = 1


def dense(seed: int, kind: str = "s8", activation: int = 0, has_sum: bool = False, depth: int = DEPTH) -> bytes:
    """A layer whose sums are near ties: each channel has a scale of its own, and biases are thresholds."""
    rng, w, zero = np.random.default_rng(seed), Writer(), 128 if kind == "u8" else 0
    data_scale, output_scale = np.float32(0.04), np.float32(0.07)
    scales = (10.0 ** rng.uniform(-5, -2.5, CHANNELS if kind == "s8" else 1)).astype(np.float32)
    factors = np.broadcast_to(float(data_scale) * scales.astype(float) / float(output_scale), CHANNELS)
    thresholds = np.rint((rng.integers(-60, 60, CHANNELS) + 0.5) / factors) + rng.integers(-1, 2, CHANNELS)
    most = 4 if depth == DEPTH else 128
    stored = (
        np.where(rng.random((CHANNELS, depth)) < most / 40, rng.integers(1 - most, most, (CHANNELS, depth)), 0) + zero
    )
    data = w.input("x", kind, (ROWS, depth), float(data_scale), zero + 5)
    weights = w.constant("w", kind, stored, float(scales[0]), zero)
    biases = w.constant(
        "b", "s32", np.clip(thresholds, -(2**24), 2**24).astype(np.int32), float(data_scale * scales[0])
    )
    w.tensors[weights].quantization.scale, w.tensors[biases].quantization.scale = (
        list(map(float, scales)),
        [float(data_scale * each) for each in scales],
    )
    for each in (weights, biases):
        w.tensors[each].quantization.zeroPoint = [zero if each == weights else 0] * len(scales)
    made = w.tensor("y", kind, (ROWS, CHANNELS), float(output_scale), zero - 9)
    fields = {"fusedActivationFunction": activation}
    w.operator("FULLY_CONNECTED", [data, weights, biases], [made], "FullyConnected", 5, **fields)
    if has_sum:
        other = w.input("other", kind, (ROWS, CHANNELS), 0.05, zero)
        summed = w.tensor("sum", kind, (ROWS, CHANNELS), 0.09, zero)
        w.operator("ADD", [made, other], [summed], "Add", 2)
        made = summed
    return w.model(made)


def feeds_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    limits = {name: np.iinfo(graph.values[name].type.replace("u", "uint").replace("s", "int")) for name in graph.inputs}
    return {
        name: rng.integers(limit.min, limit.max + 1, graph.values[name].shape).astype(limit.dtype)
        for name, limit in limits.items()
    }


@pytest.mark.parametrize(
    ("kind", "activation", "has_sum"), [("s8", 0, False), ("s8", RELU, False), ("u8", 0, False), ("s8", 0, True)]
)
def test_sums_near_ties_are_rounded_as_by_litert(
    kind: str, activation: int, has_sum: bool, native: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_graph, "fused_rounding", lambda _: None)
    for seed in range(3):
        file = dense(seed, kind, activation, has_sum)
        graph = with_fused_rules(read_tflite(file, "dense"))
        assert [each.kind for each in graph.operators][:2] == [Kind.DENSE, Kind.WORD_SUMS]
        assert [layer.workload.numerics.output for layer in quantized_layers(graph)] == ["s32"]
        feeds = feeds_of(graph, seed)
        (folder := tmp_path / str(seed)).mkdir()
        ours, theirs = assert_exact(graph, native, feeds, folder), values_of(file, feeds)
        for name in ("y", *(["sum"] if has_sum else [])):
            np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)


def test_a_layer_for_which_no_fused_rounding_is_found_becomes_sums(native: Target, tmp_path: Path) -> None:
    """Binary32 does not have all sums of so many products."""
    file = dense(0, depth=2048)
    graph = with_fused_rules(read_tflite(file, "dense"))
    assert [each.kind for each in graph.operators] == [Kind.DENSE, Kind.WORD_SUMS]
    feeds = feeds_of(graph, 0)
    ours = assert_exact(graph, native, feeds, tmp_path)
    np.testing.assert_array_equal(ours["y"], values_of(file, feeds)["y"], strict=True)


@pytest.mark.parametrize("seed", range(40))
def test_sums_are_needed_where_the_fixed_rule_moves_an_output(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = 2.0 ** rng.uniform(-9, -1, 2)
    multiplier, shift = np.array([quantize_multiplier(float(each)) for each in factor], np.int64).T
    ends = np.sort(rng.integers(-3000, 3000, (2, 2)), axis=0) // (1 if seed % 2 else 40)
    exact = ExactStaircase(-128, 127, ends[0], ends[1], factor)
    fixed = FixedStaircase(-128, 127, ends[0], ends[1], multiplier, shift)
    moved = False
    for channel in range(2):
        at = np.array([channel == 0, channel == 1])
        sums = np.arange(ends[0][channel], ends[1][channel] + 1)[None]
        moved |= bool((exact.part(at).outputs(sums) != fixed.part(at).outputs(sums)).any())
    assert needs_sums(exact, fixed) == moved


def test_products_beyond_what_the_operator_saturates_to_stay_as_they_are() -> None:
    least, most = np.array([-(2**30)]), np.array([2**30])
    multiplier, shift = (np.array([each], np.int64) for each in quantize_multiplier(3.0))
    fixed = FixedStaircase(-128, 127, least, most, multiplier, shift)
    assert not needs_sums(ExactStaircase(-128, 127, least, most, np.array([3.0])), fixed)
    assert needs_sums(ExactStaircase(-128, 127, least, most, np.array([0.9])), fixed)

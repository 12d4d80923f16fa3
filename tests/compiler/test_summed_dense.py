"""Dense layers of TFLite that no rounding of a template computes are LiteRT's in every bit all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler import fused_graph
from int8tune.compiler.fused_graph import with_fused_rules
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.rounding.fused_rounding import FusedRounding, fused_rounding
from int8tune.compiler.rounding.staircases import ExactStaircase, FixedStaircase, Staircase
from int8tune.compiler.summed_dense import needs_sums
from int8tune.schedules.operands import quantize_multiplier
from int8tune.schedules.target import Target
from tests.support.models.compiled import assert_exact

pytest.importorskip("tflite", reason="needs the extra `models`")

from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_models import Writer, values_of

ROWS, DEPTH, CHANNELS = 3, 40, 96
DATA_SCALE = 0.04
RELU = 1


def layer(w: Writer, seed: int, data: int, kind: str = "s8", activation: int = 0, depth: int = DEPTH) -> int:
    """One whose sums are near ties: each channel has a scale of its own, and biases are thresholds."""
    rng, zero = np.random.default_rng(seed), 128 if kind == "u8" else 0
    data_scale, output_scale, most = np.float32(DATA_SCALE), np.float32(0.07), 4 if depth == DEPTH else 128
    scales = (10.0 ** rng.uniform(-5, -2.5, CHANNELS if kind == "s8" else 1)).astype(np.float32)
    factors = np.broadcast_to(float(data_scale) * scales.astype(float) / float(output_scale), CHANNELS)
    thresholds = np.rint((rng.integers(-60, 60, CHANNELS) + 0.5) / factors) + rng.integers(-1, 2, CHANNELS)
    drawn = rng.integers(1 - most, most, (CHANNELS, depth))
    stored = np.where(rng.random((CHANNELS, depth)) < most / 40, drawn, 0) + zero
    weights = w.constant(f"w{seed}", kind, stored, 1.0, zero)
    biases = w.constant(f"b{seed}", "s32", np.clip(thresholds, -(2**24), 2**24).astype(np.int32), 1.0)
    for each, values, point in ((weights, scales, zero), (biases, data_scale * scales, 0)):
        w.tensors[each].quantization.scale = [float(value) for value in values]
        w.tensors[each].quantization.zeroPoint = [point] * len(scales)
    made = w.tensor(f"y{seed}", kind, (ROWS, CHANNELS), float(output_scale), zero - 9)
    fields = {"fusedActivationFunction": activation}
    w.operator("FULLY_CONNECTED", [data, weights, biases], [made], "FullyConnected", 5, **fields)
    return made


def dense(seed: int, kind: str = "s8", activation: int = 0, depth: int = DEPTH) -> bytes:
    w = Writer()
    data = w.input("x", kind, (ROWS, depth), DATA_SCALE, 133 if kind == "u8" else 5)
    return w.model(layer(w, seed, data, kind, activation, depth))


def added(others: int) -> bytes:
    """The sum of a layer and an input, or of two layers."""
    w = Writer()
    data = w.input("x", "s8", (ROWS, DEPTH), DATA_SCALE, 5)
    other = layer(w, 1, data) if others else w.input("other", "s8", (ROWS, CHANNELS), 0.05, 0)
    made = w.tensor("sum", "s8", (ROWS, CHANNELS), 0.09, 0)
    w.operator("ADD", [layer(w, 0, data), other], [made], "Add", 2)
    return w.model(made)


def feeds_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    limits = {name: np.iinfo(graph.values[name].type.replace("u", "uint").replace("s", "int")) for name in graph.inputs}
    return {
        name: rng.integers(limit.min, limit.max + 1, graph.values[name].shape).astype(limit.dtype)
        for name, limit in limits.items()
    }


@pytest.mark.parametrize("has_fine", [False, True])
@pytest.mark.parametrize(("kind", "activation"), [("s8", 0), ("s8", RELU), ("u8", 0)])
def test_sums_near_ties_are_rounded_as_by_litert(
    kind: str, activation: int, has_fine: bool, native: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_graph, "fused_rounding", lambda _: None)
    if not has_fine:
        monkeypatch.setattr(fused_graph, "fine_rounding", lambda _: None)
    fine = 0
    for seed in range(3):
        (folder := tmp_path / str(seed)).mkdir()
        graph = assert_litert_s(dense(seed, kind, activation), native, folder)
        (found,) = quantized_layers(graph)
        is_fine = found.operator.rule == "fine"
        assert [each.kind for each in graph.operators] == [Kind.DENSE, *([] if is_fine else [Kind.WORD_SUMS])]
        assert found.workload.numerics.output == (kind if is_fine else "s32")
        fine += is_fine
    assert (fine > 0) == has_fine  # sums of more than 24 bits have none, and are drawn for some seeds


def assert_litert_s(file: bytes, target: Target, folder: Path) -> Graph:
    """Every value of the compiled model that LiteRT has is its own; the graph."""
    graph = with_fused_rules(read_tflite(file, "dense"))
    feeds = feeds_of(graph, 0)
    ours, theirs = assert_exact(graph, target, feeds, folder), values_of(file, feeds)
    for name in ours.keys() & theirs.keys():
        np.testing.assert_array_equal(ours[name], theirs[name], name, strict=True)
    assert set(graph.outputs) <= ours.keys() & theirs.keys()
    return graph


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("without", ["none", "first", "last", "all"])
@pytest.mark.matrix(at_most=3)
def test_what_is_added_in_a_layer_may_be_added_in_another_one(
    others: int, without: str, native: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers whose sums are rounded by an operator add nothing themselves."""
    asked: list[Staircase] = []

    def some(stairs: Staircase) -> FusedRounding | None:
        asked.append(stairs)
        is_left_out = {"none": False, "first": len(asked) == 1, "last": len(asked) > 1, "all": True}[without]
        return None if is_left_out else fused_rounding(stairs)

    monkeypatch.setattr(fused_graph, "fused_rounding", some)
    monkeypatch.setattr(fused_graph, "fine_rounding", lambda _: None)
    graph = assert_litert_s(added(others), native, tmp_path)
    assert len(asked) == 1 + others
    summed = sum(each.kind is Kind.WORD_SUMS for each in graph.operators)
    assert summed == {"none": 0, "first": 1, "last": others, "all": 1 + others}[without]
    rules = {each.rule for each in graph.operators if each.kind in (Kind.DENSE, Kind.ADD)}
    assert "fixed" not in rules


def test_a_layer_for_which_no_fused_rounding_is_found_becomes_sums(native: Target, tmp_path: Path) -> None:
    """Binary32 does not have all sums of so many products."""
    graph = assert_litert_s(dense(0, depth=2048), native, tmp_path)
    assert [each.kind for each in graph.operators] == [Kind.DENSE, Kind.WORD_SUMS]


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

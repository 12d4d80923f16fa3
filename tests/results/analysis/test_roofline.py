"""What bounds a layer, by the roofs of a check and where its data lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from int8tune.results.analysis.roofline import LayerSize, Roofline, Traffic, layer_roof, roofline_of
from int8tune.results.record import CACHE_BYTES
from tests.support.program.results_samples import check

WARM, NETWORK, COLD = (Traffic(cache, 10**9) for cache in ("warm", "network", "cold"))


def roofline() -> Roofline:
    sizes = {f"{CACHE_BYTES}{level}": str(size) for level, size in {"L1": 1_000, "L2": 100_000}.items()}
    found = check(1e12)
    bandwidth = {"memory": 1e10, "L2": 1e11, "L1": 1e12}
    return roofline_of(replace(found, bandwidth_bytes_per_s=bandwidth, environment={**found.environment, **sizes}))


def test_levels_are_in_order_with_the_sizes_that_the_device_said() -> None:
    found = roofline()
    assert [(level.name, level.holds_bytes) for level in found.levels] == [
        ("L1", 1000),
        ("L2", 100_000),
        ("memory", None),
    ]
    assert found.knows_sizes


def test_usual_sizes_stand_for_those_that_a_check_does_not_say() -> None:
    found = roofline_of(check())
    assert not found.knows_sizes
    assert [level.name for level in found.levels] == ["L1", "L2", "memory"]


@pytest.mark.parametrize(
    ("size", "traffic", "bound_by", "ops_per_s"),
    [
        # Much to compute: the peak.
        (LayerSize(10**9, 500, 400), WARM, "peak", 1e12),
        # Few operations per byte: from the nearest memory that holds all of it.
        (LayerSize(100, 500, 400), WARM, "L1", 200 / 900 * 1e12),
        (LayerSize(10_000, 50_000, 40_000), WARM, "L2", 20_000 / 90_000 * 1e11),
        (LayerSize(10_000, 500_000, 40_000), WARM, "memory", 20_000 / 540_000 * 1e10),
        # Weights come from as far as other layers leave them; data from the layer before.
        (LayerSize(10_000, 50_000, 40_000), NETWORK, "memory", 20_000 / (50_000 / 1e11 + 40_000 / 1e10)),
        # Never from the first two caches.
        (LayerSize(100, 500, 400), COLD, "memory", 200 / 900 * 1e10),
    ],
)
def test_what_bounds_a_layer(size: LayerSize, traffic: Traffic, bound_by: str, ops_per_s: float) -> None:
    found = layer_roof(roofline(), size, traffic)
    assert (found.bound_by, found.ops_per_s) == (bound_by, pytest.approx(ops_per_s))


def test_without_bandwidths_the_peak_is_the_roof() -> None:
    found = layer_roof(roofline_of(replace(check(1e12), bandwidth_bytes_per_s={})), LayerSize(10, 500, 400), WARM)
    assert (found.bound_by, found.ops_per_s) == ("peak", 1e12)


def test_sizes_from_a_file_may_be_anything() -> None:
    odd = {f"{CACHE_BYTES}L1": "-1", f"{CACHE_BYTES}L2": "9" * 40}
    assert not roofline_of(replace(check(), environment=odd)).knows_sizes

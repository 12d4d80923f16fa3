"""The contract of a peer, with the real libraries: each in a process of its own, compared with the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.contestant import Contestants
from int8tune.tuner.bench.layers import choose_layers
from int8tune.tuner.bench.match import LARGEST_DIFFERENCE, Player, seat_peer
from int8tune.tuner.bench.peers.base import Peer
from int8tune.tuner.bench.peers.registry import PEERS, missing_distributions
from int8tune.tuner.verify import write_case

LAYERS = (
    "conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8",
    "conv2d-u8s8-1x16x14x32-k3x3x48-s2-p0.0.1.1-float.c-u8",
    "conv2d-u8s8-1x8x8x128-k1x1x96-s1-p0-float.c-u8",
    "conv2d-u8s8-1x14x14x32-k1x1x40-s2-p0-float.t-u8",
    "conv2d-u8s8-1x17x17x32-k1x7x32-s1-p0.3.0.3-float.c-u8",
    "conv2d-u8s8-1x14x14x64-k3x3x32-s1-p1-g4-float.c-u8",
    "conv2d-u8s8-1x32x32x3-k7x7x32-s2-p3-float.c-u8",
    "conv2d-s8s8-2x9x9x24-k5x5x16-s1-p2-fixed.c-s8",
    "conv2d-s8s8-1x9x9x24-k1x1x16-s1-p0-fused.cx-s8",
    "dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x14x14x48-k3x3x1-s2-p0.0.1.1-float.c-u8",
    "dwconv2d-u8s8-1x9x9x16-k3x3x2-s1-p0-float.c-u8",
    "dense-u8s8-1x256-o100-float.c-u8",
    "dense-u8s8-19x96-o64-float.c-u8",
)
REJECTED = (
    "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-s32",
    "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-float.c-clamp-u8",
    "conv2d-s8u8-1x8x8x16-k1x1x16-s1-p0-wz-float.c-s8",
    "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-float.c-addu8-u8",
)


@pytest.fixture(scope="module", params=PEERS, ids=lambda peer: peer.name)
def peer(request: pytest.FixtureRequest) -> Peer:
    chosen: Peer = request.param
    if missing := missing_distributions(chosen.requires):
        pytest.skip(f"needs the extra `peers`, not installed: {', '.join(missing)}")
    return chosen


@pytest.fixture(scope="module")
def player(peer: Peer) -> Iterator[Player]:
    with Contestants("int8tune.tuner.bench.worker") as contestants:
        cores = sorted(os.sched_getaffinity(0))[-1:]
        yield Player(contestants.add(cores, peer.name), peer.name, peer)


class TestPeer:
    """What every peer must do; a new one is tested by being in the registry."""

    @pytest.mark.thorough
    def test_forms_have_the_same_work(self, peer: Peer) -> None:
        layers = choose_layers([])
        forms = [(layer, peer.form(layer)) for layer in layers]
        taken = [(layer, form) for layer, form in forms if not isinstance(form, Rejection)]
        assert len(taken) >= 0.9 * len(layers)
        for layer, form in taken:
            assert (form.macs, form.data_shape, form.weight_shape) == (layer.macs, layer.data_shape, layer.weight_shape)
            assert form.output_shape == layer.output_shape
            assert peer.form(form) == form

    @pytest.mark.parametrize("key", REJECTED)
    def test_rejections_have_a_reason(self, peer: Peer, key: str) -> None:
        rejection = peer.form(parse_workload(key))
        assert isinstance(rejection, Rejection)
        assert rejection.reason

    @pytest.mark.matrix
    @pytest.mark.parametrize("key", LAYERS)
    def test_outputs_are_those_of_the_oracle(self, player: Player, key: str, tmp_path: Path) -> None:
        seat = seat_peer(player, parse_workload(key), tmp_path)
        assert seat.error == ""
        assert player.contestant.mean_s(3) > 0

    def test_zero_points_are_taken(self, player: Player, peer: Peer, tmp_path: Path) -> None:
        for key in (LAYERS[0], LAYERS[9], LAYERS[12]):
            form = peer.form(parse_workload(key))
            assert not isinstance(form, Rejection)
            _, operands = adversarial_operands(form, 0)[0]
            assert operands.data_zero_point != 0
            # Not all libraries take 8 bits on CPUs without VNNI.
            operands = replace(operands, weight=operands.weight >> 1)
            write_case(tmp_path / "case.npz", form, operands)
            found = player.contestant.load({"workload": form.key, "case": str(tmp_path / "case.npz")})
            assert found is not None, player.contestant.failure
            assert found[1] <= LARGEST_DIFFERENCE

    @pytest.mark.thorough
    def test_two_threads_compute_the_same(self, peer: Peer, tmp_path: Path) -> None:
        # On one core, where there is no other one.
        cores = [*sorted(os.sched_getaffinity(0)) * 2][-2:]
        with Contestants("int8tune.tuner.bench.worker") as contestants:
            chosen = Player(contestants.add(cores, peer.name), peer.name, peer)
            assert seat_peer(chosen, parse_workload(LAYERS[0]), tmp_path).error == ""
            assert chosen.contestant.mean_s(3) > 0

    def test_the_version_is_that_of_the_library(self, player: Player, tmp_path: Path) -> None:
        seat_peer(player, parse_workload(LAYERS[2]), tmp_path)
        assert player.contestant.version[0].isdigit()


def test_onnx_runtime_takes_unsigned_weights(tmp_path: Path) -> None:
    chosen = next(one for one in PEERS if one.name == "onnxruntime")
    if missing_distributions(chosen.requires):
        pytest.skip("needs the extra `peers`")
    with Contestants("int8tune.tuner.bench.worker") as contestants:
        one = Player(contestants.add(sorted(os.sched_getaffinity(0))[-1:], chosen.name), chosen.name, chosen)
        key = "conv2d-u8u8-1x14x14x32-k3x3x48-s1-p1-wz-fixed.t-u8"
        assert seat_peer(one, parse_workload(key), tmp_path).error == ""


def test_litert_pads_as_tflite_does() -> None:
    chosen = next(one for one in PEERS if one.name == "litert")
    form = chosen.form(parse_workload("conv2d-u8s8-1x56x56x64-k3x3x128-s2-p1-float.c-u8"))
    assert not isinstance(form, Rejection)
    assert form.key == "conv2d-s8s8-1x56x56x64-k3x3x128-s2-p0.0.1.1-float.c-s8"
    rejected = chosen.form(parse_workload("conv2d-u8s8-1x8x8x16-k3x3x16-s1-p2-float.c-u8"))
    assert rejected == Rejection("padding must be none or TFLite's SAME: s1-p2")

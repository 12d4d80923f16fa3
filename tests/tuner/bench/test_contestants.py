"""Contestants that fail: what each failure is called, and that it costs nobody else anything."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import int8tune.tuner.bench.contestant
from int8tune.results.record import Outcome
from int8tune.rpc.request import Timing
from int8tune.rpc.session.timing import time_in_turn
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.contestant import Contestant, Contestants
from int8tune.tuner.bench.match import Player, Seated, seat_peer, with_overhead
from tests.support.stand_ins import faulty_peers

LAYER = parse_workload("conv2d-u8s8-1x6x6x16-k3x3x16-s1-p1-float.c-u8")
DENSE = parse_workload("dense-u8s8-1x16-o16-float.c-u8")
PEERS = {peer.name: peer for peer in faulty_peers.PEERS}
BRIEF = Timing(5, 0.0005)


@pytest.fixture
def contestants() -> Iterator[Contestants]:
    with Contestants("tests.support.stand_ins.faulty_peers") as started:
        yield started


def player(contestants: Contestants, name: str) -> Player:
    cores = sorted(os.sched_getaffinity(0))[-1:]
    return Player(contestants.add(cores, name), name, PEERS[name])


def processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "tests.support.stand_ins.faulty_peers" in child.cmdline()]


def test_a_peer_that_is_right_takes_turns(contestants: Contestants, tmp_path: Path) -> None:
    chosen = with_overhead(player(contestants, "oracle"), tmp_path, BRIEF)
    assert len(chosen.overhead_times_s) == BRIEF.repeats
    seat = seat_peer(chosen, LAYER, tmp_path)
    assert seat == Seated(chosen, LAYER.key)
    entrant = seat.entrant((1e-6,))
    assert (entrant.version, entrant.outcome, entrant.times_s) == ("1.0", Outcome.OK, (1e-6,))
    assert entrant.overhead_times_s == chosen.overhead_times_s
    assert 0 < chosen.contestant.mean_s(100) < 1e-3


def test_one_step_off_is_right_and_two_are_wrong(contestants: Contestants, tmp_path: Path) -> None:
    assert seat_peer(player(contestants, "off-by-one"), LAYER, tmp_path).outcome is Outcome.OK
    seat = seat_peer(player(contestants, "off-by-two"), LAYER, tmp_path)
    assert (seat.outcome, seat.error) == (Outcome.WRONG_ANSWER, "576 values are wrong, by 2 at most")
    assert seat.entrant(()).times_s == ()


def test_what_a_peer_does_not_take_is_not_loaded(contestants: Contestants, tmp_path: Path) -> None:
    seat = seat_peer(player(contestants, "oracle"), DENSE, tmp_path)
    assert (seat.outcome, seat.error, seat.workload) == (Outcome.REJECTED, "dense layers are not taken", DENSE.key)
    assert processes() == []


def test_a_refusal_is_told_in_one_line(contestants: Contestants, tmp_path: Path) -> None:
    seat = seat_peer(player(contestants, "refuses"), LAYER, tmp_path)
    assert seat.outcome is Outcome.RUN_FAILED
    assert seat.error == f"PeerError: no layers today, 1 threads: {LAYER.key} 0"


def test_a_crash_costs_its_own_times_only(contestants: Contestants, tmp_path: Path) -> None:
    seats = [seat_peer(player(contestants, name), LAYER, tmp_path) for name in ("crashes", "oracle")]
    times_s, _ = time_in_turn([seat.player.contestant for seat in seats], BRIEF)
    crashed, right = (seat.entrant(times) for seat, times in zip(seats, times_s, strict=True))
    assert (crashed.outcome, crashed.times_s) == (Outcome.RUN_FAILED, ())
    assert crashed.error == "its process ended: killed by SIGSEGV"
    assert right.outcome is Outcome.OK
    assert all(time_s > 0 for time_s in right.times_s)


@pytest.mark.thorough
def test_after_a_crash_the_next_layer_has_a_new_process(contestants: Contestants, tmp_path: Path) -> None:
    chosen = player(contestants, "crashes")
    for _ in range(2):
        assert seat_peer(chosen, LAYER, tmp_path).outcome is Outcome.OK
        assert math.isnan(chosen.contestant.mean_s(1000))
        assert chosen.contestant.failure
        assert math.isnan(chosen.contestant.mean_s(1))


def test_a_hanging_peer_is_ended(contestants: Contestants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8tune.tuner.bench.contestant, "LOAD_LIMIT_S", 0.3)
    monkeypatch.setattr(int8tune.tuner.bench.contestant, "END_LIMIT_S", 0.3)
    seat = seat_peer(player(contestants, "hangs"), LAYER, tmp_path)
    assert (seat.outcome, seat.error) == (Outcome.RUN_FAILED, "did not answer within 0.3 s")
    assert processes() == []


def test_a_turn_ends_when_all_threads_are_quiet(contestants: Contestants, tmp_path: Path) -> None:
    chosen = player(contestants, "spins").contestant
    assert seat_peer(Player(chosen, "spins", PEERS["spins"]), LAYER, tmp_path).outcome is Outcome.OK
    chosen.mean_s(1)
    (process,) = processes()
    assert process.num_threads() == 1


def test_contestants_stay_on_their_core_and_end_with_the_bench(tmp_path: Path) -> None:
    with Contestants("tests.support.stand_ins.faulty_peers") as contestants:
        chosen = player(contestants, "oracle")
        seat_peer(chosen, LAYER, tmp_path)
        (process,) = processes()
        assert process.cpu_affinity() == sorted(os.sched_getaffinity(0))[-1:]
    assert not process.is_running()


def test_a_library_that_does_not_start_fails(tmp_path: Path) -> None:
    with Contestants("tests.no_such_module") as contestants:
        seat = seat_peer(player(contestants, "oracle"), LAYER, tmp_path)
    assert seat.outcome is Outcome.RUN_FAILED
    assert "exited with status 1" in seat.error
    assert isinstance(seat.player.contestant, Contestant)

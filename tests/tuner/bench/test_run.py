"""A bench from end to end on this machine: what is measured, what is recorded, and what this library brings."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from int8tune.results.bench import bench_results
from int8tune.results.memory import MemoryStore
from int8tune.results.record import BenchResult, Campaign, Candidate, Duel, Measurement, Outcome, Trial
from int8tune.results.stats import median
from int8tune.results.store import SqliteStore
from int8tune.rpc.request import Reply, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.fake import FakeTransport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.bench.layers import NETWORKS, LayerClass, choose_layers, class_named, class_of
from int8tune.tuner.bench.match import Player, with_overhead
from int8tune.tuner.bench.operands import layer_operands
from int8tune.tuner.bench.own import NotPreparedError, Preparation, choose
from int8tune.tuner.bench.run import BenchSpec, _compare_all, run_bench
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import BenchSpecError, TooManyThreadsError
from int8tune.tuner.verify import read_case, write_case
from tests.support.program.cli_program import CONV, DEPTHWISE
from tests.support.run.probes import host_target
from tests.support.stand_ins import faulty_peers

pytestmark = pytest.mark.alone

BRIEF = Timing(5, 0.001)
STARTED = "2026-03-01T12:00:00+00:00"
DENSE = "dense-u8s8-1x64-o32-float.c-u8"


def spec(*keys: str, **changes: object) -> BenchSpec:
    found = BenchSpec(
        tuple(map(parse_workload, keys)),
        faulty_peers.PEERS[:5],
        1,
        BRIEF,
        worker="tests.support.stand_ins.faulty_peers",
    )
    return replace(found, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Benched:
    """A bench of two layers of three, in which what calls cost is spoilt the first time, as by another process."""

    name: str
    folder: Path
    heard: tuple[BenchResult, ...]


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Benched:
    folder, before = tmp_path_factory.mktemp("bench"), os.sched_getaffinity(0)
    heard, spoilt = list[BenchResult](), set[str]()

    def measured(player: Player, folder: Path, timing: Timing) -> Player:
        found = with_overhead(player, folder, timing)
        if player.name in spoilt:
            return found
        spoilt.add(player.name)
        return replace(found, overhead_times_s=tuple(1000 * time_s for time_s in found.overhead_times_s))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("int8tune.tuner.bench.run.with_overhead", measured)
        name = run_bench(spec(CONV, DENSE, DEPTHWISE), folder, heard.append, lambda: len(heard) == 2)
    assert "oracle" in spoilt
    assert os.sched_getaffinity(0) == before
    return Benched(name, folder, tuple(heard))


def test_every_library_is_compared_on_every_layer_until_it_is_stopped(benched: Benched) -> None:
    with SqliteStore(benched.folder / "records.db", readonly=True) as store:
        results = bench_results(store, benched.name)
    assert results == benched.heard
    assert [result.workload for result in results] == [CONV, DENSE]
    conv, dense = results
    outcomes = {entrant.name: entrant.outcome for entrant in conv.entrants}
    assert outcomes == {
        "int8tune": Outcome.OK,
        "oracle": Outcome.OK,
        "off-by-one": Outcome.OK,
        "off-by-two": Outcome.WRONG_ANSWER,
        "refuses": Outcome.RUN_FAILED,
        "crashes": Outcome.RUN_FAILED,
    }
    assert {peer.outcome for peer in dense.peers} == {Outcome.REJECTED}
    for result in results:
        assert len(result.ours.times_s) == len(result.peak_ops_per_s) == BRIEF.repeats
        assert not result.is_tuned
        assert result.environment["cpu"]
    oracle = conv.peers[0]
    assert (len(oracle.times_s), len(oracle.overhead_times_s)) == (5, 5)
    assert not (benched.folder / ".work").exists()


def test_what_calls_cost_is_measured_again_where_it_is_much(benched: Benched) -> None:
    oracle = benched.heard[0].peers[0]
    assert oracle.name == "oracle"
    assert median(oracle.overhead_times_s) < 10 * median(oracle.times_s)


@pytest.mark.thorough
def test_two_threads_have_two_cores(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may use one core only")
    heard: list[BenchResult] = []
    run_bench(spec(CONV, peers=faulty_peers.PEERS[:1], threads=2), tmp_path, heard.append, lambda: False)
    assert [entrant.outcome for entrant in heard[0].entrants] == [Outcome.OK, Outcome.OK]
    assert heard[0].threads == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 0}, "threads must be 1 to 1024: 0"),
        ({"timing": Timing(4, 0.02)}, "runs must be 5 to 1000: 4"),
        ({"timing": Timing(20, 0.0)}, "seconds of a run must be 0.001 to 10: 0"),
    ],
)
def test_numbers_have_ranges(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BenchSpecError) as raised:
        spec(CONV, **changes)
    assert str(raised.value) == message


def test_there_must_be_a_core_for_each_thread() -> None:
    cores = sorted(os.sched_getaffinity(0))
    assert measuring_and_build_cores(1) == ((cores[-1],), tuple(cores[:-1]))
    with pytest.raises(TooManyThreadsError, match=f"1 to {len(cores)}, .*: {len(cores) + 1}$"):
        measuring_and_build_cores(len(cores) + 1)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildPool]:
    cores = sorted(os.sched_getaffinity(0))
    with BuildPool(cores[:-1], cores[-1], tmp_path_factory.mktemp("pool") / "log") as started:
        yield started


class TestPreparation:
    """What this library brings to a bench is verified, or nothing."""

    @pytest.fixture
    def target(self) -> Target:
        return host_target()

    def prepare(self, pool: BuildPool, transport: Transport, target: Target, folder: Path, key: str = CONV) -> str:
        workload = parse_workload(key)
        candidate = choose(MemoryStore(), workload, target, "local").candidate
        transport.start()
        program = Preparation(pool, transport, target).program(workload, candidate, layer_operands(workload), folder)
        assert len(program.cases) == 1
        return program.cases[0].expected

    def test_a_program_is_timed_with_the_values_that_peers_have(
        self, pool: BuildPool, target: Target, tmp_path: Path
    ) -> None:
        import numpy as np

        with LocalTransport() as transport:
            expected = np.load(self.prepare(pool, transport, target, tmp_path))
        workload = parse_workload(CONV)
        np.testing.assert_array_equal(
            expected.reshape(workload.output_shape), reference(workload, layer_operands(workload))
        )

    @pytest.mark.parametrize("fault", [Outcome.WRONG_ANSWER, Outcome.RUN_FAILED, Outcome.RUN_TIMEOUT])
    def test_a_kernel_that_fails_is_not_timed(
        self, pool: BuildPool, target: Target, tmp_path: Path, fault: Outcome
    ) -> None:
        device = FakeTransport(lambda _: Reply(Outcome.OK), [fault])
        with pytest.raises(NotPreparedError, match=f"injected: {fault.value}") as raised:
            self.prepare(pool, device, target, tmp_path)
        assert raised.value.outcome is fault

    def test_a_candidate_that_does_not_build_is_named(self, pool: BuildPool, target: Target, tmp_path: Path) -> None:
        workload = parse_workload(CONV)
        broken = replace(choose(MemoryStore(), workload, target, "local").candidate, config={"no_such_knob": 1})
        preparation = Preparation(pool, FakeTransport(lambda _: Reply(Outcome.OK)), target)
        with pytest.raises(NotPreparedError, match="unknown knob `no_such_knob`") as raised:
            preparation.program(workload, broken, layer_operands(workload), tmp_path)
        assert raised.value.outcome is Outcome.REJECTED


def tuned_store(candidate: Candidate, default: Candidate, gain: float) -> MemoryStore:
    """A campaign in which the candidate was so many times faster than the default."""
    store = MemoryStore()
    times = [1e-6 * (1 + 0.001 * step) for step in range(10)]
    store.append([Campaign("c", "n", "local", default.target, "random", 0, 2, {default.workload: 1}, STARTED)])
    for sequence, (chosen, factor) in enumerate([(default, 1.0), (candidate, gain)]):
        measured = Measurement(tuple(time / factor for time in times), 10)
        store.append([Trial("c", sequence, chosen, Outcome.OK, measured, "local", {}, STARTED)])
    pairs = tuple(times), tuple(time / gain for time in times)
    store.append([Duel("c", default.workload, default.target, "local", default.id, candidate.id, *pairs, {}, STARTED)])
    return store


def test_the_best_schedule_in_the_records_is_used() -> None:
    target, workload = host_target(), parse_workload(CONV)
    default = choose(MemoryStore(), workload, target, "local")
    assert not default.is_tuned
    space = template_for(workload, target).space(workload, target)
    other = replace(default.candidate, config=next(config for config in space if config != dict(space.default)))
    store = tuned_store(other, default.candidate, 1.5)
    assert choose(store, workload, target, "local").candidate == other
    assert choose(store, workload, target, "local").is_tuned
    assert not choose(store, workload, target, "another").is_tuned
    old = replace(other, template_version=99)
    assert choose(tuned_store(old, default.candidate, 1.5), workload, target, "local") == default


def test_a_templates_own_schedule_is_its_fastest_trial_or_its_default() -> None:
    target, workload = host_target(), parse_workload(CONV)
    default = choose(MemoryStore(), workload, target, "local", "generic.direct")
    assert (default.candidate.template, default.is_tuned) == ("generic.direct", False)
    space = template_named("generic.direct").space(workload, target)
    other = replace(default.candidate, config=next(config for config in space if config != dict(space.default)))
    store = tuned_store(other, default.candidate, 1.5)
    assert choose(store, workload, target, "local", "generic.direct").candidate == other
    assert choose(store, workload, target, "local", "generic.direct").is_tuned
    assert choose(store, workload, target, "another", "generic.direct") == default
    old = replace(other, template_version=99)
    outdated = tuned_store(old, default.candidate, 1.5)
    assert choose(outdated, workload, target, "local", "generic.direct").candidate == default.candidate
    with pytest.raises(WorkloadError, match="does not take"):
        choose(store, workload, target, "local", "arm.conv")


@pytest.mark.parametrize(
    ("key", "layer_class"),
    [
        ("conv2d-u8s8-1x14x14x16-k3x3x64-s1-p1-float.c-u8", LayerClass.SPATIAL),
        ("conv2d-u8s8-1x14x14x16-k1x7x64-s1-p0.3.0.3-float.c-u8", LayerClass.SPATIAL),
        ("conv2d-u8s8-1x14x14x64-k1x1x64-s2-p0-float.c-u8", LayerClass.POINTWISE_SMALL),
        ("conv2d-u8s8-1x8x8x64-k1x1x64-s1-p0-float.c-u8", LayerClass.POINTWISE_SMALL),
        ("conv2d-u8s8-1x14x14x64-k1x1x64-s1-p0-float.c-u8", LayerClass.POINTWISE),
        ("conv2d-u8s8-1x32x32x3-k3x3x32-s2-p1-float.c-u8", LayerClass.FIRST),
        (DEPTHWISE, LayerClass.DEPTHWISE),
        ("dwconv2d-u8s8-1x9x9x32-k3x3x1-s2-p1-float.c-u8", LayerClass.DEPTHWISE_STRIDED),
        (DENSE, LayerClass.DENSE_ROW),
        ("dense-u8s8-128x64-o32-float.c-u8", LayerClass.DENSE),
    ],
)
def test_every_layer_has_a_class(key: str, layer_class: LayerClass) -> None:
    assert class_of(parse_workload(key)) is layer_class
    assert class_named(layer_class.short) is layer_class


def test_layers_are_compared_once() -> None:
    everything = choose_layers([])
    assert len(everything) == len(set(everything)) > 100
    assert {class_of(layer) for layer in everything} == set(LayerClass)
    assert choose_layers([*NETWORKS, CONV])[: len(everything)] == everything
    assert choose_layers([CONV, CONV, DENSE]) == (parse_workload(CONV), parse_workload(DENSE))
    first = choose_layers([], LayerClass.FIRST)
    assert {layer.data_shape[3] for layer in first} == {3}
    with pytest.raises(BenchSpecError, match="none of the layers is of this class: first conv"):
        choose_layers([CONV], LayerClass.FIRST)


@pytest.mark.parametrize(
    "key",
    [
        "conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8",
        "conv2d-s8s8-1x14x14x32-k1x1x48-s1-p0-fixed.c-s8",
        "dwconv2d-u8u8-1x14x14x32-k3x3x1-s1-p1-wz-fixed.t-clamp-u8",
        "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-float.c-addu8-u8",
        "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-fixed.c-adds8-clamp-s8",
        "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-fused.t-adds8-clamp-u8",
        "dwconv2d-u8u8-1x14x14x32-k3x3x1-s1-p1-wz-fused.cx-u8",
        "dense-u8s8-4x64-o32-s32",
    ],
)
@pytest.mark.thorough
def test_operands_fill_the_range_of_the_output(key: str, tmp_path: Path) -> None:
    workload: Workload = parse_workload(key)
    operands = layer_operands(workload)
    expected = reference(workload, operands)
    if workload.numerics.output != "s32":
        low, high = RANGES[workload.numerics.output]
        assert expected.std() > 15
        assert ((expected > low) & (expected < high)).mean() > 0.9
    write_case(tmp_path / "case.npz", workload, operands)
    again, outputs = read_case(tmp_path / "case.npz")
    assert (outputs == expected).all()
    assert (reference(workload, again) == expected).all()
    assert math.prod(outputs.shape) == math.prod(workload.output_shape)


def test_two_channels_have_two_scales() -> None:
    pytest.importorskip("onnx", reason="needs the extra `models`")
    from int8tune.tuner.bench.peers.onnx_model import _constants

    for channels, shape in ((1, ()), (2, (2,)), (3, (3,))):
        operands = layer_operands(parse_workload(f"dense-u8s8-1x8-o{channels}-float.c-u8"))
        found = _constants(operands, operands.weight)
        assert found["weight_scale"].shape == found["weight_zero_point"].shape == shape


@dataclass
class _Refusing:
    """A bench that compares no layer."""

    site: Any

    def compare(self, workload: Workload, folder: Path) -> BenchResult:  # noqa: ARG002
        raise WorkloadError("no template takes it")


def test_a_layer_that_nobody_takes_is_left_out_where_that_is_wanted(tmp_path: Path) -> None:
    bench: Any = _Refusing(SimpleNamespace(folder=tmp_path))
    layers, left_out, heard = [parse_workload(CONV), parse_workload(DEPTHWISE)], list[Workload](), list[BenchResult]()
    _compare_all(bench, layers, heard.append, lambda: False, left_out.append)
    assert (left_out, heard) == (layers, [])
    with pytest.raises(WorkloadError, match="no template takes it"):
        _compare_all(bench, layers, heard.append, lambda: False, None)

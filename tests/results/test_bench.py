"""What a bench says of times that were made up: who is faster, who is not, and what can't be said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from int8tune.results.bench import BenchVerdict, bench_results, bench_row, geometric_mean, summarize_bench
from int8tune.results.errors import RecordError
from int8tune.results.memory import MemoryStore
from int8tune.results.record import BenchResult, Entrant, Outcome
from int8tune.results.report.bench import bench_as_dict, render_bench
from tests.support.program.bench_entries import (
    CLASSES,
    CONV,
    DENSE,
    DEPTHWISE,
    FACTS,
    exact,
    failed,
    peer,
    result,
    times_s,
)


@pytest.mark.parametrize(
    ("theirs_s", "verdict"),
    [
        (130e-6, BenchVerdict.FASTER),
        (102e-6, BenchVerdict.FASTER),
        (100.5e-6, BenchVerdict.NOISE),
        (100e-6, BenchVerdict.NOISE),
        (99.5e-6, BenchVerdict.NOISE),
        (98e-6, BenchVerdict.SLOWER),
        (50e-6, BenchVerdict.SLOWER),
    ],
)
def test_a_win_must_be_sure_and_matter(theirs_s: float, verdict: BenchVerdict) -> None:
    quiet = result(peer("int8tune", 100e-6, noise=5e-4), peer("onednn", theirs_s, noise=5e-4))
    assert bench_row(quiet, FACTS[CONV]).verdict is verdict


def test_nothing_is_claimed_inside_the_noise() -> None:
    noisy = Entrant("int8tune", "0", CONV, Outcome.OK, times_s(100e-6, 0.2))
    row = bench_row(result(noisy, peer("onednn", 103e-6, noise=0.2)), FACTS[CONV])
    assert row.ratio is not None
    assert row.ratio.low < 1 < row.ratio.high
    assert row.verdict is BenchVerdict.NOISE


def test_the_best_peer_is_the_fastest_without_its_overhead() -> None:
    row = bench_row(result(100e-6, peer("openvino", 125e-6, 20e-6), peer("onednn", 115e-6, 1e-6)), FACTS[CONV])
    assert row.best_peer is not None
    assert row.best_peer.entrant.name == "openvino"
    assert row.ratio is not None
    assert row.raw_ratio is not None
    assert row.ratio.estimate == pytest.approx(1.05, abs=0.01)
    assert row.raw_ratio.estimate == pytest.approx(1.25, abs=0.01)


def test_a_time_that_is_mostly_overhead_proves_nothing() -> None:
    row = bench_row(result(2e-6, peer("openvino", 22e-6, 15e-6, 0.001)), FACTS[CONV])
    assert row.ratio is not None
    assert row.ratio.low > 2
    assert row.verdict is BenchVerdict.NOISE


def test_an_overhead_of_more_than_a_layer_takes_is_not_believed() -> None:
    """Others had the core while it was measured."""
    row = bench_row(result(10e-6, peer("onednn", 12e-6, 7_996e-6, 0.001)), FACTS[CONV])
    assert row.ratio is not None
    assert row.ratio.estimate == pytest.approx(1.2, abs=0.01)
    assert row.verdict is BenchVerdict.NOISE


def test_times_that_are_mostly_overhead_are_in_no_mean() -> None:
    sure, unsure = result(10e-6, peer("onednn", 20e-6)), result(1e-6, peer("onednn", 20e-6, 19e-6, 0.001))
    summary = summarize_bench([sure, unsure], FACTS, CLASSES)
    assert summary.total.layers == 2
    assert summary.total.ratio == summary.total.lowest_ratio == pytest.approx(2.0, abs=0.01)
    shown = render_bench(summary)
    assert "?*" in shown
    assert "1 layer is in no ratio of a class: the best time? there is mostly what a call costs" in shown


def test_the_least_overhead_of_a_bench_is_a_librarys() -> None:
    results = [result(10e-6, peer("onednn", 90e-6, overhead)) for overhead in (30e-6, 2e-6, 5e-6)]
    (_, library) = summarize_bench(results, FACTS, CLASSES).libraries
    assert library.overhead_s == pytest.approx(2e-6, rel=0.1)


def test_a_loss_is_admitted_whoever_is_faster_still() -> None:
    unsure, sure = peer("openvino", 18e-6, 14e-6, 0.001), peer("onednn", 8e-6, noise=0.001)
    row = bench_row(result(10e-6, unsure, sure), FACTS[CONV])
    assert row.best_peer is not None
    assert row.best_peer.entrant.name == "openvino"
    assert row.verdict is BenchVerdict.SLOWER
    assert bench_row(result(6e-6, unsure, sure), FACTS[CONV]).verdict is BenchVerdict.NOISE


def test_the_noise_of_an_overhead_is_in_the_interval() -> None:
    steady = replace(peer("openvino", 30e-6, 12e-6), overhead_times_s=(12e-6,) * 20)
    shaky = replace(steady, overhead_times_s=times_s(12e-6, 0.3))
    widths = []
    for entrant in (steady, shaky):
        ratio = bench_row(result(18e-6, entrant), FACTS[CONV]).ratio
        assert ratio is not None
        widths.append(ratio.high - ratio.low)
    assert widths[1] > 3 * widths[0]


def test_who_fails_or_is_wrong_does_not_count() -> None:
    wrong = failed("litert", Outcome.WRONG_ANSWER, "12 values are wrong, by 40 at most")
    row = bench_row(result(100e-6, wrong, failed("onnxruntime"), peer("onednn", 150e-6)), FACTS[CONV])
    assert row.best_peer is not None
    assert row.best_peer.entrant.name == "onednn"
    alone = bench_row(result(100e-6, wrong), FACTS[CONV])
    assert (alone.verdict, alone.ratio, alone.best_peer) == (BenchVerdict.ALONE, None, None)
    broken = bench_row(result(failed("int8tune"), peer("onednn", 150e-6)), FACTS[CONV])
    assert (broken.verdict, broken.time_s, broken.peak_share) == (BenchVerdict.FAILED, None, None)


def test_the_share_of_the_peak_is_of_the_same_rounds() -> None:
    drifting = result(231.2e-6, peer("onednn", 300e-6))
    # Half of the rounds at half the speed, this library as well as the loop.
    factors = [1.0] * 10 + [2.0] * 10
    ours = replace(drifting.ours, times_s=tuple(231.2e-6 * factor for factor in factors))
    slowed = replace(drifting, ours=ours, peak_ops_per_s=tuple(1.25e12 / factor for factor in factors))
    assert bench_row(slowed, FACTS[CONV]).peak_share == pytest.approx(0.8, abs=1e-3)


def test_classes_have_geometric_means() -> None:
    results = [
        result(100e-6, peer("onednn", 200e-6)),
        result(100e-6, peer("onednn", 50e-6)),
        result(100e-6, peer("onednn", 300e-6, workload=DEPTHWISE), workload=DEPTHWISE),
    ]
    summary = summarize_bench(results, FACTS, CLASSES)
    assert [row.name for row in summary.classes] == ["conv 3x3", "depthwise"]
    conv, depthwise = summary.classes
    assert conv.ratio == pytest.approx(1.0, abs=0.01)
    assert conv.lowest_ratio == pytest.approx(0.5, abs=0.01)
    assert (conv.verdicts[BenchVerdict.FASTER], conv.verdicts[BenchVerdict.SLOWER]) == (1, 1)
    assert depthwise.ratio == pytest.approx(3.0, abs=0.03)
    assert summary.total.ratio == pytest.approx(3 ** (1 / 3), abs=0.02)
    assert geometric_mean([]) is None


def test_rounds_must_match() -> None:
    with pytest.raises(RecordError, match=r"same rounds: \[19, 20\]"):
        result(100e-6, replace(peer("onednn", 1e-4), times_s=times_s(1e-4, rounds=19)))
    with pytest.raises(RecordError, match="if and only if it is `ok`: onednn: run_failed"):
        Entrant("onednn", "3.2", CONV, Outcome.RUN_FAILED, (1e-6,))


def test_one_bench_is_found_among_several() -> None:
    store = MemoryStore()
    first, second = result(1e-4, peer("onednn", 2e-4)), result(1e-4, peer("onednn", 3e-4))
    store.append([first, replace(second, bench="b2")])
    assert bench_results(store, "b1") == (first,)
    assert list(store.query(BenchResult)) == [first, replace(second, bench="b2")]


TABLE = """\
AMD EPYC 9B45 (x86-avx512vnni), 1 thread, peak 1,000 GOP/s
times in us, those of other libraries without the overhead of their calls

layer                        ours peak from    onnxr. openv. onednn litert ratio [95 %]      verdict
conv 3x3:
conv 3x3 28x28x128->128       250  92% best       299   280* failed  wrong 1.12 [1.12, 1.12] faster
depthwise:
dw 3x3 56x56x128             40.0  18% default    120  80.0*   90.0      - 2.00 [2.00, 2.00] faster

class                  layers  ratio  lowest  peak  faster  noise  slower
conv 3x3                    1   1.12    1.12   92%       1      0       0
depthwise                   1   2.00    2.00   18%       1      0       0
all                         2   1.50    1.12   41%       2      0       0
ratio and peak are geometric means

int8tune 1.0
onnxruntime 1.0, 4.00 us a call
openvino 1.0, 20.0 us a call
onednn 1.0, 1.00 us a call
litert 1.0

faster   the whole interval is above 1, and the ratio by 1 % at least
1 layer, onednn: run failed: killed by SIGSEGV
1 layer, litert: wrong answer: 12 values are wrong, by 40 at most
1 layer, litert: rejected: outputs are not clamped
"""


def test_the_table() -> None:
    wrong = failed("litert", Outcome.WRONG_ANSWER, "12 values are wrong, by 40 at most")
    rejected = failed("litert", Outcome.REJECTED, "outputs are not clamped")
    results = [
        result(
            exact("int8tune", 250e-6),
            exact("onnxruntime", 303e-6, 4e-6),
            exact("openvino", 300e-6, 20e-6),
            failed("onednn"),
            wrong,
        ),
        result(
            exact("int8tune", 40e-6, workload=DEPTHWISE),
            exact("onnxruntime", 124e-6, 4e-6),
            exact("openvino", 100e-6, 20e-6),
            exact("onednn", 91e-6, 1e-6),
            rejected,
            workload=DEPTHWISE,
            is_tuned=False,
        ),
    ]
    assert render_bench(summarize_bench(results, FACTS, CLASSES)) == TABLE
    assert max(map(len, TABLE.splitlines())) <= 100


def test_the_values_are_json() -> None:
    results = [result(1e-4, peer("onednn", 2e-4, 1e-6)), result(failed("int8tune"), workload=DENSE)]
    values = json.loads(json.dumps(bench_as_dict(summarize_bench(results, FACTS, CLASSES)), allow_nan=False))
    assert [layer["verdict"] for layer in values["layers"]] == ["faster", "failed"]
    assert values["layers"][0]["raw_ratio"]["estimate"] > values["layers"][0]["ratio"]["estimate"]
    assert values["libraries"][1]["name"] == "onednn"


def on_gpu(**environment: str) -> BenchResult:
    """Three other libraries on a dense layer, the last of which does not take it."""
    takes_none = Entrant("cublaslt-gemm", "13.0.2", DENSE, Outcome.REJECTED, error="is a product as its data lies")
    peers = (exact("cublaslt", 20e-6, workload=DENSE), exact("cublaslt-s32", 10e-6, workload=DENSE), takes_none)
    found = result(exact("int8tune", 16e-6, workload=DENSE), *peers, workload=DENSE)
    return replace(found, environment={"gpu": "H100", "gpu_driver": "580.1", **environment})


def test_a_table_of_a_gpu_has_rates_and_the_libraries_that_take_a_layer() -> None:
    row = bench_row(on_gpu(gpu_int8_ops_per_s="2000000000000"), FACTS[DENSE])
    assert row.ops_per_s == pytest.approx(2 * 1_025_024 / 16e-6)
    assert row.ratio is not None
    assert row.ratio.estimate == pytest.approx(10 / 16)
    shown = render_bench(summarize_bench([row.result], FACTS, CLASSES))
    head = "H100 (x86-avx512vnni), driver 580.1, peak 1.00 TOPS, at most 2.00 at its highest clock"
    assert shown.splitlines()[0] == head
    assert shown.splitlines()[3].split()[5:7] == ["cublaslt", "cublaslt-s32"]
    assert "16.0  0.13  13% best        20.0        10.0*" in shown
    assert "1 layer, cublaslt-gemm: rejected: is a product as its data lies" in shown


@pytest.mark.parametrize("said", ["", "0", "many"])
def test_a_gpu_whose_rate_nobody_knows_has_its_measured_peak_alone(said: str) -> None:
    shown = render_bench(summarize_bench([on_gpu(gpu_int8_ops_per_s=said)], FACTS, CLASSES))
    assert shown.splitlines()[0] == "H100 (x86-avx512vnni), driver 580.1, peak 1.00 TOPS"

"""What a race of two searches says: its numbers, its table and its JSON."""

from __future__ import annotations

from int8tune.results.bench import BenchVerdict
from int8tune.results.record import Outcome
from int8tune.results.report.search import render_search, search_as_dict
from int8tune.results.search import Effort, RaceLayer, SearchSummary, summarize_search
from tests.support.program.bench_entries import CLASSES, CONV, DENSE, DEPTHWISE, FACTS, exact, failed, result

NAME = "metaschedule"


def summary() -> SearchSummary:
    """One layer that is faster, one whose kernel is wrong, one that was refused."""
    wrong = failed(NAME, Outcome.WRONG_ANSWER, "183 values are wrong")
    refused = failed(NAME, Outcome.REJECTED, "in groups")
    race_layers = [
        RaceLayer(result(exact("int8tune", 100e-6), exact(NAME, 150e-6)), Effort(16, 1, 4.0), Effort(16, 4, 20.0)),
        RaceLayer(result(10e-6, wrong, workload=DEPTHWISE), Effort(16, 0, 4.0), Effort(16, 0, 12.0)),
        RaceLayer(result(10e-6, refused, workload=DENSE), Effort(8, 0, 2.0), Effort()),
    ]
    return summarize_search(race_layers, FACTS, CLASSES)


def test_a_wrong_kernel_does_not_count() -> None:
    rows = {row.result.workload: row for row in summary().bench.rows}
    assert rows[CONV].verdict is BenchVerdict.FASTER
    assert rows[DEPTHWISE].verdict is BenchVerdict.ALONE
    assert rows[DEPTHWISE].ratio is None
    assert summary().bench.total.verdicts[BenchVerdict.FASTER] == 1


def test_efforts_are_summed_and_have_a_rate() -> None:
    found = summary()
    assert found.ours == Effort(40, 1, 10.0)
    assert found.theirs == Effort(32, 4, 32.0)
    assert (found.ours.trials_per_s, found.theirs.trials_per_s) == (4.0, 1.0)
    assert Effort().trials_per_s is None


def test_the_table_fits_100_columns_and_says_all() -> None:
    lines = render_search(summary()).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[:2] == [
        "AMD EPYC 9B45 (x86-avx512vnni), one thread, peak 1,000 GOP/s",
        "theirs: metaschedule of TVM 1.0; times in us; trials and trials a second: ours/theirs",
    ]
    words = {line.split("  ")[0].strip(): line.split() for line in lines}
    assert words["conv 3x3 28x28x128->128"][3:6] == ["100", "150", "exact"]
    assert words["conv 3x3 28x28x128->128"][-3:] == ["faster", "16/16", "4.00/0.80"]
    assert words["dw 3x3 56x56x128"][4:6] == ["-", "wrong"]
    assert words["dense 1x1024->1001"][4:] == ["refused", "-", "alone", "8/0", "4.00/-"]
    assert "ours    40 trials, 1 failed, 10 s, 4.00 a second" in lines
    assert "theirs  32 trials, 4 failed, 32 s, 1.00 a second" in lines
    assert "1 layer, metaschedule: wrong answer: 183 values are wrong" in lines


def test_json_has_what_each_search_took() -> None:
    values = search_as_dict(summary())
    assert values["searches"]["theirs"] == {"trials": 32, "failed": 4, "search_s": 32.0, "trials_per_s": 1.0}
    conv = next(layer for layer in values["layers"] if layer["workload"] == CONV)
    assert conv["searches"]["ours"] == {"trials": 16, "failed": 1, "search_s": 4.0, "trials_per_s": 4.0}
    dense = next(layer for layer in values["layers"] if layer["workload"] == DENSE)
    assert dense["searches"]["theirs"]["trials_per_s"] is None

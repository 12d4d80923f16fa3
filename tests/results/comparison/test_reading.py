"""Each kind of results as a side of a comparison, whole and damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from int8tune.results.bench import summarize_bench
from int8tune.results.best import BestSchedule
from int8tune.results.best_log import write_best_log
from int8tune.results.comparison.compare import Change, compare_sides
from int8tune.results.comparison.of_store import PEAK_LOOP, SeenTrials, side_of_bench, side_of_campaign
from int8tune.results.comparison.reading import read_side
from int8tune.results.comparison.side import Conditions
from int8tune.results.errors import BestLogError, ComparisonError, ResultsError, StoreError
from int8tune.results.pytest_benchmark import of_layers, write_benchmarks
from int8tune.results.record import BenchResult, Campaign, Trial
from int8tune.results.report.bench import bench_as_dict
from int8tune.results.stats import Speedup
from int8tune.results.store import SqliteStore
from int8tune.tuner.api.index import write_index
from tests.support.places import TESTS
from tests.support.program import bench_entries
from tests.support.program.results_samples import (
    DEVICE,
    LAYER,
    TARGET,
    campaign,
    candidate,
    duel,
    estimated,
    failed,
    fill,
    ok,
)

PYTEST = TESTS / "data" / "pytest_benchmark_5.3.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with two campaigns of one layer."""
    with SqliteStore(tmp_path / "records.db") as store:
        for name in ("c1", "c2"):
            trials = [ok(0, chosen=candidate(0), name=name), ok(1, 5e-4, chosen=candidate(1), name=name)]
            store.append([campaign(name), *trials, duel(candidate(0), candidate(1), 1.5, name=name)])
    return tmp_path


def schedule(workload: str = LAYER, target: str = TARGET, median_s: float = 1e-3) -> BestSchedule:
    chosen = candidate(1, workload, target)
    speedup = Speedup(1.5, 1.4, 1.6)
    return BestSchedule(workload, target, DEVICE, chosen, median_s, candidate(0).id, speedup, "c1", 1)


def bench_json(results: list[BenchResult]) -> dict[str, Any]:
    """What the command prints, as it is read back."""
    summary = summarize_bench(results, bench_entries.FACTS, bench_entries.CLASSES)
    return json.loads(json.dumps({"bench": "2026-03-01T12:00:00", **bench_as_dict(summary)}))  # type: ignore[no-any-return]


def test_a_campaign_is_named_behind_the_path_or_by_an_option(folder: Path) -> None:
    side = read_side(f"{folder}::c2")
    assert (side.name, side.source) == ("c2", f"campaign c2 of {folder}")
    assert read_side(str(folder / "records.db"), "c2").layers == side.layers
    assert side.conditions == Conditions(DEVICE, "Intel Xeon Platinum 8272CL", TARGET, "1", "warm")
    layer = side.layers[LAYER]
    assert layer.time == pytest.approx(1e-3 / 1.5, rel=0.01)
    assert (layer.count, len(layer.times_s)) == (4, 20)
    ((name, reference_s),) = layer.references.items()
    assert name.startswith(candidate(0).id)
    assert len(reference_s) == 20
    with pytest.raises(ComparisonError, match=r"choose a campaign, such as .*::c1; the records have c1, c2$"):
        read_side(str(folder))
    with pytest.raises(ComparisonError, match=r"no such campaign, the records have c1, c2: c3$"):
        read_side(f"{folder}::c3")


def test_a_best_log_has_medians_alone(tmp_path: Path) -> None:
    log = tmp_path / "best.jsonl"
    write_best_log(log, [schedule(), schedule("dense-u8s8-1x64-o10-s32")])
    side = read_side(str(log))
    assert side.conditions == Conditions(DEVICE, "", TARGET, "1", "")
    assert (side.layers[LAYER].time, side.layers[LAYER].times_s) == (1e-3, ())
    assert side.layers[LAYER].candidate == candidate(1)
    slower = replace(side, layers={key: replace(each, time=1.05e-3) for key, each in side.layers.items()})
    assert set(compare_sides(side, slower).counts()) == {Change.UNCHANGED}


def test_a_bench_is_read_from_a_store_and_from_json(tmp_path: Path) -> None:
    results = [bench_entries.result(2e-4, bench_entries.peer("onnxruntime", 2.1e-4))]
    (tmp_path / "bench.json").write_text(json.dumps(bench_json(results)))
    with SqliteStore(tmp_path / "records.db") as store:
        store.append(results)
    stored, printed = read_side(str(tmp_path)), read_side(str(tmp_path / "bench.json"))
    assert stored.layers.keys() == printed.layers.keys() == {bench_entries.CONV}
    assert stored.conditions == printed.conditions
    (first,), (second,) = stored.layers.values(), printed.layers.values()
    assert first.times_s == second.times_s == results[0].ours.times_s
    assert list(first.references) == list(second.references) == ["onnxruntime 1.0", PEAK_LOOP]
    assert first.references[PEAK_LOOP] == second.references[PEAK_LOOP]
    assert first.candidate == second.candidate


def test_libraries_beside_which_a_bench_was_timed_say_what_the_machine_did() -> None:
    def side(ours_s: float, theirs_s: float) -> Any:
        return side_of_bench([bench_entries.result(ours_s, bench_entries.peer("onednn", theirs_s))], str(ours_s))

    quick = side(2e-4, 3e-4)
    assert set(compare_sides(quick, side(2.4e-4, 3.6e-4)).counts()) == {Change.UNCHANGED}
    assert set(compare_sides(quick, side(2.4e-4, 3e-4)).counts()) == {Change.SLOWER}


def test_a_bench_that_was_printed_without_repeats_is_read(tmp_path: Path) -> None:
    """As versions before printed it."""
    found = bench_json([bench_entries.result(2e-4, bench_entries.peer("onnxruntime", 2.1e-4))])
    for row in found["layers"]:
        for name in ("times_s", "peaks_ops_per_s", "device"):
            del row[name]
        for each in row["peers"]:
            del each["times_s"]
    (tmp_path / "old.json").write_text(json.dumps(found))
    (layer,) = read_side(str(tmp_path / "old.json")).layers.values()
    assert (layer.times_s, layer.references) == ((), {})


def test_models_of_a_bench(tmp_path: Path) -> None:
    runtimes = [{"name": "int8tune", "version": "1", "times_s": [1e-3] * 6, "times_ours": None, "failure": ""}]
    runtimes += [{"name": "onnxruntime", "version": "1.31", "times_s": [2e-3] * 6, "times_ours": None, "failure": ""}]
    path = tmp_path / "models.json"
    path.write_text(json.dumps([{"model": "net", "threads": 2, "runtimes": runtimes, "disturbance": ""}]))
    side = read_side(str(path))
    assert side.conditions.threads == "2"
    assert side.layers["net"].references == {"onnxruntime 1.31": (2e-3,) * 6}


def test_a_file_of_pytest_benchmark(tmp_path: Path) -> None:
    side = read_side(str(PYTEST))
    assert list(side.layers) == ["test_speed.py::test_sum", "conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8"]
    known = json.loads(PYTEST.read_text())
    assert side.conditions.cpu == known["machine_info"]["cpu"]["brand_raw"]
    assert side.conditions.target == "x86-avx512vnni"
    layer = side.layers["test_speed.py::test_sum"]
    assert layer.time == known["benchmarks"][0]["stats"]["median"]
    assert layer.error is not None
    assert 0 < layer.error < 0.1
    for row in known["benchmarks"]:
        row["stats"]["median"] *= 1.5
    (tmp_path / "slower.json").write_text(json.dumps(known))
    assert compare_sides(side, read_side(str(tmp_path / "slower.json"))).counts() == {Change.SLOWER: 2}


def test_what_a_bench_wrote_for_pytest_benchmark_has_its_libraries_beside_it(tmp_path: Path) -> None:
    results = [bench_entries.result(2e-4, bench_entries.peer("onnxruntime", 2.1e-4))]
    write_benchmarks(tmp_path / "bench.json", of_layers(results), "AMD EPYC 9B45", "")
    side, stored = read_side(str(tmp_path / "bench.json")), side_of_bench(results, "store")
    assert side.conditions == stored.conditions
    ((key, layer),) = side.layers.items()
    assert (key, layer.times_s) == (bench_entries.CONV, results[0].ours.times_s)
    assert layer.references == {"onnxruntime 1.0": results[0].peers[0].times_s}
    assert compare_sides(side, stored).counts() == {Change.UNCHANGED: 1}


def damaged_store(path: Path) -> None:
    with SqliteStore(path) as store:
        store.append([campaign(), ok(0, chosen=candidate(0))])
    content = bytearray(path.read_bytes())
    content[3000:6000] = os.urandom(3000)
    path.write_bytes(content)


def changed(**values: Any) -> Callable[[Path], None]:
    """A pytest-benchmark file with other values of its first benchmark."""

    def write(path: Path) -> None:
        known = json.loads(PYTEST.read_text())
        for name, value in values.items():
            known["benchmarks"][0]["stats"][name] = value
        path.write_text(json.dumps(known))

    return write


AUTOTVM = (
    '{"input": ["llvm", "dense_int8.x86", [["TENSOR", [1, 64], "uint8"], ["TENSOR", [10, 64], "int8"], null, "int32"], '
    '{}], "config": {"index": 3, "code_hash": null, "entity": []}, "result": [[0.0001], 0, 1.5, 1600000000.0], '
    '"version": 0.2, "tvm_version": "0.19.0"}\n'
)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b""), r"the file is empty \(0 bytes\)"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n"), r'neither records nor a best log nor JSON \(it begins with "'),
        (lambda path: path.write_text("{"), "not a file of results "),
        (lambda path: path.write_text("[]"), "JSON, but neither of "),
        (lambda path: path.write_text('{"layers": []}'), "JSON, but neither of "),
        (lambda path: path.write_text('{"benchmarks": 7}'), "not a file of results "),
        (lambda path: path.write_text('{"benchmarks": [{}]}'), "not a file of results .it lacks 'stats'"),
        (lambda path: path.write_text("[" * 5000), "not a file of results .*nested too deeply"),
        (lambda path: path.write_text(AUTOTVM), "a log of AutoTVM, which times 32-bit sums and not layers"),
        (lambda path: path.write_text(2 * AUTOTVM), "a log of AutoTVM, which times 32-bit sums and not layers"),
        (changed(median=-1.0), "times must be over 0: -1.0"),
        (changed(median=0), "times must be over 0"),
        (changed(median="fast"), "must be a finite number"),
        (changed(data=[1.0, None]), "must be a finite number"),
        (lambda path: path.mkdir(), "no such results file"),
        (lambda path: path.write_text('{"int8tune_best_log": 1}\n{}\n'), "workload: missing"),
        (lambda path: path.write_text('{"int8tune_best_log": 1}\n'), "the best log has no schedule"),
        (lambda path: path.write_text('{"int8tune_best_log": 99}\n'), "int8tune_best_log: 99, allowed: 1"),
        (damaged_store, "the results file is damaged"),
        (lambda path: SqliteStore(path).close(), "the records have no campaign"),
        (lambda path: os.mkfifo(path), "not a file"),
    ],
)
def test_what_can_not_be_read_is_one_line(make: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    make(path)
    with pytest.raises(ResultsError, match=said) as raised:
        read_side(str(path))
    if not isinstance(raised.value, BestLogError):
        assert isinstance(raised.value, ComparisonError | StoreError)
        assert "\n" not in str(raised.value)
        assert str(path) in str(raised.value)


def test_best_logs_of_several_targets_and_campaigns_of_files_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "best.jsonl"
    write_best_log(log, [schedule(), schedule(target="arm-neon")])
    with pytest.raises(ComparisonError, match=r"schedules of several targets \(arm-neon, x86-vnni\)"):
        read_side(str(log))
    with pytest.raises(ComparisonError, match="only records have campaigns, leave `::c1` out"):
        read_side(f"{log}::c1")


def test_a_side_of_trials_that_were_seen_is_the_side_of_those_that_are_read(tmp_path: Path) -> None:
    """A page has read all trials: with what they said, a side reads those that decide, and says the same."""
    with SqliteStore(tmp_path / "records.db") as store:
        fill(store)
        chosen = [candidate(number, "dense-s8s8-1x8-o8-s32") for number in range(6)]
        store.append(
            [campaign("estimates"), *(estimated(n, 2e6 - n, chosen=chosen[n], name="estimates") for n in range(4))]
        )
        store.append(
            [campaign("failures"), failed(0, name="failures"), *(ok(n, 1e-3 / n, name="failures") for n in (1, 2))]
        )
        store.append([campaign("other"), ok(0, chosen=candidate(0, target="other"), name="other"), ok(1, name="other")])
        store.append([campaign("empty")])
        for each in list(store.query(Campaign)):
            seen = SeenTrials()
            for trial in store.query(Trial, campaign=each.name):
                seen.add(trial)
            assert side_of_campaign(store, each, "here", seen) == side_of_campaign(store, each, "here")


def test_an_index_reads_a_campaigns_trials_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str | None] = []

    class Watched(SqliteStore):
        def query(self, kind: Any, **filters: str | None) -> Any:
            if kind is Trial:
                read.append(filters.get("campaign"))
            return super().query(kind, **filters)

    monkeypatch.setattr(
        "int8tune.tuner.api.index.open_store", lambda place, **_: Watched(Path(place) / "records.db", readonly=True)
    )
    assert write_index(tmp_path / "site", [folder]).campaigns == 2
    assert read == ["c1", "c2"]

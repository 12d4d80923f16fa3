"""Which schedule is best, and the best log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from int8tune.results.base import Store
from int8tune.results.best import BestSchedule, best_schedules
from int8tune.results.best_log import read_best_log, write_best_log
from int8tune.results.errors import BestLogError, ExportError
from int8tune.results.memory import MemoryStore
from int8tune.results.record import CacheMode, Candidate, Outcome
from int8tune.results.stats import Speedup
from tests.support.places import PYTHON_PATH
from tests.support.program.results_samples import DEVICE, LAYER, TARGET, campaign, candidate, duel, failed, ok

pytestmark = pytest.mark.promise(16)

OTHER = "dense-u8s8-1x64-o10-s32"


@pytest.fixture
def store() -> Store:
    store = MemoryStore()
    store.append([campaign("c1"), campaign("c2")])
    return store


def _tiles(store: Store, **filters: Any) -> list[object]:
    return [best.candidate.config["tile"] for best in best_schedules(store, **filters)]


def test_a_challenger_that_won_its_duel_is_best(store: Store) -> None:
    store.append([ok(0, 1e-3), ok(1, 5e-4), ok(2, 8e-4), duel(candidate(0), candidate(2), 1.25)])
    (best,) = best_schedules(store)
    assert best.candidate == candidate(2)
    assert (best.workload, best.target, best.device) == (LAYER, TARGET, DEVICE)
    assert (best.campaign, best.sequence, best.default_candidate) == ("c1", 2, candidate(0).id)
    assert best.median_s == pytest.approx(8e-4, rel=0.01)
    assert best.speedup is not None
    assert best.speedup.low < 1.25 < best.speedup.high
    assert not best.is_default


def test_a_faster_looking_candidate_without_a_duel_is_not_best(store: Store) -> None:
    store.append([ok(0, 1e-3), ok(1, 1e-6)])
    (best,) = best_schedules(store)
    assert best.is_default
    assert best.speedup == Speedup(1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("gain", "noise", "pairs"), [(0.98, 0.09, 20), (1.004, 0.0001, 20), (0.8, 0.001, 20), (2.0, 0.01, 4)]
)
def test_a_duel_that_proves_nothing_leaves_the_default(store: Store, gain: float, noise: float, pairs: int) -> None:
    store.append([ok(0), ok(1, 5e-4), duel(candidate(0), candidate(1), gain, noise=noise, pairs=pairs)])
    assert _tiles(store) == [0]


def test_the_smallest_gain_that_matters_can_be_set(store: Store) -> None:
    store.append([ok(0), ok(1), duel(candidate(0), candidate(1), 1.03, noise=0.001)])
    assert _tiles(store, min_gain=0.02) == [1]
    assert _tiles(store, min_gain=0.05) == [0]


def test_all_duels_of_a_pair_count(store: Store) -> None:
    lucky = duel(candidate(0), candidate(1), 1.1, noise=0.001, pairs=10)
    unlucky = duel(candidate(0), candidate(1), 0.9, noise=0.001, pairs=30)
    store.append([ok(0), ok(1), unlucky, lucky])
    assert _tiles(store) == [0]


def test_the_largest_gain_wins(store: Store) -> None:
    store.append([ok(0), ok(1), ok(2), ok(3)])
    store.append([duel(candidate(0), candidate(tile), gain) for tile, gain in ((1, 1.2), (2, 1.5), (3, 1.3))])
    assert _tiles(store) == [2]


def test_only_the_default_can_be_challenged(store: Store) -> None:
    store.append([ok(0), ok(1), ok(2), duel(candidate(1), candidate(2), 3.0), duel(candidate(2), candidate(0), 3.0)])
    assert _tiles(store) == [0]


@pytest.mark.parametrize("outcome", [Outcome.WRONG_ANSWER, Outcome.RUN_FAILED, Outcome.REJECTED])
def test_a_candidate_that_failed_is_never_best(store: Store, outcome: Outcome) -> None:
    store.append([ok(0), failed(1, outcome), duel(candidate(0), candidate(1), 9.0)])
    assert _tiles(store) == [0]


def test_where_the_default_failed_the_fastest_is_best(store: Store) -> None:
    store.append([failed(0), ok(1, 3e-3), ok(2, 1e-3), ok(3, 2e-3), duel(candidate(0), candidate(1), 9.0)])
    (best,) = best_schedules(store)
    assert (best.sequence, best.speedup, best.default_candidate) == (2, None, candidate(0).id)


def test_where_all_failed_there_is_no_best(store: Store) -> None:
    store.append([failed(0), failed(1)])
    assert best_schedules(store) == []


def test_the_default_is_the_first_of_its_workload_and_device(store: Store) -> None:
    other = [candidate(tile, OTHER) for tile in (5, 6)]
    store.append([ok(7, chosen=other[1]), ok(6, chosen=other[0]), ok(1), ok(0), replace(ok(2), device="pi3")])
    found = [(best.workload, best.device, best.sequence) for best in best_schedules(store)]
    assert found == [(LAYER, DEVICE, 0), (LAYER, "pi3", 2), (OTHER, DEVICE, 6)]
    assert [best.sequence for best in best_schedules(store, workload=OTHER)] == [6]
    assert [best.sequence for best in best_schedules(store, device="pi3")] == [2]


def test_cold_records_are_never_best_among_warm_ones(store: Store) -> None:
    cold = {"cache": "cold"}
    store.append([ok(0), replace(ok(0, name="c2"), environment=cold), replace(ok(1, name="c2"), environment=cold)])
    store.append([replace(duel(candidate(0), candidate(1), 1.5, name="c2"), environment=cold)])
    assert _tiles(store) == _tiles(store, cache=CacheMode.WARM) == [0]
    assert _tiles(store, cache=CacheMode.COLD) == _tiles(store, campaign="c2") == [1]
    assert _tiles(store, campaign="c2", cache=CacheMode.WARM) == []


def test_a_duel_counts_in_its_own_campaign_only(store: Store) -> None:
    store.append([ok(0), ok(1), ok(0, name="c2"), ok(1, name="c2"), duel(candidate(0), candidate(1), 1.5)])
    (best,) = best_schedules(store)
    assert (best.campaign, best.sequence) == ("c1", 1)
    assert [best.is_default for best in best_schedules(store, campaign="c2")] == [True]


def test_the_latest_campaign_with_a_winner_counts(store: Store) -> None:
    for name, tile, gain in (("c1", 1, 2.0), ("c2", 2, 1.2)):
        store.append([ok(0, name=name), ok(tile, name=name), duel(candidate(0), candidate(tile), gain, name=name)])
    (best,) = best_schedules(store)
    assert (best.campaign, best.candidate) == ("c2", candidate(2))


def test_without_a_winner_the_latest_campaign_counts(store: Store) -> None:
    store.append([ok(0, 1e-3), ok(0, 2e-3, name="c2")])
    assert [best.campaign for best in best_schedules(store)] == ["c2"]


def _schedule(tile: int = 1, workload: str = LAYER, speedup: Speedup | None = None) -> BestSchedule:
    chosen = candidate(tile, workload)
    return BestSchedule(workload, TARGET, DEVICE, chosen, 1.25e-4, candidate(0, workload).id, speedup, "c1", 4)


WINNER = _schedule(3, speedup=Speedup(1.5, 1.25, 1.75))


def test_a_best_log_is_read_back(tmp_path: Path) -> None:
    schedules = [WINNER, _schedule(0, OTHER, Speedup(1.0, 1.0, 1.0))]
    write_best_log(tmp_path / "best.jsonl", schedules)
    assert read_best_log(tmp_path / "best.jsonl") == schedules
    assert (tmp_path / "best.jsonl").read_text().splitlines()[0] == '{"int8tune_best_log": 1}'
    write_best_log(tmp_path / "best.jsonl", [])
    assert read_best_log(tmp_path / "best.jsonl") == []


printable = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
knobs = st.integers(-(2**63), 2**63 - 1) | st.booleans() | printable


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.tuples(printable, printable, printable, printable),
    config=st.dictionaries(printable, knobs, max_size=6),
    median_s=st.floats(min_value=5e-324, max_value=1e300),
    gains=st.lists(st.floats(1.001, 1e6), min_size=3, max_size=3).map(sorted),
)
def test_any_schedule_survives_the_log(
    tmp_path: Path, names: tuple[str, str, str, str], config: Any, median_s: float, gains: list[float]
) -> None:
    workload, target, device, template = names
    chosen = Candidate(workload, target, template, 3, config)
    speedup = Speedup(gains[1], gains[0], gains[2])
    best = BestSchedule(workload, target, device, chosen, median_s, candidate(0).id, speedup, "c1", 4)
    write_best_log(tmp_path / "best.jsonl", [best])
    assert read_best_log(tmp_path / "best.jsonl") == [best]


def _log(path: Path, *lines: object) -> Path:
    header = '{"int8tune_best_log": 1}'
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in (header, *lines)))
    return path


def _line(tmp_path: Path, **changes: object) -> dict[str, object]:
    write_best_log(tmp_path / "good.jsonl", [WINNER])
    values: dict[str, object] = json.loads((tmp_path / "good.jsonl").read_text().splitlines()[1])
    return {name: value for name, value in (values | changes).items() if value is not ...}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"median_s": float("nan")}, "median_s: must be seconds, a finite number over 0: NaN"),
        ({"median_s": float("inf")}, "median_s: must be seconds, a finite number over 0: Infinity"),
        ({"median_s": 0}, "median_s: must be seconds, a finite number over 0: 0"),
        ({"median_s": -1.0}, "median_s: must be seconds, a finite number over 0: -1.0"),
        ({"median_s": True}, "median_s: must be seconds, a finite number over 0: true"),
        ({"median_s": 10**400}, f"median_s: must be seconds, a finite number over 0: 1{'0' * 79}..."),
        ({"median_s": ...}, "median_s: missing"),
        ({"medain_s": 1.0}, "medain_s: unknown field, did you mean `median_s`"),
        ({"workload": ""}, 'workload: must be a text of 1 to 512 printable characters: ""'),
        ({"workload": "a\x1b[31m"}, r'workload: must be a text of 1 to 512 printable characters: "a\u001b[31m"'),
        ({"target": 7}, "target: must be a text of 1 to 512 printable characters: 7"),
        ({"campaign": "../x"}, 'campaign: must be 1 to 64 letters, digits, `.`, `_`, `-`: "../x"'),
        ({"sequence": -1}, "sequence: must be an integer of at least 0: -1"),
        ({"sequence": 1.5}, "sequence: must be an integer of at least 0: 1.5"),
        ({"candidate": "0" * 20}, f"candidate: {'0' * 20}, allowed: the id of this schedule, {candidate(3).id}"),
        ({"default_candidate": "x"}, 'default_candidate: must be 20 hexadecimal digits: "x"'),
        ({"config": {"tile": 1.5}}, "config: must be an object of at most 64 knobs, each an integer"),
        ({"config": {"lanes": 8, "tile": None}}, "config: must be an object of at most 64 knobs, each an integer"),
        ({"config": []}, "config: must be an object of at most 64 knobs, each an integer, a text or a boolean: a list"),
        ({"config": {str(n): 1 for n in range(65)}}, "config: "),
        ({"speedup": {"estimate": 1.5, "low": 1.2}}, "speedup.high: missing"),
        ({"speedup": {"estimate": 1.5, "low": 1.6, "high": 2}}, "speedup: a speedup needs 0 < low <= "),
        ({"speedup": {"estimate": 1.5, "low": 1.2, "high": 2, "median": 1}}, "speedup.median: unknown field, known: "),
        (
            {"speedup": {"estimate": 1.5, "low": 1.2, "high": float("nan")}},
            "speedup.high: must be a number over 0: NaN",
        ),
        ({"speedup": {"estimate": 1.5, "low": 0.9, "high": 2}}, "speedup: low 0.9, allowed: over 1"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, changes: dict[str, object], fault: str) -> None:
    path = _log(tmp_path / "b.jsonl", _line(tmp_path, **changes))
    with pytest.raises(BestLogError) as error:
        read_best_log(path)
    assert len(error.value.faults) == 1
    assert error.value.faults[0].startswith(f"{path}:2: {fault}")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "not JSON (column 1: Expecting value)"),
        ("{", "not JSON (column 2: Expecting property name enclosed in double quotes)"),
        ("null", "not a JSON object: 'null'"),
        ('["\x1b"]', "not JSON (column 3: Invalid control character at)"),
        ("[" * 100_000, "lists and objects are nested too deeply"),
        ('{"sequence": 1, "sequence": 2}', 'a name is there twice: "sequence"'),
        ('{"sequence": ' + "9" * 5000 + "}", "a number has too many digits, at most 4300: "),
    ],
)
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str, fault: str) -> None:
    path = _log(tmp_path / "b.jsonl", _line(tmp_path), line)
    with pytest.raises(BestLogError) as error:
        read_best_log(path)
    assert [found.startswith(f"{path}:3: {fault}") for found in error.value.faults] == [True]


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    bad = _line(tmp_path, median_s="fast", sequence=None, tile=4)
    path = _log(tmp_path / "b.jsonl", bad, _line(tmp_path), _line(tmp_path), {"a": 1})
    with pytest.raises(BestLogError) as error:
        read_best_log(path)
    places = [fault.split(": ")[0].removeprefix(f"{path}:") for fault in error.value.faults]
    assert places == ["2", "2", "2", "4", *["5"] * 13]
    assert "is there for this target and device already, in line 3" in error.value.faults[3]
    assert str(error.value) == "\n".join(error.value.faults)


def test_endless_faults_end(tmp_path: Path) -> None:
    path = _log(tmp_path / "b.jsonl", *["null"] * 500)
    with pytest.raises(BestLogError) as error:
        read_best_log(path)
    assert len(error.value.faults) == 101
    assert error.value.faults[-1] == f"{path}: more than 100 faults, the rest was not read"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "the best log is empty (0 bytes): {path}"),
        (b"\x89PNG\r\n", "{path}:1: not UTF-8 (byte 1 of the line)"),
        (b"{}\n", "{path}:1: not a best log, which starts with {{\"int8tune_best_log\": 1}}: '{{}}'"),
        (b"\n", "{path}:1: not a best log: not JSON"),
        (b'{"int8tune_best_log": 2}\n', "{path}:1: int8tune_best_log: 2, allowed: 1"),
        (b'{"int8tune_best_log": true}\n', "{path}:1: not a best log, which starts with"),
        (b'{"int8tune_best_log": 1}\n{"\xff": 1}\n', "{path}:2: not UTF-8 (byte 3 of the line)"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "b.jsonl"
    path.write_bytes(content)
    with pytest.raises(BestLogError) as error:
        read_best_log(path)
    assert error.value.faults[0].startswith(fault.format(path=path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BestLogError, match="no such best log"):
        read_best_log(tmp_path / "none")
    with pytest.raises(BestLogError, match="not a file"):
        read_best_log(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = _log(tmp_path / "b.jsonl")
    with path.open("r+b") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(BestLogError, match="the best log has over 67108864 bytes"):
        read_best_log(path)


WRITE_TOO_MUCH = """
import pathlib, resource, sys
from int8tune.results.atomic import write_atomic
from int8tune.results.errors import ExportError
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
try:
    write_atomic(pathlib.Path(sys.argv[1]), "x" * 20_000)
except ExportError as error:
    print(error)
"""


def test_a_write_that_fails_leaves_the_old_log(tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    write_best_log(path, [WINNER])
    done = subprocess.run(
        [sys.executable, "-c", WRITE_TOO_MUCH, path],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
    )
    assert done.stdout == f"the file can't be written (File too large): {path}\n"
    assert read_best_log(path) == [WINNER]
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_can_not_replace_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=f"the file can't be written .*: {tmp_path / 'none' / 'b.jsonl'}"):
        write_best_log(tmp_path / "none" / "b.jsonl", [WINNER])
    (tmp_path / "folder").mkdir()
    with pytest.raises(ExportError, match="Is a directory"):
        write_best_log(tmp_path / "folder", [WINNER])
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_link_to_a_log_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "best.jsonl").symlink_to(tmp_path / "real" / "best.jsonl")
    write_best_log(tmp_path / "best.jsonl", [WINNER])
    assert (tmp_path / "best.jsonl").is_symlink()
    assert read_best_log(tmp_path / "real" / "best.jsonl") == [WINNER]

"""The fixture `int8tune_benchmark`, in tests of somebody else's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from int8tune.results.best import BestSchedule
from int8tune.results.best_log import write_best_log
from int8tune.results.record import Candidate
from int8tune.results.stats import ITSELF
from int8tune.schedules.registry import template_named
from int8tune.schedules.workload import parse_workload
from int8tune.tuner import pinned
from int8tune.tuner.models.schedules import device_target
from tests.support.places import ROOT

# pytester forgets what was imported meanwhile, and TVM can't be imported twice.
assert pinned

PLUGIN = "int8tune.tuner.pytest_plugin"
LAYER = "conv2d-u8s8-1x14x14x64-k1x1x64-s1-p0-float.c-u8"
LABEL = "conv2d 1x1 14x14x64->64"
# An environment that was made before the entry point was there names the plugin itself.
NAMED = [] if any(each.value == PLUGIN for each in entry_points(group="pytest11")) else ["-p", PLUGIN]


@pytest.fixture
def best_log(tmp_path: Path) -> Path:
    """A schedule that computes a column at a time, which is slower than the default."""
    target, template = device_target("generic", 1), template_named("generic.direct")
    space = template.space(parse_workload(LAYER), target)
    slow = space.written({**space.default, "tile_columns": 1, "tile_blocks": 1})
    chosen = Candidate(LAYER, target.name, template.name, template.version, slow)
    path = tmp_path / "best.jsonl"
    write_best_log(path, [BestSchedule(LAYER, target.name, "local", chosen, 1e-4, chosen.id, ITSELF, "c1", 0)])
    return path


def write_test(pytester: pytest.Pytester, call: str) -> None:
    pytester.makepyfile(f"def test_speed(int8tune_benchmark):\n    print('gave', int8tune_benchmark({call}))\n")


def ran(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*NAMED, "-rN", "-s", "--color=no", *options)


def failures(ran: pytest.RunResult) -> list[str]:
    """What a failed test says, without the frame around it."""
    lines = ran.outlines[ran.outlines.index(next(line for line in ran.outlines if "test_speed ___" in line)) + 1 :]
    return [line for line in lines[: next(i for i, line in enumerate(lines) if line.startswith("==="))] if line]


def test_it_is_registered_and_imports_next_to_nothing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"int8tune": PLUGIN}
    imported = f"import pytest, sys; before = set(sys.modules); import {PLUGIN}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) <= {"int8tune", "int8tune.tuner", PLUGIN, "__future__", "dataclasses"}


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-skip"])
def test_without_benchmarks_nothing_is_timed(pytester: pytest.Pytester, best_log: Path, option: str) -> None:
    write_test(pytester, f"{LAYER!r}, best_log={str(best_log)!r}, min_ratio=1e9, target='generic'")
    found = ran(pytester, option)
    if option == "--benchmark-skip":
        found.assert_outcomes(skipped=1)
    else:
        found.assert_outcomes(passed=1)
        found.stdout.fnmatch_lines(["*gave None*"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("{layer!r}, best_log='no.jsonl'", r"no\.jsonl.*; hint: .+"),
        ("{layer!r}, best_log={log!r}, baseline='no.jsonl', target='generic'", r"no\.jsonl.*; hint: .+"),
        (
            "'conv2d-u8s8-1x9x9x64-k1x1x64-s1-p0-float.c-u8', best_log={log!r}, target='generic'",
            r"no schedule of conv2d-u8s8-1x9x9.* for generic\S* in the best log: .*best\.jsonl; "
            r"hint: see what it has: int8tune results best --log FILE",
        ),
        ("'conv2d-what', best_log={log!r}", r".*conv2d-what.*; hint: .+"),
        ("'no.onnx', best_log={log!r}", r".*no\.onnx.*; hint: .+"),
        ("{layer!r}, best_log={log!r}, threads=999", r"threads must be 1 to \d+, .*: 999; hint: .+"),
    ],
    ids=["no best log", "no baseline", "not in the log", "no key", "no model", "too many threads"],
)
def test_what_cannot_be_timed_fails_in_one_line(
    pytester: pytest.Pytester, best_log: Path, call: str, message: str
) -> None:
    write_test(pytester, call.format(layer=LAYER, log=str(best_log)))
    found = ran(pytester, "--benchmark-disable")
    found.assert_outcomes(failed=1)
    (line,) = failures(found)
    assert re.search(message, line), line


@pytest.mark.thorough
@pytest.mark.alone
def test_a_layer_that_became_slower_fails_and_is_kept(pytester: pytest.Pytester, best_log: Path) -> None:
    write_test(pytester, f"{LAYER!r}, best_log={str(best_log)!r}, min_ratio=1.0, target='generic'")
    found = ran(pytester, "--benchmark-enable", "--benchmark-json=b.json")
    found.assert_outcomes(failed=1)
    (line,) = [line for line in failures(found) if "times as fast" in line]
    number = r"0\.\d+"
    assert re.fullmatch(
        rf"{LABEL} is {number} \[{number}, {number}\] times as fast as its default, at least 1 is wanted", line
    ), line
    ours, default = json.loads((pytester.path / "b.json").read_text())["benchmarks"]
    assert (ours["name"], default["name"]) == ("test_speed", "test_speed (compared with)")
    assert ours["group"] == default["group"] == LABEL
    assert ours["stats"]["median"] > default["stats"]["median"]
    assert len(ours["stats"]["data"]) == len(default["stats"]["data"]) > 10


@pytest.mark.thorough
@pytest.mark.alone
def test_a_layer_beside_itself_passes(pytester: pytest.Pytester, best_log: Path) -> None:
    log = repr(str(best_log))
    write_test(pytester, f"{LAYER!r}, best_log={log}, baseline={log}, min_ratio=0.9, target='generic'")
    found = ran(pytester, "--benchmark-enable", "-p", "no:benchmark")
    assert found.ret == pytest.ExitCode.USAGE_ERROR  # no such option without that plugin
    found = ran(pytester, "-p", "no:benchmark")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*gave Speedup(estimate=*"])


@pytest.mark.thorough
@pytest.mark.alone
def test_a_model_is_timed_whole(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """By a best log without any schedule, it is the same as by default."""
    pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
    from tests.support.models.onnx_models import MODELS, quantized

    quantized(MODELS["head"](), tmp_path, "u8", "s8", True)
    write_best_log(tmp_path / "none.jsonl", [])
    model, log = str(tmp_path / "quantized.onnx"), str(tmp_path / "none.jsonl")
    write_test(pytester, f"{model!r}, best_log={log!r}, min_ratio=0.5, target='generic'")
    found = ran(pytester, "--benchmark-enable")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*gave Speedup(estimate=*"])

"""What commands print of values that are given here: words, columns, and JSON where it is asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from int8tune.results.store import SqliteStore
from int8tune.tuner.cli.bundle import _say_made
from int8tune.tuner.cli.compile import _cells
from int8tune.tuner.cli.lab import _explain
from int8tune.tuner.cli.options import Format
from int8tune.tuner.cli.simulate import _waits
from tests.support.program.cli_program import in_process
from tests.support.program.results_samples import campaign

LAYER = "conv2d-u8s8-1x8x8x48-k1x1x64-s1-p0-float.c-u8"


@pytest.mark.parametrize(("count", "words"), [(1, "1 session on"), (1200, "1,200 sessions on")])
def test_a_bundle_says_how_many_sessions_it_has(
    count: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = SimpleNamespace(items=range(count), campaign="c", device="pi")
    bundle = SimpleNamespace(manifest=manifest, path=tmp_path / "c.pyz", id="0" * 64)
    made: Any = SimpleNamespace(bundle=bundle, number=1, is_new=True, size_bytes=2 << 20, own_bytes=1 << 20)
    _say_made(made, tmp_path)
    assert f"bundle 1 of c: {words} pi\n" in capsys.readouterr().err


def test_a_call_without_a_schedule_has_an_empty_cell() -> None:
    call: dict[str, Any] = {"computes": "conv2d", "layers": ["a", "b"], "schedule": None}
    assert _cells(call) == ("conv2d", "", "a; b")
    call["schedule"] = {"template": "x86.conv", "source": "record"}
    assert _cells(call) == ("conv2d", "x86.conv, record", "a; b")


def test_numbers_of_waits_end_below_their_heads() -> None:
    one = SimpleNamespace(name="queue", count=12_345, mean_s=1.0, median_s=20.0, p99_s=300.0, longest_s=4000.0)
    other = SimpleNamespace(name="run", count=1, mean_s=4000.0, median_s=300.0, p99_s=20.0, longest_s=1.0)
    lines = _waits((one, other)).splitlines()
    ends = [[found.end() for found in re.finditer(r"\S+(?: \S+)*", line)][1:] for line in lines]
    assert len(lines) == 3
    assert ends[0] == ends[1] == ends[2]


def test_explanations_are_json_where_they_are_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("int8tune.tuner.lab.explain.explain", lambda _: [])
    nothing: Any = None
    _explain(nothing, Format.JSON)
    assert json.loads(capsys.readouterr().out) == []
    _explain(nothing, Format.TABLE)
    assert capsys.readouterr() == ("", "a model needs two recorded layers of a template\n")


def test_a_suggestion_is_json_where_it_is_to_be(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([campaign("c1", {})])
    words = ("results", "suggest", LAYER, "--results", tmp_path, "--target", "generic")
    (found,) = json.loads(in_process(*words, "--format", "json").out)
    assert found["candidate"]["workload"] == LAYER
    shown = in_process(*words).out
    assert shown.startswith("conv2d 1x1 8x8x48->64")
    assert f"\n    {found['candidate']['template']} " in shown

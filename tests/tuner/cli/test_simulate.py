"""`int8tune simulate`: what a farm would do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program.cli_program import in_process, int8tune

FARM = """\
[[boards]]
name = "one"
transport = "simulated"
target = "generic"
canary_every = 20
simulation = {{ {one} }}

[[boards]]
name = "two"
transport = "simulated"
target = "generic"
canary_every = 20
"""


def write_farm(folder: Path, one: str = "speed = 1.0") -> Path:
    path = folder / "farm.toml"
    path.write_text(FARM.format(one=one))
    return path


def simulated(*arguments: object) -> dict[str, object]:
    ended = in_process("simulate", *arguments, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(ended.out)
    assert isinstance(report, dict)
    return report


def test_a_farm_in_numbers(tmp_path: Path) -> None:
    report = simulated(write_farm(tmp_path), "--trials", 400, "--campaigns", 2)
    assert report["simulated"] is True
    assert sum(report["verdicts"].values()) == report["trials"] == 400  # type: ignore[attr-defined]
    assert [*report["verdicts"]] == ["crashed", "ok", "timed-out", "wrong"]  # type: ignore[misc]
    assert [use["board"] for use in report["boards"]] == ["one", "two"]  # type: ignore[attr-defined]
    assert {wait["name"] for wait in report["waits"]} == {  # type: ignore[attr-defined]
        "answer",
        "confirmation",
        "connect",
        "queue",
        "run",
        "total",
        "transfer",
    }
    assert report["campaigns_s"].keys() == {"campaign-1", "campaign-2"}  # type: ignore[attr-defined]
    assert report["utilisation"] > 0.7  # type: ignore[operator]


@pytest.mark.thorough
def test_the_same_seed_says_the_same_and_more_boards_are_faster(tmp_path: Path) -> None:
    farm = write_farm(tmp_path, "crash_per_h = 60, noise = 0.02")
    first = int8tune("simulate", farm, "--trials", 300, "--seed", 7)
    assert first.code == 0
    assert int8tune("simulate", farm, "--trials", 300, "--seed", 7).out == first.out
    assert int8tune("simulate", farm, "--trials", 300, "--seed", 8).out != first.out
    well = write_farm(tmp_path)
    few = simulated(well, "--trials", 1200, "--boards", 2)
    many = simulated(well, "--trials", 1200, "--boards", 8)
    assert many["duration_s"] < 0.4 * few["duration_s"]  # type: ignore[operator]


def test_a_sick_board_is_found(tmp_path: Path) -> None:
    farm = write_farm(tmp_path, "slow_per_h = 120, fault_s = 1e5")
    report = simulated(farm, "--trials", 1500)
    found = [sick for sick in report["found"] if sick["after_s"] is not None]  # type: ignore[attr-defined]
    assert found
    assert all(sick["board"] == "one" and sick["after_trials"] <= 20 for sick in found)
    shown = int8tune("simulate", farm, "--trials", 1500)
    assert "sick boards found" in shown.out
    assert "one" in shown.out


def test_a_canary_may_take_a_thousandth_of_a_second(tmp_path: Path) -> None:
    assert simulated(write_farm(tmp_path, "canary_s = 0.001"), "--trials", 20)["trials"] == 20


@pytest.mark.parametrize(
    ("one", "message"),
    [
        ("sped = 2.0", "boards[0].simulation.sped: unknown field, did you mean speed?"),
        ("speed = 0", "boards[0].simulation.speed: must be a number from 0.001 to 1e6: 0"),
    ],
)
def test_a_board_must_say_what_can_be_simulated(tmp_path: Path, one: str, message: str) -> None:
    ended = in_process("simulate", write_farm(tmp_path, one))
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("--boards", "0"),
        ("--trials", "-1"),
        ("--campaigns", "1001"),
        ("--session", "2h"),
        ("--session", "3"),
        ("--bad", "1.5"),
        ("--seed", "-1"),
    ],
    ids=" ".join,
)
def test_what_is_out_of_range_is_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    ended = in_process("simulate", write_farm(tmp_path), *words)
    assert ended.code == 2
    assert ended.errors
    assert "Traceback" not in ended.err

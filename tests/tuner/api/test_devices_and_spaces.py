"""`import int8tune as it`: templates and spaces, races on recordings, boards, bundles."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import int8tune as it
from int8tune.rpc.errors import InventoryError, ProvisionError
from int8tune.schedules.errors import UnknownTemplateError, WorkloadError
from int8tune.tuner.errors import ForeignResultsError, SpecError, UnknownStrategyError
from tests.support.program.cli_program import CONV, DEPTHWISE, write_table

FARM = """
[[boards]]
name = "here"
transport = "local"
tags = ["fast"]

[[boards]]
name = "played"
transport = "simulated"
target = "generic"
simulation = { speed = 2.0 }
"""


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    path = tmp_path / "farm.toml"
    path.write_text(FARM)
    return path


def test_every_template_takes_something() -> None:
    frame = it.templates().to_pandas()
    assert {"x86.conv", "arm.depthwise", "generic.direct"} <= set(frame["name"])
    assert frame[["operators", "targets"]].map(len).to_numpy().all()


def test_a_space_has_knobs_and_a_default() -> None:
    space = it.space("generic.direct", CONV, target="generic")
    assert space.fault(space.default) is None
    assert space.size == len(list(space)) > 1
    with pytest.raises(WorkloadError, match=r"x86\.conv does not take this layer"):
        it.space("x86.conv", DEPTHWISE)
    with pytest.raises(UnknownTemplateError):
        it.space("x86.con", CONV)


@pytest.mark.thorough
def test_strategies_race_without_a_device() -> None:
    found = it.lab(strategies=["random", "grid"], seeds=1, trials=8, only="conv2d.*k1x1")
    frame = found.to_pandas()
    assert set(frame["strategy"]) == {"random", "grid"}
    assert frame["share_of_best"].between(0, 1).all()
    assert [each.strategy for each in found.standings] == list(frame["strategy"].unique())
    with pytest.raises(SpecError, match="seeds must be 1 to 1000: 0"):
        it.lab(seeds=0)
    with pytest.raises(SpecError, match=r"none of the .* layers matches `only`: conv9d"):
        it.lab(only="conv9d")
    with pytest.raises(UnknownStrategyError, match="unknown search strategy `best`, known: "):
        it.lab(strategies=["best"])


class TestBoards:
    def test_they_are_listed_and_not_touched(self, farm: Path) -> None:
        frame = it.devices(farm).to_pandas()
        assert list(frame["board"]) == ["here", "played"]
        assert list(frame["tags"]) == ["fast", "-"]
        assert list(frame["state"]) == ["idle", "idle"]
        with pytest.raises(InventoryError):
            it.devices(farm.with_name("missing.toml"))

    def test_one_without_an_agent_is_not_checked(self, farm: Path) -> None:
        with pytest.raises(ProvisionError, match=r"`here` must be a board with transport `ssh` or .*: local"):
            it.check_device("here", inventory=farm)

    def test_a_farm_is_simulated(self, farm: Path) -> None:
        found = it.simulate(farm, boards=6, trials=300, seed=3)
        assert found.to_pandas()["trials"].sum() >= 300
        assert found.report == it.simulate(farm, boards=6, trials=300, seed=3).report

    @pytest.mark.parametrize(
        ("name", "value"),
        [("boards", 0), ("trials", -1), ("campaigns", 1001), ("session_s", 7200), ("bad", 2), ("seed", -1)],
    )
    def test_no_farm_is_simulated_out_of_range(self, farm: Path, name: str, value: int) -> None:
        with pytest.raises(SpecError, match=" must "):
            it.simulate(farm, **{name: value})  # type: ignore[arg-type]


@pytest.mark.thorough
def test_bundles_are_made_and_merged_until_nothing_is_left(tmp_path: Path) -> None:
    table = write_table(tmp_path / "small.json", [{"name": "a", "count": 1, "workload": CONV}])
    asked = {"device": "node7", "target": "generic", "results": tmp_path / "results", "trials": 3, "strategy": "random"}
    made = it.make_bundle(table, **asked).made  # type: ignore[arg-type]
    assert made is not None
    subprocess.run([sys.executable, "-I", "-S", made.bundle.path], cwd=tmp_path, check=True, capture_output=True)
    written = made.bundle.path.with_suffix(".results")
    merged = it.merge_bundles(written, results=tmp_path / "results")
    assert [(each.taken, each.faults) for each in merged.files] == [(len(made.bundle.manifest.items), ())]
    assert merged.campaigns[0].summary.totals.trials == 3
    words = shlex.split(merged.files[0].command)
    assert words[:4] == ["int8tune", "bundle", "make", str(table)]
    assert {"--trials", "--strategy", "--results", "--device", "--target"} == {
        each for each in words if each[:2] == "--"
    }
    last = it.make_bundle(table, **asked)  # type: ignore[arg-type]
    assert last.made is not None or last.campaign is not None
    with pytest.raises(ForeignResultsError):
        it.merge_bundles(written, results=tmp_path / "others")

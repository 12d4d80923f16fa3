"""Parts of other packages: a package that brings one of each kind is installed, found and used in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.places import TESTS
from tests.support.program.cli_program import CONV, int8tune, write_table
from tests.support.run.thinned import one_in

SOURCE = TESTS / "support" / "stand_ins" / "other_package"
Install = Callable[..., Mapping[str, str]]


def install(source: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--disable-pip-version-check", "--target", target, source], check=True, timeout=100)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a process that has the package."""
    folder = tmp_path_factory.mktemp("other")
    source = folder / "source"
    source.mkdir()
    for file in SOURCE.glob("*.*"):
        (source / file.name).write_bytes(file.read_bytes())
    install(source, folder / "site")
    return {"PYTHONPATH": str(folder / "site")}


@pytest.fixture
def broken(tmp_path: Path) -> Callable[[str, str, str], Mapping[str, str]]:
    """Makes the environment of a process that has a package with one entry point."""

    def make(group: str, name: str, value: str) -> Mapping[str, str]:
        about = tmp_path / "site" / "broken-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[int8tune.{group}]\n{name} = {value}\n")
        (tmp_path / "site" / "broken.py").write_text("nothing = None\n")
        return {"PYTHONPATH": str(tmp_path / "site")}

    return make


@pytest.mark.thorough
def test_a_template_and_a_strategy_tune_and_a_store_is_read(installed: Mapping[str, str], tmp_path: Path) -> None:
    table = write_table(tmp_path / "one.json", [{"name": "a", "count": 1, "workload": CONV}], name="one")
    where = ("--results", tmp_path / "results", "--format", "json")
    ended = int8tune(
        "tune", table, "--trials", 2, "--strategy", "backwards", "--target", "generic", *where, env=installed
    )
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["campaign"]["strategy"] == "backwards"
    assert told["totals"]["outcomes"] == {"ok": 2}
    assert told["layers"][0]["best"]["candidate"]["template"] == "other.direct"
    assert told["layers"][0]["best"]["candidate"]["template_version"] == 7
    code = "import sys, int8tune as it; print(*it.records(sys.argv[1]).to_pandas()['template'])"
    command = [sys.executable, "-c", code, f"cellar://{tmp_path / 'results'}"]
    shown = subprocess.check_output(command, env={**os.environ, **installed}, text=True)
    assert shown.split() == ["other.direct", "other.direct"]


@pytest.mark.thorough
def test_a_transport_is_a_board_of_the_inventory(installed: Mapping[str, str], tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    inventory = tmp_path / "farm.toml"
    inventory.write_text(f'[[boards]]\nname = "b"\ntransport = "borrowed"\noptions = {{ core = {core} }}\n')
    table = write_table(tmp_path / "one.json", [{"name": "a", "count": 1, "workload": CONV}], name="one")
    where = ("--results", tmp_path / "results", "--inventory", inventory, "--devices", "b", "--target", "generic")
    ended = int8tune("tune", table, "--trials", 2, "--strategy", "random", *where, "--format", "json", env=installed)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["campaign"]["device"], told["totals"]["outcomes"]) == ("b", {"ok": 2})
    without = int8tune("tune", table, *where)
    assert without.code == 2
    assert "boards[0].transport" in without.err


@pytest.mark.thorough
def test_a_peer_is_compared_with(installed: Mapping[str, str], tmp_path: Path) -> None:
    options = ("--against", "oracle", "--runs", 5, "--run-ms", 1, "--target", "generic", "--format", "json")
    ended = int8tune("bench", CONV, *options, "--results", tmp_path, env=installed)
    assert ended.code == 0, ended.err
    assert [(peer["name"], peer["outcome"]) for peer in json.loads(ended.out)["layers"][0]["peers"]] == [
        ("oracle", "ok")
    ]


@pytest.mark.parametrize(
    ("group", "name", "value", "words", "message"),
    one_in(
        4,
        [
            (
                "templates",
                "x",
                "broken:Missing",
                "templates list",
                "can't be imported (broken:Missing): AttributeError: ",
            ),
            ("templates", "x", "absent:x", "layers bert_base", "can't be imported (absent:x): ModuleNotFoundError: "),
            (
                "templates",
                "x",
                "broken:nothing",
                "templates list",
                "lacks name, version, rejects, space, apply: broken:nothing",
            ),
            ("templates", "x86.conv", "broken:x", "templates list", "has the name of a part of int8tune itself"),
            (
                "strategies",
                "x",
                "absent:x",
                "tune bert_base --strategy x",
                "can't be imported (absent:x): ModuleNotFoundError",
            ),
            ("strategies", "grid", "broken:x", "plan bert_base", "has the name of a part of int8tune itself"),
            ("peers", "onednn", "broken:x", f"bench {CONV}", "has the name of a part of int8tune itself"),
            (
                "transports",
                "x",
                "absent:x",
                "tune bert_base --devices b",
                "can't be imported (absent:x): ModuleNotFoundError",
            ),
        ],
    ),
)
def test_what_is_wrong_with_a_part_is_one_line_that_names_its_package(
    broken: Callable[[str, str, str], Mapping[str, str]],
    tmp_path: Path,
    group: str,
    name: str,
    value: str,
    words: str,
    message: str,
) -> None:
    environment = broken(group, name, value)
    (tmp_path / "farm.toml").write_text('[[boards]]\nname = "b"\ntransport = "x"\n')
    ended = int8tune(*words.split(), env=environment, cwd=tmp_path)
    assert ended.code == 1
    (line,) = ended.errors
    assert line.startswith(f"error: `{name}` of broken 1.0 (int8tune.{group}) {message}")
    assert "hint: mend that package, or remove it: pip uninstall PACKAGE" in ended.err
    assert "Traceback" not in ended.err

"""`int8tune tune --devices`: boards of an inventory measure, this machine's among them; a best log for each target."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.provision import provision
from tests.sshd import Sshd, farm_toml, running_sshd
from tests.support.farm.boards import AT_ANY_SPEED, CACHE, board_behind
from tests.support.program.cli_program import Ended, tune_on_boards

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores, for two boards"),
    pytest.mark.promise(19),
]

TRIALS = 3
OTHERS = f"""
[[boards]]
name = "near"
transport = "local"
target = "generic"
cores = [0]
{AT_ANY_SPEED}
[[boards]]
name = "quiet"
transport = "local"
timing = "none"
cores = [1]

[[boards]]
name = "fake"
transport = "simulated"
target = "generic"

[[boards]]
name = "model"
transport = "mca"
target = "arm-neon"
cpu = "cortex-a53"
architecture = "aarch64"
emulator = "qemu-aarch64-static -cpu cortex-a53 -L /usr/aarch64-linux-gnu"
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def farm(sshd: Sshd) -> Path:
    """An inventory of this machine, twice behind SSH and once in front of it, and of a Cortex-A53."""
    for name in ("here", "there"):
        provision(board_behind(sshd, name, sshd.folder / name), CACHE, upgrade=False, say=print)
    here, a53 = farm_toml(sshd, AT_ANY_SPEED).split("\n\n")
    there = here.replace('"here"', '"there"').replace("/here", "/there").replace("cores = [0]", "cores = [1]")
    path = sshd.folder / "farm.toml"
    # Nobody asks the Cortex-A53 here: its core need not be there.
    path.write_text("\n\n".join([here, a53.replace("cores = [1]", "cores = [4095]"), there, OTHERS]))
    return path


def tune(farm: Path, folder: Path, devices: str, *options: object) -> Ended:
    return tune_on_boards(farm, folder, devices, TRIALS, *options)


def trials(folder: Path) -> list[Trial]:
    with SqliteStore(folder / "results" / "records.db", readonly=True) as store:
        return list(store.query(Trial))


@pytest.mark.thorough
@pytest.mark.alone
def test_two_boards_share_a_campaign(farm: Path, tmp_path: Path) -> None:
    ended = tune(farm, tmp_path, "here,there")
    assert ended.code == 0, ended.err
    found = trials(tmp_path)
    assert [trial.outcome for trial in found] == [Outcome.OK] * 2 * TRIALS
    assert {trial.device for trial in found} == {"here+there"}
    assert {trial.environment["board"] for trial in found} == {"here", "there"}
    assert (tmp_path / "results" / "small.best.jsonl").exists()
    again = tune(farm, tmp_path, "there,here")
    assert again.err.startswith(f"nothing is left to do, {2 * TRIALS} trials are recorded\n")
    assert trials(tmp_path) == found


@pytest.mark.thorough
def test_each_target_has_a_campaign_and_a_best_log(farm: Path, tmp_path: Path) -> None:
    ended = tune(farm, tmp_path, "here,near")
    assert ended.code == 0, ended.err
    found = trials(tmp_path)
    assert {trial.device for trial in found} == {"here", "near"}
    targets = {trial.device: trial.candidate.target for trial in found}
    assert targets["near"].startswith("generic-")
    assert not targets["here"].startswith("generic-")
    logs = sorted(path.name for path in (tmp_path / "results").glob("*.best.jsonl"))
    assert logs == sorted(f"small-{target}.best.jsonl" for target in targets.values())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("devices", "options", "message"),
    [
        ("quiet", (), 'board `quiet` has timing = "none", and estimates are for aarch64 only: x86_64'),
        (
            "fake",
            (),
            "campaigns use boards with transport local, ssh, tracker, mca, gpu: board `fake` has "
            'transport = "simulated"',
        ),
        ("here,nobody", (), "unknown board `nobody` in .*, known: here, a53, there, near, quiet, fake, model"),
        (
            "here",
            ("--threads", "2"),
            "--threads is for this machine, boards have their own: `threads` in the inventory",
        ),
        ("here", ("--target", "x86-none"), "unknown target `x86-none`, known: .*"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    farm: Path, tmp_path: Path, devices: str, options: tuple[str, ...], message: str
) -> None:
    ended = tune(farm, tmp_path, devices, *options)
    assert ended.code == 2
    (line,) = ended.errors
    assert re.fullmatch(f"error: {message}", line), line
    assert not (tmp_path / "results").exists()


@pytest.mark.thorough
def test_a_board_that_is_gone_says_so(sshd: Sshd, tmp_path: Path) -> None:
    board = board_behind(sshd, "nothing", sshd.folder / "nothing")
    gone = farm_toml(replace(sshd, port=1)).replace("here", board.name)
    (tmp_path / "farm.toml").write_text(gone)
    ended = tune(tmp_path / "farm.toml", tmp_path, "nothing")
    assert ended.code == 4
    assert len(ended.errors) == 1

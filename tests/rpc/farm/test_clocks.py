"""Clocks that jump, on the host and on a board: promise 18."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Timing
from int8tune.rpc.transports.agent import AgentTransport
from tests.sshd import farm_toml, running_sshd
from tests.storm import trials_of
from tests.support.farm.boards import AT_ANY_SPEED, CACHE, board, board_behind, install
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.places import TESTS
from tests.support.program.cli_program import int8tune, write_table

pytestmark = pytest.mark.promise(18)

DAY_S = 86_400
JUMPING = TESTS / "support" / "program" / "jumping_clock"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(JUMPING))


@pytest.fixture
def behind_ssh(tmp_path: Path) -> Iterator[Board]:
    with running_sshd(tmp_path / "sshd") as sshd:
        board = board_behind(sshd, "here", sshd.folder / "here")
        provision(board, CACHE, upgrade=False, say=print)
        (tmp_path / "farm.toml").write_text(farm_toml(sshd, AT_ANY_SPEED))
        yield board


def in_time_namespace(offset_s: int) -> tuple[str, ...]:
    """What starts a command whose clocks since the start of the system are moved; skips where none may be."""
    program = shutil.which("unshare")
    if program is None:
        pytest.skip("no time namespace: no unshare program")
    command = (program, "--time", "--monotonic", str(offset_s), "--boottime", str(offset_s))
    done = subprocess.run([*command, "cat", "/proc/uptime"], capture_output=True, text=True, timeout=10)
    if done.returncode:
        pytest.skip(f"no time namespace: {done.stderr.strip()}")
    return command


def assert_measures_as_ever(transport: AgentTransport, kernels: Kernels) -> None:
    """Sessions end, on time where they hang; times are times."""
    assert transport.run(kernels.request("good")).outcome is Outcome.OK
    for entry in ("hangs", "daemonizes_and_hangs"):
        began = time.monotonic()
        assert transport.run(kernels.request(entry, run_limit_s=1.0)).outcome is Outcome.RUN_TIMEOUT
        assert 0.9 < time.monotonic() - began < 2
    timed = transport.run(kernels.request("takes_a_while", probe="good", timing=Timing(repeats=5, min_repeat_s=0.004)))
    assert timed.outcome is Outcome.OK
    assert 0.002 < median(timed.times_s[0]) < 0.02
    assert 0 < timed.run_s < 2


def offsets_s() -> list[int]:
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    return [3 * DAY_S, -int(uptime_s / 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("which", [0, 1], ids=["ahead", "behind"])
def test_a_board_whose_clocks_are_days_away(kernels: Kernels, tmp_path: Path, which: int) -> None:
    offset_s = offsets_s()[which]
    command = (*in_time_namespace(offset_s), str(install(tmp_path / "agent")))
    with AgentTransport(board(), command) as transport:
        assert_measures_as_ever(transport, kernels)


@pytest.mark.thorough
@pytest.mark.usefixtures("jumping")
def test_a_host_whose_clock_jumps_speaks_with_its_board(behind_ssh: Board, kernels: Kernels) -> None:
    with AgentTransport(behind_ssh) as transport:
        assert_measures_as_ever(transport, kernels)


@pytest.mark.thorough
@pytest.mark.usefixtures("jumping", "behind_ssh")
def test_a_campaign_under_a_clock_that_jumps(tmp_path: Path) -> None:
    table = write_table(tmp_path / "small.json")
    where = ("--inventory", tmp_path / "farm.toml", "--devices", "here", "--results", tmp_path / "results")
    ended = int8tune("tune", table, "--strategy", "random", "--trials", 3, *where)
    assert ended.code == 0, ended.err
    found = trials_of(tmp_path / "results")
    assert [trial.outcome for trial in found] == [Outcome.OK] * 6
    assert all(trial.build_s >= 0 and trial.run_s >= 0 for trial in found)

"""`int8tune tune --devices` on an emulated GPU: all but NVIDIA's compiler and driver is what a campaign has there."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path

import pytest

import int8tune.tuner.board_check
import int8tune.tuner.campaign.run
from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.agent.build import compilers, make_bundle
from int8tune.rpc.board.local_agent import install_agent
from int8tune.rpc.inventory.boards import TransportKind
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.tuner.board_transports import AGENTS, TRANSPORTS
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cli.program import run
from tests.support.farm.boards import AT_ANY_SPEED, CACHE
from tests.support.gpu import emulated as emulated_gpus
from tests.support.program.cli_program import write_table

# Beside others it takes four times as long: what an emulated GPU is busy with is timed again and again.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("emulated_gpu")]

KEYS = (
    "conv2d-u8s8-1x5x5x16-k3x3x16-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x6x6x16-k3x3x1-s1-p1-float.c-u8",
)


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory with this machine's GPU."""
    bundle = make_bundle(platform.machine(), CACHE, compilers(platform.machine())[0], has_gpu=True)
    launcher = install_agent(tmp_path / "agent", bundle)
    emulated_gpus.install(launcher.parent, l2=1 << 20)
    for table in (AGENTS, TRANSPORTS):
        monkeypatch.setitem(table, TransportKind.GPU, lambda board: AgentTransport(board, (str(launcher),)))  # type: ignore[misc]
    for module in (int8tune.tuner.campaign.run, int8tune.tuner.board_check):
        monkeypatch.setattr(module, "BuildPool", partial(BuildPool, server="tests.support.gpu.emulated_build_server"))
    path = tmp_path / "farm.toml"
    path.write_text(f'[[boards]]\nname = "h100"\ntransport = "gpu"\nlimits = {{ memory = "128 MiB" }}\n{AT_ANY_SPEED}')
    return path


@pytest.mark.thorough
def test_a_campaign_on_a_gpu(farm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layers = [{"name": key, "count": 1, "workload": key} for key in KEYS]
    table, results = write_table(tmp_path / "small.json", layers), tmp_path / "results"
    words = ["tune", str(table), "--inventory", str(farm), "--devices", "h100", "--results", str(results)]
    assert run([*words, "--trials", "2"]) == 0, capsys.readouterr().err
    store = SqliteStore(results / "records.db", readonly=True)
    trials = list(store.query(Trial))
    store.close()
    assert {trial.outcome for trial in trials} == {Outcome.OK}
    assert {trial.candidate.target for trial in trials} == {"cuda-sm90"}
    assert all(trial.environment["gpu"] == "Emulated GPU" for trial in trials)
    assert all(trial.measurement and trial.measurement.observed["gpu_clock_hz"] == 1755e6 for trial in trials)
    (best,) = results.glob("*best*.jsonl")
    assert len(best.read_text().splitlines()) == 1 + len(KEYS)
    assert run([*words, "--trials", "2"]) == 0
    assert "nothing is left to do, 4 trials are recorded" in capsys.readouterr().err

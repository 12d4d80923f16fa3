"""Campaigns on boards behind a stock TVM tracker, as a person starts them."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from tests.support.farm.boards import CACHE
from tests.support.farm.trackers import StockFarm, family, running_tracker, send_all, tracker_files
from tests.support.program.cli_program import Ended, int8tune, wait_for_trials, write_table
from tests.support.program.waiting import wait_until

TRIALS = 3
GENERIC = 'target = "generic"'


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockFarm]:
    tracker_files()
    with running_tracker(tmp_path_factory.mktemp("stock"), servers=2) as running:
        yield running


def program(farm: StockFarm, folder: Path, *arguments: object, key: str = "x86") -> Ended:
    """The program with an inventory of two boards of one key."""
    inventory = folder / "farm.toml"
    inventory.write_text("\n".join(farm.toml(name, GENERIC) for name in ("a", "b")).replace("x86", key, 1))
    return int8tune(*arguments, "--inventory", inventory, env={"XDG_CACHE_HOME": str(CACHE.parent)})


def tune(farm: StockFarm, folder: Path, devices: str, trials: int = TRIALS, key: str = "x86") -> Ended:
    table = write_table(folder / "small.json")
    options = ("--strategy", "random", "--trials", trials, "--results", folder / "results", "--devices", devices)
    return program(farm, folder, "tune", table, *options, key=key)


def recorded(folder: Path) -> list[Trial]:
    with SqliteStore(folder / "results" / "records.db", readonly=True) as store:
        return list(store.query(Trial))


@pytest.mark.thorough
@pytest.mark.alone
def test_two_servers_of_a_key_share_a_campaign(farm: StockFarm, tmp_path: Path) -> None:
    ended = tune(farm, tmp_path, "a,b")
    assert ended.code == 0, ended.err
    trials = recorded(tmp_path)
    assert [trial.outcome for trial in trials] == [Outcome.OK] * 2 * TRIALS
    assert {trial.device for trial in trials} == {"a+b"}
    assert {trial.environment["board"] for trial in trials} == {"a", "b"}
    assert (tmp_path / "results" / "small.best.jsonl").exists()
    wait_until(lambda: not farm.agents() and not farm.left(), limit_s=5)


@pytest.mark.slow
def test_a_campaign_outlives_a_server(farm: StockFarm, tmp_path: Path) -> None:
    lost = farm.servers[-1]

    def kill() -> None:
        wait_for_trials(tmp_path / "results", 4)
        send_all(family(lost), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    ended = tune(farm, tmp_path, "a,b", trials=8)
    killer.join(30)
    farm.add()
    assert ended.code == 0, ended.err
    trials = recorded(tmp_path)
    assert len(trials) == 16
    assert {trial.outcome for trial in trials} == {Outcome.OK}


@pytest.mark.thorough
def test_a_board_is_checked(farm: StockFarm, tmp_path: Path) -> None:
    ended = program(farm, tmp_path, "devices", "check", "a")
    assert ended.code == 0, ended.err
    assert re.search(r"target +generic-", ended.out)
    assert re.search(r"canary +exact", ended.out)
    assert re.search(r"int8 peak +[\d,]+ GOP/s of one core", ended.out)
    listed = program(farm, tmp_path, "devices", "list")
    assert re.search(rf"a +tracker +x86@127.0.0.1:{farm.port} +generic", listed.out)
    refused = program(farm, tmp_path, "devices", "provision", "a")
    assert refused.errors == ["error: `a` must be a board with transport `ssh`: tracker"]


@pytest.mark.thorough
def test_a_typo_in_the_key_says_so(farm: StockFarm, tmp_path: Path) -> None:
    ended = tune(farm, tmp_path, "a", key="x68")
    assert ended.code == 4
    where = f"127.0.0.1:{farm.port}"
    assert ended.errors == [f"error: the tracker at {where} has no server with key `x68`, its keys: `x86`"]
    assert "hint: see what the tracker has: python -m tvm.exec.query_rpc_tracker" in ended.err
    assert not (tmp_path / "results").exists()

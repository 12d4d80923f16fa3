"""`int8tune devices list`: boards, and how they are."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from int8tune.rpc.farm.status_file import status_folder, write_report
from int8tune.rpc.farm.values import State
from int8tune.tuner.board_states import BoardState
from int8tune.tuner.cli.board_states import lasted, states_table
from tests.rpc.farm.test_status_file import REPORT
from tests.support.farm.boards import AT_ANY_SPEED
from tests.support.program.cli_program import end, int8tune, start, wait_for_trials, write_table

NOW = 1e9 + 2
BUSY = BoardState("a", REPORT)
OFF = replace(
    REPORT,
    state=State.QUARANTINED,
    waits_for="next check",
    until=1e9 + 300,
    cause="the canary took 1.34 times what it takes",
    canary_fault="the canary took 1.34 times what it takes",
)
STATES = [
    BUSY,
    BoardState("pi-zero", OFF),
    BoardState("old", replace(OFF, writer=None, written_at=1e9 - 86_400 * 3)),
    BoardState("new", None),
    BoardState("odd", None, "/x/odd.json: colour: unknown field"),
]


def test_wide() -> None:
    assert states_table(STATES, NOW, 120).splitlines() == [
        "board    campaign  state            waits for               canary                 trials/min",
        "a        c         busy 2 s         trial: run, 3 s left    good 5 s ago, 10.0 us          42",
        "pi-zero  c         quarantined 2 s  next check, 5 min left  bad 5 s ago, 10.0 us           42",
        "    the canary took 1.34 times what it takes",
        "old      c         idle             last seen 3 d ago       bad 5 s ago, 10.0 us            -",
        "    was quarantined: the canary took 1.34 times what it takes",
        "new      -         idle             -                       -                               -",
        "odd      -         idle             -                       -                               -",
        "    its state can't be read: /x/odd.json: colour: unknown field",
    ]


def test_narrow() -> None:
    """80 columns, and a name of 13 letters."""
    states = [BUSY, replace(STATES[1], name="pi-zero-left2")]
    assert "campaign" not in states_table(states, NOW, 90).splitlines()[0]
    assert ", 10.0 us" in states_table(states, NOW, 90)
    assert states_table(states, NOW, 80).splitlines() == [
        "board          state            waits for               canary        trials/min",
        "a              busy 2 s         trial: run, 3 s left    good 5 s ago          42",
        "pi-zero-left2  quarantined 2 s  next check, 5 min left  bad 5 s ago           42",
        "    the canary took 1.34 times what it takes",
    ]
    long = replace(OFF, cause="a cause of many words " * 20)
    assert max(map(len, states_table([BoardState("a", long)], NOW, 80).splitlines())) <= 80


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (3e5, "3 d")],
)
def test_how_long(seconds: float, words: str) -> None:
    assert lasted(seconds) == words


@pytest.mark.thorough
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    farm = tmp_path / "farm.toml"
    farm.write_text(
        "".join(f'[[boards]]\nname = "{name}"\ntransport = "local"\ncores = [{n}]\n' for n, name in enumerate("ab"))
    )
    write_report(status_folder(farm), REPORT)
    ended = int8tune("devices", "list", "--inventory", farm)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) == 7
    assert lines[5].split()[:3] == ["a", "c", "busy"]
    assert lines[6].split() == ["b", "-", "idle", "-", "-", "-"]
    used, free = json.loads(int8tune("devices", "list", "--inventory", farm, "--format", "json").out)
    assert used["transport"] == "local"
    assert used["state"] == "busy"
    assert used["since"] == "2001-09-09T01:46:40+00:00"
    assert used["waits_for"] == "trial: run"
    assert used["canary"] == {"at": "2001-09-09T01:46:37+00:00", "good": True, "call_s": 1e-5, "fault": ""}
    assert (used["trials"], used["trials_per_minute"]) == (7, 42.5)
    assert (free["state"], free["since"], free["canary"], free["last_seen"]) == ("idle", None, None, None)
    (status_folder(farm) / "b.json").write_text("{")
    ended = int8tune("devices", "list", "--inventory", farm)
    assert ended.code == 0
    assert "its state can't be read: " in ended.out


def family(pid: int) -> list[psutil.Process]:
    tuner = psutil.Process(pid)
    return [tuner, *tuner.children(recursive=True)]


def ports_of(process: psutil.Process) -> list[object]:
    try:
        return list(process.net_connections("inet"))
    except (psutil.NoSuchProcess, FileNotFoundError):  # a build that is done
        return []


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_campaign_says_how_its_board_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, after it was killed, and after its end; nothing listens on a port for that."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    farm, results = tmp_path / "farm.toml", tmp_path / "results"
    farm.write_text(f'[[boards]]\nname = "near"\ntransport = "local"\ntarget = "generic"\n{AT_ANY_SPEED}')

    def near() -> dict[str, object]:
        ended = int8tune("devices", "list", "--inventory", farm, "--format", "json")
        assert ended.code == 0, ended.err
        (board,) = json.loads(ended.out)
        assert isinstance(board, dict)
        return board

    table = write_table(tmp_path / "small.json")
    words = ("tune", table, "--strategy", "random", "--inventory", farm, "--results", results, "--devices", "near")
    tuner = start(*words, "--trials", 500)
    wait_for_trials(results, 5, limit_s=120)
    ports = [port for process in family(tuner.pid) for port in ports_of(process)]
    # On a busy machine its canary may be late now and then, and it is looked at again after ten seconds.
    deadline = time.monotonic() + 40
    while (before := near())["state"] not in ("busy", "ready", "checking") and time.monotonic() < deadline:
        time.sleep(0.5)
    end(tuner, signal.SIGKILL, limit_s=10)
    after = near()
    assert ports == []
    assert before["state"] in ("busy", "ready", "checking")
    assert before["campaign"] == "small"
    assert before["canary"]["good"]  # type: ignore[index]
    assert after["state"] == "idle"
    assert after["last_seen"] >= before["last_seen"]  # type: ignore[operator]
    assert int8tune(*words, "--trials", 2, "--name", "other").code == 0
    assert (near()["state"], near()["campaign"]) == ("idle", "other")

"""`int8tune watch`: campaigns and boards on a terminal, and what a pipe gets."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.store import SqliteStore
from int8tune.tuner.campaign_status import place_of, write_campaign_status
from int8tune.tuner.cli.watch_view import overview_lines
from tests.support.program.cli_program import command, in_process, start, wait_for_trials, write_table
from tests.support.program.results_samples import campaign, failed, ok
from tests.support.program.watched_campaigns import AT_WORK, ended, overview, view

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux, for a terminal")
LIMIT_S = 60.0


def test_a_campaign_that_runs() -> None:
    head, *lines = overview_lines(overview(), 80)
    assert head.endswith("   /results")
    assert lines == [
        "",
        "c1   x86-vnni on local                                             running 5 min",
        "    ─────────────────   3/64 trials   0/1 layers   1 failed   12/min   5:04 left",
        "    network 8.000 ms by default, 4.000 so far: 2.00x (1.00x confirmed)",
        "",
        "board  state             waits for               canary        trials/min",
        "pi     quarantined 30 s  next check, 5 min left  bad 20 s ago          42",
        "    the canary took 1.34 times what it takes",
        "",
        "last failures",
        f"{lines[-1][:8]}  c1  build_failed  conv2d 3x3 56x56x64->64  cannot select",
    ]


def test_what_went_wrong() -> None:
    failure = ended("failed", error="the device was lost")
    lines = overview_lines(overview(view(failure, error="long " * 40), fault="damaged: /results/records.db"), 80)
    assert lines[1] == "damaged: /results/records.db"
    assert lines[3].endswith("failed 1 s ago")
    assert "    the device was lost" in lines
    assert lines[-1].endswith(" long long...")
    assert max(map(len, lines)) == 80


@pytest.mark.parametrize("columns", [20, 50, 79, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    lines = overview_lines(overview(view(), view(None), fault="a cause " * 40), columns)
    assert max(map(len, lines)) <= columns


def test_a_low_terminal_shows_the_campaigns_that_run() -> None:
    lines = overview_lines(overview(view(), *[view(ended("finished"))] * 6), 80, 20)
    assert len(lines) <= 20
    assert "running 5 min" in lines[2]
    assert [line for line in lines if line.startswith("and ")] == ["and 5 more"]


def test_control_characters_of_records_do_not_reach_the_terminal() -> None:
    assert not any("\x1b" in line for line in overview_lines(overview(view(error="\x1b[2J")), 80))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "results"
    folder.mkdir()
    with SqliteStore(folder / "records.db") as store:
        store.append([campaign(), ok(0), failed(1)])
    return folder


def test_a_pipe_gets_it_once(results: Path) -> None:
    shown = in_process("watch", results)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[2].startswith("c1   x86-vnni on local   ")
    fields = json.loads(in_process("watch", results / "records.db", "--format", "json").out)
    assert [found["campaign"] for found in fields["campaigns"]] == ["c1"]
    assert in_process("watch", results, "--once").code == 0


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\x00" + b"x" * 5000, None])
def test_records_that_can_not_be_read_are_a_line(results: Path, content: bytes | None) -> None:
    (results / "records.db").unlink()
    if content is not None:
        (results / "records.db").write_bytes(content)
    shown = in_process("watch", results, "--once")
    assert (shown.code, len(shown.errors), shown.out) == (1, 1, "")
    assert shown.err.splitlines()[1].startswith("hint: ")


class Terminal:
    """A terminal of tmux with a program in it."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def __call__(self, *words: object) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *map(str, words)], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    def wait_for(self, text: str) -> list[str]:
        """The screen, once it has the text."""
        deadline = time.monotonic() + LIMIT_S
        while text not in (screen := self("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.2)
        return [line.rstrip() for line in screen.splitlines()]


@contextmanager
def terminal(folder: Path, *arguments: object) -> Iterator[Terminal]:
    """The program on a terminal of 80 columns; its exit code is shown at the end."""
    words = shlex.join(command(*arguments))
    shell = Terminal(folder / "tmux.socket")
    shell("-f", "/dev/null", "new-session", "-d", "-x", 80, "-y", 24, f"{words}; echo exit code $?; sleep 600")
    try:
        yield shell
    finally:
        shell("kill-server")


@needs_tmux
@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("results")
def test_a_terminal_shows_a_campaign_while_it_runs(tmp_path: Path) -> None:
    """A real one; then it is killed. What was seen last stays on the terminal."""
    new = tmp_path / "new"
    with terminal(tmp_path, "watch", new) as shell:
        shell.wait_for("no such results file")
        table = write_table(tmp_path / "small.json")
        tuner = start("tune", table, "--strategy", "random", "--trials", 1000, "--results", new)
        try:
            wait_for_trials(new, 3, limit_s=120)
            lines = shell.wait_for("/min")
            assert lines[2].startswith("small   ")
            assert lines[2].endswith(" s")
            assert re.search(r"/[\d,]+ trials   0/2 layers   .*/min   [\d:]+ left$", lines[3])
        finally:
            tuner.kill()
            tuner.communicate(timeout=20)
        shell.wait_for("killed")
        shell("send-keys", "C-c")
        lines = shell.wait_for("exit code 130")
        assert any("killed" in line for line in lines)


@needs_tmux
@pytest.mark.thorough
@pytest.mark.usefixtures("results")
def test_boards_alone_are_watched(tmp_path: Path) -> None:
    farm = tmp_path / "farm.toml"
    farm.write_text('[[boards]]\nname = "near"\ntransport = "local"\ncores = [0]\n')
    assert in_process("devices", "list", "--inventory", farm, "--watch").out.count("near") == 2
    with terminal(tmp_path, "devices", "list", "--watch", "--inventory", farm) as shell:
        assert shell.wait_for("near")[:2] == [
            "board  campaign  state  waits for  canary  trials/min",
            "near   -         idle   -          -                -",
        ]
        shell("send-keys", "C-c")
        shell.wait_for("exit code 130")


@needs_tmux
@pytest.mark.thorough
def test_a_campaign_of_a_made_up_status_is_followed(tmp_path: Path, results: Path) -> None:
    with terminal(tmp_path, "watch") as shell:
        shell.wait_for("no campaign yet")
        now = time.time()
        status = replace(AT_WORK, place=place_of(results), started_at=now - 300, written_at=now)
        write_campaign_status(status)
        assert "3/64 trials" in shell.wait_for("running")[3]
        write_campaign_status(replace(status, ending="finished", written_at=time.time()))
        shell.wait_for("finished")
        shell("send-keys", "C-c")
        shell.wait_for("exit code 130")

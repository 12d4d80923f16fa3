"""Somebody is told that a campaign has ended."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from int8tune.tuner import notifying
from int8tune.tuner.cli.telling import Telling
from int8tune.tuner.errors import SpecError
from int8tune.tuner.notifying import Notification, Notifier
from tests.support.program.cli_program import int8tune, write_table

NEWS = Notification("failed", "the device was lost", "int8tune tune x", [{"name": "c", "report": "/r/c.html"}])


class Hook(BaseHTTPRequestHandler):
    """Answers with the number in its path, `/204`, and keeps what it was sent; `/slow` waits until it may end."""

    received: list[bytes]
    may_end: threading.Event

    def do_POST(self) -> None:
        type(self).received.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/slow":
            self.may_end.wait(30)
            return
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "/204")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Hook.received, Hook.may_end = [], threading.Event()
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        Hook.may_end.set()
        server.shutdown()


def test_a_command_gets_the_summary_and_the_facts(tmp_path: Path) -> None:
    out = tmp_path / "out put"
    said = 'cat > "$0"; echo "$INT8TUNE_ENDING, $INT8TUNE_ERROR, $INT8TUNE_CAMPAIGNS" >> "$0"'
    assert Notifier(f"sh -c '{said}' '{out}'").tell(NEWS) == ""
    summary, _, facts = out.read_text().partition("}]}")
    assert json.loads(summary + "}]}") == {
        "format": 1,
        "ending": "failed",
        "error": "the device was lost",
        "command": "int8tune tune x",
        "campaigns": [{"name": "c", "report": "/r/c.html"}],
    }
    assert facts == "failed, the device was lost, c\n"


def test_there_is_no_shell_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert Notifier(f"true ; touch {tmp_path / 'made'} $(touch {tmp_path / 'made'})").tell(NEWS) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_fails_or_hangs_costs_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Notifier("false").tell(NEWS) == "ended with exit code 1"
    monkeypatch.setattr(notifying, "LIMIT_S", 0.3)
    began = time.monotonic()
    hanging = Notifier(f"sh -c '(sleep 2; touch {tmp_path}/late) & sleep 60'")
    assert hanging.tell(NEWS) == "took more than 0.3 s"
    assert time.monotonic() - began < 1.5
    time.sleep(2)
    assert list(tmp_path.iterdir()) == [], "its children are ended with it"


def test_a_url_gets_the_summary(url: str) -> None:
    assert Notifier(f"{url}/204").tell(NEWS) == ""
    assert json.loads(Hook.received[0])["ending"] == "failed"


def test_a_url_that_refuses_redirects_or_hangs_is_a_line(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Notifier(f"{url}/500").tell(NEWS) == "answered 500 Internal Server Error"
    assert Notifier(f"{url}/302").tell(NEWS) == "answered 302 Found"
    assert len(Hook.received) == 2
    monkeypatch.setattr(notifying, "LIMIT_S", 0.3)
    assert Notifier(f"{url}/slow").tell(NEWS) == "took more than 0.3 s"
    assert "refused" in Notifier("http://127.0.0.1:1/secret").tell(NEWS).lower()
    assert Notifier("https://example.org/secret").name == "example.org"


@pytest.mark.parametrize("target", ["", "  ", "no-such-command-here x", "sh 'x", "http://", "https:///x", "http://["])
def test_whom_nobody_can_tell_is_refused_at_once(target: str) -> None:
    with pytest.raises(SpecError, match=r"to notify"):
        Notifier(target)


def test_a_failure_is_told_and_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="lost"), Telling(f"sh -c 'cat > {tmp_path}/out'", "int8tune tune x"):
        raise ValueError("the device was\nlost")
    assert json.loads((tmp_path / "out").read_text())["error"] == "the device was lost"
    with pytest.raises(ValueError, match="lost"), Telling("false", "int8tune tune x"):
        raise ValueError("lost")
    assert capsys.readouterr().err == "--notify did not work, false: ended with exit code 1\n"


def test_secrets_of_the_command_are_not_told(tmp_path: Path) -> None:
    secrets = ("T0/B0/hush", "pa:ss", "t0k3n")
    words = ["int8tune", "tune", "x y", "--notify", f"https://hooks.lab/services/{secrets[0]}"]
    words += ["--results", f"postgresql://ada:{secrets[1]}@db.lab/int8", "--token", secrets[2]]
    with pytest.raises(ValueError, match="lost"), Telling(f"sh -c 'cat > {tmp_path}/out'", shlex.join(words)):
        raise ValueError("lost")
    told = (tmp_path / "out").read_text()
    assert [secret for secret in secrets if secret in told] == []
    command = shlex.split(json.loads(told)["command"])
    assert command == [
        *words[:4],
        "https://hooks.lab/***",
        "--results",
        "postgresql://***@db.lab/int8",
        "--token",
        "***",
    ]


def test_nobody_is_told_by_default() -> None:
    with Telling(None, "int8tune tune x"):
        pass


@pytest.mark.thorough
def test_a_campaign_tells_its_end(tmp_path: Path) -> None:
    table, out = write_table(tmp_path / "small.json"), tmp_path / "out"
    options = ("--trials", 1, "--strategy", "random", "--results", tmp_path / "results", "--notify")
    ended = int8tune("tune", table, *options, f"sh -c 'cat > {out}'", limit_s=120)
    assert ended.code == 0, ended.err
    told = json.loads(out.read_text())
    assert (told["ending"], told["campaigns"][0]["name"]) == ("finished", "small")
    assert Path(told["campaigns"][0]["report"]).is_file()
    assert int8tune("tune", table, *options, "no-such-command").code == 2

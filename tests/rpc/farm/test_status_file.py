"""What a campaign writes of its boards, and who believes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.rpc.errors import StatusFileError
from int8tune.rpc.farm.status_file import BoardReport, read_report, status_folder, write_report
from int8tune.rpc.farm.values import State
from int8tune.rpc.process.status_files import Writer

REPORT = BoardReport(
    board="a",
    campaign="c",
    target="t",
    state=State.BUSY,
    since=1e9,
    waits_for="trial: run",
    until=1e9 + 5,
    cause="",
    canary_at=1e9 - 3,
    canary_s=1e-5,
    canary_fault="",
    trials=7,
    per_minute=42.5,
    written_at=1e9 + 1,
    writer=Writer.this(),
)


@pytest.mark.parametrize(
    "report",
    [REPORT, replace(REPORT, until=None, canary_at=None, writer=None), replace(REPORT, board="..", cause="it\tdied")],
)
def test_what_is_written_is_read(tmp_path: Path, report: BoardReport) -> None:
    write_report(tmp_path / "new", report)
    read = read_report(tmp_path / "new", report.board)
    assert read == replace(report, cause=report.cause.replace("\t", "\\t"))
    assert [path.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "new"]
    assert read_report(tmp_path, "b") is None


def test_a_report_is_current_as_long_as_its_writer_lives(tmp_path: Path) -> None:
    assert REPORT.is_current
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        pid = process.pid
        write_report(tmp_path, replace(REPORT, writer=_writer_of(pid)))
        read = read_report(tmp_path, "a")
        assert read is not None
        assert read.is_current
        process.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not read.is_current, "a zombie lives no more"
    assert not read.is_current
    writer = Writer.this()
    for other in (replace(writer, started_ticks=writer.started_ticks + 1), replace(writer, boot="another"), None):
        assert not replace(REPORT, writer=other).is_current


def _writer_of(pid: int) -> Writer:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return replace(Writer.this(), pid=pid, started_ticks=int(ticks))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format: must be 1: 2"),
        ({"state": "well"}, 'state: must be one of .*: "well"'),
        ({"cause": "\x1b[2Jgone"}, "cause: must be printable text of at most"),
        ({"until": "soon"}, 'until: must be a number from 0 to 1e\\+11: "soon"'),
        ({"since": float("nan")}, "NaN is no number"),
        ({"since": "1"}, "since: must be a number"),
        ({"per_minute": -1}, "per_minute: must be a number from 0 to 1e\\+06: -1"),
        ({"writer": {"pid": 0, "started_ticks": 1, "boot": ""}}, "writer.pid: must be an integer of 1 to"),
        ({"trials": (1 << 62) + 1}, "trials: must be an integer of 0 to 4611686018427387904: "),
        ({"cause": "x" * 20_000}, "cause: must be printable text of at most 16384 characters"),
        ({"colour": "red"}, "colour: unknown field"),
        ({"board": "b"}, "it is about another board: b"),
    ],
)
def test_what_has_another_form_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    write_report(tmp_path, REPORT)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(StatusFileError, match=message) as caught:
        read_report(tmp_path, "a")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[1", b"null", b"[" * 30_000, b"\xff", b" " * 70_000])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(StatusFileError):
        read_report(tmp_path, "a")


@pytest.mark.timeout(20)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("{}")
    for name in ("pipe", "folder", "link"):
        with pytest.raises(StatusFileError):
            read_report(tmp_path, name)


def test_each_inventory_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first, second = status_folder(tmp_path / "farm.toml"), status_folder(tmp_path / "other.toml")
    assert first.parent == second.parent == tmp_path / "state" / "int8tune" / "boards"
    assert first != second
    monkeypatch.chdir(tmp_path)
    assert status_folder(Path("farm.toml")) == first

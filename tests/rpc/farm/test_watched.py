"""`devices provision`, `devices check` and `tune --devices` while somebody watches: no new port, no secret anywhere."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sshd import Sshd, farm_toml, running_sshd
from tests.support.farm.boards import AT_ANY_SPEED, CACHE, marked
from tests.support.program.cli_program import Ended, int8tune, write_table
from tests.support.program.watched import Watch

pytestmark = [pytest.mark.alone, pytest.mark.promise(8, 23)]

TRIALS = 3


@dataclass(frozen=True, slots=True)
class Watched:
    """What came of the commands, and what was seen meanwhile."""

    folder: Path
    sshd: Sshd
    ended: dict[str, Ended]
    watch: Watch


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def secrets_of(key: Path) -> list[bytes]:
    """The lines of a private key's file, and the key itself, which is 32 bytes before the public one."""
    lines = key.read_text().splitlines()[1:-1]
    blob = base64.b64decode("".join(lines))
    public = base64.b64decode(key.with_suffix(".pub").read_text().split()[1])[-32:]
    private = blob[(place := blob.rindex(public) - 32) : place + 32]
    return [*(line.encode() for line in lines[1:] if len(line) > 20), private]


@pytest.fixture(scope="module")
def watched(sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """All three commands, on a board of this machine behind SSH."""
    folder = tmp_path_factory.mktemp("watched")
    board, _ = farm_toml(sshd, AT_ANY_SPEED).split("\n\n")
    inventory, table = folder / "farm.toml", write_table(folder / "small.json")
    inventory.write_text(f'{board}\nlimits = {{ memory = "128 MiB" }}\n')  # less to send for the device's check
    commands = {
        "provision": ("devices", "provision", "here"),
        "check": ("devices", "check", "here"),
        "tune": ("tune", table, "--strategy", "random", "--trials", TRIALS, "--devices", "here"),
    }
    with Watch(lambda: marked(str(sshd.folder / "here")), secrets_of(sshd.user_key)) as watch:
        ended = {}
        for name, words in commands.items():
            where = ("--inventory", inventory, *(("--results", folder / "results") if name == "tune" else ()))
            ended[name] = int8tune(*words, *where, cwd=folder, env={"XDG_CACHE_HOME": str(CACHE.parent)})
    assert [each.code for each in ended.values()] == [0, 0, 0], [each.err for each in ended.values()]
    return Watched(folder, sshd, ended, watch)


def kinds_of(watch: Watch) -> set[str]:
    return {door.partition(" ")[0] for door in watch.doors}


def run_until(arguments: Sequence[str], is_seen: Callable[[], object], **options: Any) -> None:
    """Let a program that reads a line run until it was seen, for 10 s at most: a busy machine looks seldom."""
    words = [sys.executable, *arguments]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, **options) as program:
        deadline = time.monotonic() + 10
        while not is_seen() and program.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        program.communicate(b"\n", timeout=10)
    assert program.returncode == 0


@pytest.mark.thorough
def test_no_port_is_opened_by_any_command(watched: Watched) -> None:
    """Neither on the host nor on the board: both are this machine. sshd's sessions are looked at, too."""
    assert watched.watch.looks > 100
    assert watched.watch.doors == set()
    assert "agent" in watched.watch.seen
    assert any(name.startswith("python") for name in watched.watch.seen)


@pytest.mark.parametrize("kind", ["tcp", "udp", "unix"])
def test_a_port_would_be_seen(kind: str, tmp_path: Path) -> None:
    listens = {
        "tcp": "s = socket.create_server(('127.0.0.1', 0))",
        "udp": "s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0))",
        "unix": f"s = socket.socket(socket.AF_UNIX); s.bind({str(tmp_path / 'door')!r}); s.listen()",
    }[kind]
    with Watch(list) as watch, socket.create_server(("127.0.0.1", 0)):
        run_until(
            ["-c", f"import socket; {listens}; input()"], lambda: kinds_of(watch) == {kind, "tcp"} and watch.doors
        )
    assert kinds_of(watch) == {kind, "tcp"}


@pytest.mark.thorough
def test_the_key_is_nowhere(watched: Watched) -> None:
    """Not in arguments and environments, records, reports, logs, what is printed, and what is on the board."""
    secrets = secrets_of(watched.sshd.user_key)
    assert watched.watch.leaks == set()
    folders = (watched.folder, Path(watched.sshd.folder / "here"))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert {"records.db", "small.best.jsonl", "small.html", "agent"} <= {path.name for path in files}
    written = {str(path): path.read_bytes() for path in files}
    written |= {f"output of {name}": f"{ended.out}{ended.err}".encode() for name, ended in watched.ended.items()}
    written["sshd's log"] = watched.sshd.log.encode()
    assert [name for name, content in written.items() if any(secret in content for secret in secrets)] == []


def test_a_key_would_be_found(tmp_path: Path, sshd: Sshd) -> None:
    """In an argument and in an environment; and the planted material is that of the key's own file."""
    secrets = secrets_of(sshd.user_key)
    blob = base64.b64decode("".join(sshd.user_key.read_text().splitlines()[1:-1]))
    assert len(secrets) > 3
    assert secrets[-1] in blob
    for place in ("cmdline", "environ"):
        secret = secrets[0].decode()
        words = ["-c", "input()", *([secret] if place == "cmdline" else [])]
        env = {**os.environ, **({"SECRET": secret} if place == "environ" else {})}
        with Watch(list, secrets) as watch:
            run_until(words, lambda watch=watch: watch.leaks, env=env, cwd=tmp_path)
        assert any(place in leak for leak in watch.leaks), watch.leaks

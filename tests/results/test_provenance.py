"""What is kept of who ran the program: no secret of its command, and the commit only of a checkout of its own."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from pathlib import Path

import pytest

from int8tune.results.provenance import LONGEST_COMMAND, command_line, source_commit, user_name
from tests.support.places import ROOT

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("argument", "kept"),
    [
        (f"postgresql://ada:{SECRET}@db.lab:5432/int8", "postgresql://***@db.lab:5432/int8"),
        (f"postgresql://ada:{SECRET}@x@db.lab/int8", "postgresql://***@db.lab/int8"),
        (f"postgresql://db.lab/int8?user=ada&password={SECRET}", "postgresql://db.lab/int8?***"),
        (f"postgresql://{SECRET}@db.lab/int8", "postgresql://***@db.lab/int8"),
        (f"https://hooks.chat.lab/services/T0/{SECRET}", "https://hooks.chat.lab/***"),
        (
            f"curl -H 'Authorization: Bearer {SECRET}' http://host/",
            "curl -H 'Authorization: *** ***' http://host/",
        ),
        (f"--token={SECRET}", "--token=***"),
        (f"--api-key={SECRET}", "--api-key=***"),
        (f"host=db password={SECRET} dbname=x", "host=db password=*** dbname=x"),
        (f"PGPASSWORD='{SECRET} with spaces' psql", "PGPASSWORD=*** psql"),
    ],
)
def test_secrets_of_the_command_are_not_kept(argument: str, kept: str) -> None:
    said = command_line(["/opt/bin/int8tune", "tune", "resnet18", "--x", argument])
    assert SECRET not in said
    assert said == f"int8tune tune resnet18 --x {shlex.quote(kept)}"


@pytest.mark.parametrize("option", ["--password", "--db-password", "--token", "--auth-token", "--API-KEY"])
def test_the_word_after_a_secret_option_is_not_kept(option: str) -> None:
    said = command_line(["int8tune", "tune", option, SECRET, "--trials", "4"])
    assert said == f"int8tune tune {option} '***' --trials 4"


def test_what_is_no_secret_is_kept_as_it_was_typed() -> None:
    words = ["tune", "my net.onnx", "--bind", "mask=mask.npy", "--time", "1.5h", "--devices", "a,b", "--shape", "x=1,3"]
    assert command_line(["/venv/lib/int8tune/__main__.py", *words]) == (
        "int8tune tune 'my net.onnx' --bind mask=mask.npy --time 1.5h --devices a,b --shape x=1,3"
    )
    assert command_line(["/home/ada/night.py"]) == "night.py"
    assert len(command_line(["int8tune", *["word"] * 10_000])) == LONGEST_COMMAND


def test_nothing_of_the_environment_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, SECRET)
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name


def _git(folder: Path, *words: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *own, *words], check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip()


def test_a_checkout_has_a_commit_and_another_program_s_has_none(tmp_path: Path) -> None:
    assert source_commit(tmp_path) == ""
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("a")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "--quiet", "--message", "Begin")
    assert source_commit(tmp_path) == "", "not this program's checkout"
    package = tmp_path / "src" / "int8tune"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    _git(tmp_path, "tag", "v1")
    head = _git(tmp_path, "rev-parse", "HEAD")
    assert source_commit(tmp_path) == head
    (tmp_path / "file").write_text("b")
    assert source_commit(tmp_path) == f"{head}-dirty"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout: these sources have no .git")
def test_these_sources_have_their_commit() -> None:
    assert source_commit().removesuffix("-dirty") == _git(ROOT, "rev-parse", "HEAD")


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert source_commit(ROOT) == ""

"""The commands that hints name are there, with the options that they are given."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from int8tune.rpc.bundle.hints import HINTS
from int8tune.tuner.api.pages import pages
from int8tune.tuner.cli.failures import FAILURES
from int8tune.tuner.cli.program import make_program
from tests.support.places import ROOT
from tests.support.program.cli_program import in_process

COMMAND = re.compile(r"\bint8tune (?=[a-z-])([^;,]*)")
EXTRA = re.compile(r"int8tune\[([a-z,-]+)\]")
# A device that is checked is busy for seconds; others are to be started by hand.
NOT_RUN_HERE = ("devices check",)


def hints() -> list[str]:
    return sorted({failure.hint for failure in FAILURES.values()} | {hint for _, hint in HINTS.values()})


def named_commands() -> list[str]:
    return sorted({named.strip() for hint in hints() for named in COMMAND.findall(hint)})


def command_of(words: Iterator[str]) -> tuple[Any, list[str]]:
    """A command of the program, and what it is given."""
    command: Any = get_command(make_program())
    given = []
    for word in words:
        known = getattr(command, "commands", {})
        if word in known:
            command = known[word]
        elif known and not word.startswith("-"):
            raise AssertionError(f"no such command: {word}")
        else:
            given.append(word)
    return command, given


def test_hints_name_commands() -> None:
    assert len(named_commands()) > 20


@pytest.mark.parametrize("named", named_commands())
def test_a_command_of_a_hint_is_there_with_its_options(named: str) -> None:
    command, given = command_of(iter(shlex.split(named)))
    options = {name for each in command.params for name in each.opts} | {"--help"}
    assert not [word for word in given if word.startswith("--") and word not in options]


@pytest.mark.parametrize(
    "named", [each for each in named_commands() if not re.search(r"[A-Z]", each) and each not in NOT_RUN_HERE]
)
def test_a_command_of_a_hint_that_stands_alone_says_something(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is, such as boards, it says that in its own words."""
    monkeypatch.chdir(tmp_path)
    ended = in_process(*shlex.split(named))
    assert "bug" not in ended.err
    assert (ended.code == 0 and ended.out) or ended.err.startswith("error: ")
    assert ended.code == 0 or "no such" in ended.err


def test_extras_of_hints_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name for hint in hints() for group in EXTRA.findall(hint) for name in group.split(",")}
    assert named
    assert named <= set(extras)


def test_hints_name_pages_that_are_installed() -> None:
    topics = {page.topic for page in pages()}
    named = {words[1] for words in map(str.split, named_commands()) if words[0] == "help" and len(words) > 1}
    assert named
    assert named <= topics
    assert not [hint for hint in hints() if "docs/" in hint]


def test_hints_that_pages_show_are_those_of_the_program() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    shown = {hint for text in texts for hint in re.findall(r"^hint: (.*)$", text, re.MULTILINE)}
    assert shown
    assert shown <= set(hints())

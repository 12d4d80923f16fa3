"""Sentences that stand alone: docstrings say what a thing is, and helps are phrases of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from int8tune.tuner.cli.program import make_program
from tests.support.places import ROOT

FOLDERS = ("compiler", "examples", "quantize", "results", "rpc", "schedules", "tests", "tuner")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings of a file, those behind assignments, too, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    for below in getattr(command, "commands", {}).values():
        yield from helps(below, f"{name} {below.name}")


def test_no_docstring_leaves_its_noun_to_the_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in SOURCES for line, text in texts(path) if text.startswith("Of ")
    ]
    assert found == []


def test_helps_are_phrases_of_their_own() -> None:
    said = list(helps(get_command(make_program()), "int8tune"))
    assert len(said) > 200
    for where, text in said:
        assert text[:1].isupper() or text[:2] == "--", (where, text)
        assert text.rstrip().endswith("."), (where, text)
        assert not text.startswith("Of "), (where, text)


@pytest.mark.parametrize("text", ["Of a layer.", "Seconds of a layer."])
def test_a_docstring_is_read_wherever_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f'LIMIT_S = 3\n"""{text}"""\n\n\ndef limit() -> int:\n    """{text}"""\n    return 3\n')
    assert [line for line, _ in texts(path)] == [2, 6]

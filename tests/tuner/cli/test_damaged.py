"""Damaged stores and files: each is one line that names it, and a hint; never a traceback, never half of an answer."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.places import TESTS
from tests.support.program.cli_program import in_process

STORE, BEST = TESTS / "data" / "store_v7.db", TESTS / "data" / "best_log_v1.jsonl"
BENCHMARKS = TESTS / "data" / "pytest_benchmark_5.3.json"
LIST = ("results", "list", "{file}")
COMPARE = ("results", "compare", "{file}", str(STORE))
LOG = ("results", "best", "--log", "{file}")


def cut(source: Path, share: float) -> Callable[[Path], None]:
    """A copy that ends early."""
    return lambda file: void(file.write_bytes(source.read_bytes()[: int(source.stat().st_size * share)]))


def flipped(source: Path, at: int) -> Callable[[Path], None]:
    """A copy with other bits in some bytes."""

    def damage(file: Path) -> None:
        content = bytearray(source.read_bytes())
        content[at : at + 40] = bytes(value ^ 0xFF for value in content[at : at + 40])
        file.write_bytes(content)

    return damage


def changed(statement: str) -> Callable[[Path], None]:
    """A copy of the store with another value."""

    def damage(file: Path) -> None:
        shutil.copy(STORE, file)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(statement)

    return damage


def of(content: bytes) -> Callable[[Path], None]:
    return lambda file: void(file.write_bytes(content))


def void(_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("command", "damage"),
    [
        pytest.param(LIST, of(b""), id="an empty store"),
        pytest.param(LIST, of(b"no database\n" * 100), id="a text in place of a store"),
        pytest.param(LIST, cut(STORE, 0.5), id="half of a store"),
        pytest.param(LIST, flipped(STORE, 0), id="a store with a damaged header"),
        pytest.param(LIST, changed("PRAGMA user_version = 99"), id="a store of a newer version"),
        pytest.param(LIST, changed("PRAGMA application_id = 7"), id="a store of another program"),
        pytest.param(LIST, changed("UPDATE campaigns SET network = 'x'"), id="a store with a damaged campaign"),
        pytest.param(LIST, changed("UPDATE trials SET device = 'x' WHERE sequence = 0"), id="with a damaged trial"),
        pytest.param(LIST, lambda file: file.mkdir(), id="a folder without a store"),
        pytest.param(LOG, cut(BEST, 0.7), id="a best log that was cut"),
        pytest.param(LOG, of(b'{"int8tune_best_log": 9}\n'), id="a best log of a newer version"),
        pytest.param(COMPARE, cut(BENCHMARKS, 0.6), id="JSON that was cut"),
        pytest.param(COMPARE, of(b"\x89PNG\r\n\x1a\n" + bytes(99)), id="a picture in place of results"),
    ],
)
def test_each_is_one_line_and_a_hint(command: tuple[str, ...], damage: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "damaged.db"
    damage(file)
    found = in_process(*(word.format(file=file) for word in command))
    lines = found.err.splitlines()
    assert (found.code, found.out) == (1, ""), found
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], found.err
    assert str(file) in lines[0]

"""How many tests passed, failed and were skipped in all calls of pytest that a tier is made of."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.run.appended import append, appended
from tests.support.run.quiet import PUT_OFF

SAID = ("failed", "passed", "skipped", "error")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--totals-to", type=Path, help="append the number of tests of each outcome to this file, as JSON")


def pytest_sessionfinish(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    file = session.config.getoption("--totals-to")
    if file is None or terminal is None or hasattr(session.config, "workerinput"):
        return
    judged = {outcome: sum(map(_is_judged, terminal.stats.get(outcome, ()))) for outcome in SAID}
    append(file, json.dumps(judged))


def _is_judged(report: object) -> bool:
    """What was put off counts where it runs again."""
    return (PUT_OFF, True) not in getattr(report, "user_properties", ())


def line(file: Path) -> str:
    """The sums of what runs have appended, as pytest says them: `2 failed, 30 passed`."""
    sums: Counter[str] = Counter()
    for row in appended(file):
        sums.update(json.loads(row))
    return ", ".join(f"{sums[outcome]} {outcome}" for outcome in SAID if sums[outcome]) or "no tests ran"

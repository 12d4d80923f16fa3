"""One last line that says which promises of `docs/reliability.md` a run did not prove, and why.

Tests that prove a promise are marked `promise(3, 4)`. One that is skipped proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.run.appended import append, appended

PROMISES = "promises"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--unproven-to", type=Path, help="append promises that were not proven to this file, as JSON lines"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        numbers = {int(number) for marker in item.iter_markers("promise") for number in marker.args}
        if numbers:
            item.user_properties.append((PROMISES, sorted(numbers)))


def last_line(unproven: Iterable[tuple[str, Iterable[int]]]) -> str:
    """Reasons with the promises that they left unproven, as one line; empty where there are none."""
    numbers: dict[str, set[int]] = {}
    for reason, found in unproven:
        numbers.setdefault(reason, set()).update(found)
    parts = []
    for reason, found in sorted(numbers.items(), key=lambda each: sorted(each[1])):
        noun = "promise" if len(found) == 1 else "promises"
        parts.append(f"{noun} {', '.join(map(str, sorted(found)))} not proven here: {reason}")
    return "; ".join(parts)


def read(file: Path) -> list[tuple[str, list[int]]]:
    """What runs have appended to a file; nothing where there is none."""
    return [(row["reason"], row["promises"]) for row in map(json.loads, appended(file))]


def _skipped(stats: Mapping[str, list[pytest.TestReport]]) -> list[tuple[str, list[int]]]:
    found = []
    for report in stats.get("skipped", []):
        properties = dict(getattr(report, "user_properties", ()))
        if PROMISES in properties:
            found.append((_reason(report), list(properties[PROMISES])))
    return found


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Say it behind everything else that the terminal gets."""
    result = yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(session.config, "workerinput"):
        return result
    unproven = _skipped(terminal.stats)
    if unproven and (file := session.config.getoption("--unproven-to")):
        append(file, *(json.dumps({"reason": reason, "promises": found}) for reason, found in unproven))
    elif unproven:
        terminal.write_line(last_line(unproven))
    return result

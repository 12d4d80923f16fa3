"""Suites of hours go on where they were stopped: tests that have passed, or were skipped, are not run again.

`--go-on FILE` appends the names of these to the file, and leaves out those that it has. What has passed says something
of one state of the sources alone: `tests.stages` keeps the commit in the file's first line, and takes no other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run.appended import append, appended
from tests.support.run.tiers import NOT_STARTED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--go-on", type=Path, help="leave out tests that this file names, and append those that pass")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--go-on")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Keeper(file))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if file := config.getoption("--go-on"):
        done = frozenset(appended(file))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]


class _Keeper:
    """Appends each test that has come to its end without a failure."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._open: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.skipped and NOT_STARTED in str(report.longrepr)):
            self._open.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self._open:
            append(self._file, report.nodeid)

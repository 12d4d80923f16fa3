"""A test marked `alone` that fails while the machine is disturbed runs once more, and the summary says so.

Such a test measures times or has limits in seconds. What disturbs it is a hypervisor that takes the cores away (steal),
or a load of others. A failure without either stands at once, and so does a second one.

Other tests disturb it, too. So with `--again-to FILE` a failure is no verdict: the test's name is appended to the file,
and `--these FILE` runs those tests by themselves.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.support.run.appended import append, appended

REPEATED, PUT_OFF = "repeated", "put off"
AGAIN = pytest.StashKey[bool]()
# A core that was taken away for one second of twenty; a process more than an alone test and its board keep busy.
MOST_STEAL = 0.05
MOST_LOAD_ABOVE_CORES = 1.0


@dataclass(frozen=True, slots=True)
class Moment:
    """What `/proc` says of the machine: clock ticks of all cores since its start, and the load of the last minute."""

    ticks: int
    steal_ticks: int
    load: float

    @staticmethod
    def now(proc: Path = Path("/proc")) -> Moment:
        """A moment without ticks and load where there is no such file."""
        try:
            ticks = [int(text) for text in (proc / "stat").read_text().splitlines()[0].split()[1:9]]
            load = float((proc / "loadavg").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return Moment(0, 0, 0.0)
        return Moment(sum(ticks), ticks[7] if len(ticks) > 7 else 0, load)


def disturbance(before: Moment, after: Moment, cores: int) -> str:
    """What disturbed a test between two moments, empty where nothing did: `steal 23 %, load 4.1`."""
    steal = (after.steal_ticks - before.steal_ticks) / max(after.ticks - before.ticks, 1)
    load = max(before.load, after.load)
    if steal <= MOST_STEAL and load <= cores + MOST_LOAD_ABOVE_CORES:
        return ""
    return f"steal {steal:.0%}, load {load:.1f}".replace("%", " %")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("quiet")
    group.addoption("--again-to", type=Path, help="append tests marked `alone` that fail beside others to this file")
    group.addoption("--these", type=Path, help="run the tests that this file names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if file := config.getoption("--these"):
        wanted = appended(file)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("alone") is None or item.stash.get(AGAIN, False):
        return None
    before = Moment.now()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        if later := item.config.getoption("--again-to"):
            reports = [_put_off(item, later)]
        elif found := disturbance(before, Moment.now(), len(os.sched_getaffinity(0))):
            _run_again(item, nextitem, found)
            return True
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _put_off(item: pytest.Item, later: Path) -> pytest.TestReport:
    """A report that the test has no verdict yet."""
    append(later, item.nodeid)
    where = (str(item.path), item.location[1] or 0, "Skipped: failed beside others, runs again by itself")
    put_off = [(PUT_OFF, True)]
    return pytest.TestReport(item.nodeid, item.location, {}, "skipped", where, "call", user_properties=put_off)


def _run_again(item: pytest.Item, nextitem: pytest.Item | None, found: str) -> None:
    """Run a test from new fixtures on, with a new limit of time, and log that run alone."""
    item.stash[AGAIN] = True
    item.user_properties.append((REPEATED, found))
    item.session._setupstate.teardown_exact(None)
    item._initrequest()  # type: ignore[attr-defined]
    item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    repeated: dict[str, str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == REPEATED:
                    repeated[report.nodeid] = f"{value}: {report.nodeid}"
    if repeated:
        noun = "test" if len(repeated) == 1 else "tests"
        terminalreporter.write_line(f"{len(repeated)} {noun} repeated, as the machine was disturbed")
        for line in repeated.values():
            terminalreporter.write_line(f"  {line}")

"""A campaign whose files somebody removes while it runs: it is said at once, and nobody else is blamed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.program.cli_program import CONV, LIMIT_S, start, wait_for_trials, write_table

pytestmark = [pytest.mark.alone, pytest.mark.promise(14)]


def _remove_all(results: Path) -> None:
    shutil.rmtree(results, ignore_errors=True)


def _remove_builds(results: Path) -> None:
    shutil.rmtree(results / ".work", ignore_errors=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("remove", "message"),
    [
        (_remove_all, "the results file was removed while it was being written"),
        (_remove_builds, "a folder of the results was removed while it was in use"),
    ],
)
def test_it_is_said_at_once(tmp_path: Path, remove: Callable[[Path], None], message: str) -> None:
    results = tmp_path / "results"
    table = write_table(tmp_path / "small.json", [{"name": "a", "count": 1, "workload": CONV}])
    process = start("tune", table, "--results", results, "--trials", 500, "--strategy", "random")
    try:
        wait_for_trials(results, 2, LIMIT_S)
        remove(results)
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    lines = [line for line in err.decode().splitlines() if "trials, " not in line]
    assert process.returncode == 1
    assert len(lines) == 2, lines
    # Whichever of both is looked at first; a build that was running may have made its folder anew.
    other = "a (file|folder) of the results was (removed|replaced) while it was in use"
    assert re.match(rf"error: ({message}|{other}): ", lines[0])
    assert lines[1].startswith("hint: ")

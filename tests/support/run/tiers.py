"""Which tests a run takes: files by what they need, representatives of matrices, what of a drawn order fits a time.

A unit file loads no TVM and starts no process: its imports say so. `--files unit` collects these alone, in seconds.
"""

from __future__ import annotations

import functools
import random
import re
import time
from collections.abc import Hashable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.places import ROOT, TESTS
from tests.support.run.thinned import covering, is_skipped

DEADLINE = pytest.StashKey[float]()
NOT_STARTED = "not started"

# Packages that load TVM or reach other machines, and modules that start processes.
SYSTEM = frozenset({"tvm", "tvm_ffi", "paramiko", "subprocess", "multiprocessing", "dask", "distributed"})
# The product's modules import `subprocess` for what a test may never call: these are called to start processes.
PROCESSES = frozenset(
    {
        "int8tune.compiler.compile",
        "int8tune.rpc.transports.local",
        "int8tune.tuner.bench.contestant",
        "int8tune.tuner.builder.pool",
        "int8tune.tuner.campaign.run",
    }
)
IMPORT = r"(?:from ([\w.]+) import (\([^)]*\)|[^\n]+)|import ([\w., ]+))"
AT_ONCE = re.compile(rf"^{IMPORT}", re.MULTILINE)
ANYWHERE = re.compile(rf"^[ \t]*{IMPORT}", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption(
        "--files",
        choices=("all", "unit", "system"),
        default="all",
        help="unit: only files that load no TVM and start no process; system: only the others",
    )
    group.addoption("--until-s", type=float, help="start no test later than that many seconds after the start")
    group.addoption("--order-seed", type=int, help="run the tests in an order drawn with this seed")


def pytest_configure(config: pytest.Config) -> None:
    if (until_s := config.getoption("--until-s")) is not None:
        config.stash[DEADLINE] = time.monotonic() + until_s


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = config.getoption("--files")
    if wanted == "all" or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    return True if is_unit(collection_path) != (wanted == "unit") else None


@pytest.hookimpl(tryfirst=True)  # before markers choose
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in _rest_of_matrices(items):
        item.add_marker(pytest.mark.thorough)
    if (seed := config.getoption("--order-seed")) is not None:
        # Tests of one function stay together, as they share what is expensive to make.
        groups = [list(group) for _, group in groupby(items, lambda item: item.nodeid.partition("[")[0])]
        random.Random(seed).shuffle(groups)
        items[:] = [item for group in groups for item in group]


def _rest_of_matrices(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """What a quick run leaves out of tests marked `matrix`: sets of parameters whose values others show, too.

    Of `matrix(at_most=3)` it takes three sets, with as many of the values as three of these have.
    """
    matrices: dict[str, list[pytest.Function]] = {}
    for item in items:
        is_long = item.get_closest_marker("slow") or item.get_closest_marker("thorough")
        if isinstance(item, pytest.Function) and item.get_closest_marker("matrix") and not is_long:
            matrices.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for matrix in matrices.values():
        marker = next(matrix[0].iter_markers("matrix"))
        matrix.sort(key=lambda item: is_skipped(value for _, value in _values(item)))
        quick = covering([_values(item) for item in matrix])[: marker.kwargs.get("at_most")]
        yield from (item for at, item in enumerate(matrix) if at not in quick)


def _values(item: pytest.Function) -> frozenset[tuple[str, Hashable]]:
    values = item.callspec.params if hasattr(item, "callspec") else {}
    return frozenset((name, value if isinstance(value, Hashable) else id(value)) for name, value in values.items())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    deadline = item.config.stash.get(DEADLINE, None)
    if deadline is not None and time.monotonic() > deadline:
        pytest.skip(f"{NOT_STARTED}: {item.config.getoption('--until-s'):g} s were over")


@functools.cache
def is_unit(file: Path) -> bool:
    """Whether a test file loads no TVM and starts no process, as far as imports say."""
    seen, waiting = {file}, [file]
    while waiting:
        for name in _imports(path := waiting.pop(), ANYWHERE if path == file else AT_ONCE):
            if _is_system(name, path):
                return False
            found = _module_file(name)
            if found and found not in seen:
                seen.add(found)
                waiting.append(found)
    return True


def imported_files(path: Path) -> frozenset[Path]:
    """Files of the product and of the tests that a file imports, also inside of its functions."""
    return frozenset(filter(None, map(_module_file, _imports(path, ANYWHERE))))


@functools.cache
def _imports(path: Path, pattern: re.Pattern[str]) -> frozenset[str]:
    return frozenset(_names(path, pattern))


def _names(path: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    for module, members, modules in pattern.findall(path.read_text(encoding="utf-8")):
        if module:
            yield module
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", members))
        else:
            yield from (each.split()[0] for each in modules.split(",") if each.strip())


def _is_system(name: str, importer: Path) -> bool:
    package = name.split(".")[0]
    if package in ("subprocess", "multiprocessing") and TESTS not in importer.parents:
        return False
    return name in PROCESSES or package in SYSTEM


@functools.cache
def _module_file(name: str) -> Path | None:
    """The file of a module of the product or of the tests; None for any other."""
    parts = name.split(".")
    base = ROOT.joinpath(*(("src", *parts) if parts[0] == "int8tune" else parts))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)

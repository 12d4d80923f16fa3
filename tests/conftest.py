"""Options and fixtures that several test files share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest

from int8tune.compiler.toolchain.kernel_cache import NO_CACHE
from int8tune.schedules.target import Target
from tests.support.gpu import emulated
from tests.support.places import PYTHON_PATH
from tests.support.program.postgres_server import PostgresServer, running_postgres
from tests.support.run.probes import host_target

# In an order in which none imports one that comes later.
RUN = ("quiet", "tiers", "going_on", "totals", "unproven", "kept_kernels", "large_heap", "started")
pytest_plugins = ["pytester", *(f"tests.support.run.{name}" for name in RUN)]


# How fast values are drawn is told by the clock, and says more of a busy machine than of a test.
hypothesis.settings.register_profile("any machine", suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any machine")


def pytest_configure() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, `nohup` hangups, too: children would inherit both."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-golden", action="store_true", help="write tests/golden anew instead of comparing with it"
    )


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What campaigns say of their boards stays out of the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_kernel_cache() -> Iterator[None]:
    """What a test compiles is not what an earlier run has compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NO_CACHE, "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def importable() -> Iterator[None]:
    """Processes that tests start find these sources, and `tests`: some run modules of it in place of the program's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PYTHON_PATH)
        # With it, what can't be written fails at once, and not when a program ends, as it does for users.
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        yield


@pytest.fixture
def refresh_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--refresh-golden"))


@pytest.fixture(scope="session")
def vnni() -> Target:
    """This machine with AVX512-VNNI; skips without it."""
    return host_target("x86-avx512vnni")


@pytest.fixture(scope="session")
def generic() -> Target:
    """This machine without its special instructions."""
    return host_target("generic")


@pytest.fixture(scope="session")
def native() -> Target:
    """This machine with all it has."""
    return host_target(None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for all tests of a process, each of which has databases of its own; skips where none can run."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def emulated_gpu() -> None:
    """Skips where no GPU can be emulated; a mark would have to build one while tests are collected."""
    if reason := emulated.missing():
        pytest.skip(reason)

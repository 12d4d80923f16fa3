"""A Dask cluster as the documentation starts it listens on loopback alone, and one that others reach is refused."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from int8tune.schedules.target import Target
from int8tune.tuner.builder import cluster as cluster_pools
from int8tune.tuner.builder.cluster import ClusterPool
from int8tune.tuner.builder.listening import _address
from int8tune.tuner.cli.failures import FAILURES
from int8tune.tuner.errors import BuildClusterError
from tests.support.places import ROOT
from tests.support.program.dask_processes import ON_LOOPBACK, DaskProcesses
from tests.tuner.builder.test_contract import build_suite

pytestmark = pytest.mark.promise(8)

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
Security = pytest.importorskip("distributed", reason="needs the extra `dask`").Security

ROLES = ("scheduler", "worker", "client")
PAGE = ROOT / "docs" / "commands.md"
SERVER = "int8tune.tuner.builder.server"
START_LIMIT_S = 60.0
_EXPOSED = r"can't be used: (tcp|tls)://.*: it listens beyond loopback without TLS, .*0\.0\.0\.0:\d+"


def dask_lines(text: str) -> list[str]:
    return re.findall(r"^dask .*?(?=  +#|$)", text, re.MULTILINE)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of groups of their own, which end with the test."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def start_line(line: str, folder: Path) -> subprocess.Popen[bytes]:
    """A line as a person types it, where the program is on the path."""
    paths = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **paths, "DASK_TEMPORARY_DIRECTORY": str(folder)}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(["sh", "-c", f"exec {line}"], stdout=log, stderr=log, env=env, start_new_session=True)


def sockets_of(roots: Sequence[subprocess.Popen[bytes]]) -> list[tuple[str, int]]:
    """Where processes and all that they started listen."""
    heads = [psutil.Process(root.pid) for root in roots]
    family = heads + [child for head in heads for child in head.children(recursive=True)]
    listens = [each for one in family for each in one.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    return [(each.laddr.ip, each.laddr.port) for each in listens]


def test_the_lines_of_the_page_listen_on_loopback_alone(
    started: list[subprocess.Popen[bytes]], generic: Target, tmp_path: Path
) -> None:
    scheduler, worker = dask_lines(PAGE.read_text())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started.append(start_line(f"{scheduler} --port {port}", tmp_path))
    started.append(start_line(worker.replace("8786", str(port)), tmp_path))
    deadline = time.monotonic() + START_LIMIT_S
    while (tmp_path / "log").read_text().count("Registered to:") < 1:
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.05)
    sockets = sockets_of(started)
    assert ("127.0.0.1", port) in sockets
    assert len(sockets) >= 5  # two of the scheduler, two of the worker, one of its nanny
    assert {host for host, _ in sockets} <= {"127.0.0.1", "::1"}
    with ClusterPool(f"tcp://127.0.0.1:{port}", SERVER) as pool:
        build_suite(pool, generic, tmp_path)


def test_the_hint_has_the_lines_of_the_page() -> None:
    hint = FAILURES[BuildClusterError].hint
    assert [line for line in dask_lines(PAGE.read_text()) if line not in hint] == []
    assert [shlex.split(line)[:2] for line in dask_lines(PAGE.read_text())] == [
        ["dask", "scheduler"],
        ["dask", "worker"],
    ]


@pytest.fixture(autouse=True)
def workers_that_start_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine; what is tested is no limit."""
    monkeypatch.setattr(cluster_pools, "CONNECT_LIMIT_S", 60.0)


@pytest.mark.parametrize(
    "options",
    [("--host=127.0.0.1", "--no-dashboard"), pytest.param(("--host=0.0.0.0",), marks=pytest.mark.thorough)],
)
def test_a_scheduler_that_others_reach_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    cluster = DaskProcesses(tmp_path, options=options)
    try:
        address = f"tcp://127.0.0.1:{cluster.address.rpartition(':')[2]}"
        with pytest.raises(BuildClusterError, match=rf"beyond loopback without TLS, .*0\.0\.0\.0:\d+.*: {address}$"):
            ClusterPool(address).__enter__()
    finally:
        cluster.close()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--no-nanny", "--dashboard-address=127.0.0.1:0"), marks=pytest.mark.thorough),
        pytest.param(("--no-nanny", "--host=127.0.0.1", "--no-dashboard"), marks=pytest.mark.thorough),
        ("--nanny", "--host=0.0.0.0", "--dashboard-address=127.0.0.1:0"),
    ],
)
def test_a_worker_that_others_reach_is_refused(tmp_path: Path, generic: Target, options: tuple[str, ...]) -> None:
    cluster = DaskProcesses(tmp_path)
    try:
        cluster.add_worker(*options)
        with ClusterPool(cluster.address, SERVER) as pool, pytest.raises(BuildClusterError, match=_EXPOSED):
            build_suite(pool, generic, tmp_path)
    finally:
        cluster.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "is_taken"), [(ON_LOOPBACK[1:], True), ((), False)])
def test_with_tls_others_may_reach_it_but_not_its_pages(
    tmp_path: Path, generic: Target, options: tuple[str, ...], is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_certificate(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{name.upper().replace('-', '_').replace('.', '__')}", value)
    anywhere = ("--host=0.0.0.0", "--protocol=tls")
    cluster = DaskProcesses(tmp_path, options=(*anywhere, *ON_LOOPBACK[1:]))
    address = cluster.address = f"tls://127.0.0.1:{cluster.address.rpartition(':')[2]}"
    try:
        cluster.add_worker(*anywhere, "--nanny", *options)
        with (
            dask.config.set({f"distributed.comm.tls.{name}": value for name, value in settings.items()}),
            ClusterPool(address, SERVER) as pool,
            contextlib.nullcontext() if is_taken else pytest.raises(BuildClusterError, match=_EXPOSED),
        ):
            build_suite(pool, generic, tmp_path)
    finally:
        cluster.close()


def with_certificate(folder: Path) -> dict[str, str]:
    """Dask's settings with a certificate of its own, which all roles have."""
    pytest.importorskip("cryptography", reason="needs a certificate")
    made = Security.temporary()
    files = {"ca": made.tls_ca_file, "cert": made.tls_scheduler_cert, "key": made.tls_scheduler_key}
    for name, text in files.items():
        (folder / f"{name}.pem").write_text(text)
    roles = {f"{role}.{name}": str(folder / f"{name}.pem") for role in ROLES for name in ("cert", "key")}
    return {"ca-file": str(folder / "ca.pem"), **roles}


@pytest.mark.parametrize(
    ("digits", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"),
    ],
)
def test_addresses_are_read_as_linux_prints_them(digits: str, address: str) -> None:
    if sys.byteorder == "little":
        assert _address(digits) == ipaddress.ip_address(address)

"""A real PostgreSQL on loopback and a Unix socket, in a folder of its own, as a user without rights.

What it needs: PostgreSQL's programs, wherever Debian keeps them. Nothing of the machine's servers is read or written.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from int8tune.rpc.process import processes
from tests.support.program import postgres_guard
from tests.support.program.certificates import Authority

USER = "ada"
_DATABASE = "team"
_START_LIMIT_S = 20.0
_STOP_LIMIT_S = 20.0
_GUARD_LIMIT_S = 2 * postgres_guard.LIMIT_S


def why_no_postgres() -> str:
    """Why none can run here; empty if one can."""
    missing = [name for name in ("initdb", "postgres") if _program(name) is None]
    try:
        import psycopg  # noqa: F401
    except ImportError:
        missing.append("psycopg")
    return f"not installed: {', '.join(missing)}" if missing else ""


class PostgresServer:
    """A server, whose user `ada` has a password and may make databases."""

    def __init__(self, folder: Path, port: int, *, is_durable: bool) -> None:
        self.folder, self.port = folder, port
        self.password = f"secret-{secrets.token_hex(8)}"
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": str(folder),
            "fsync": "on" if is_durable else "off",
            "shared_buffers": "64MB",
            "max_connections": "40",
            "dynamic_shared_memory_type": "mmap",  # in its folder, not in the machine's
        }
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Set up the server's files."""
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        command = [_program("initdb"), "-D", str(self.folder / "data"), "-U", USER, "--pwfile", str(secret)]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        subprocess.run(
            [*map(str, command), *options],
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
            **_as_nobody(),
        )
        secret.unlink()

    def require_tls(self, authority: Authority) -> None:
        """Take passwords over TLS only, as `localhost`, and of a database `certified` a certificate instead.

        Before it is started.
        """
        data = self.folder / "data"
        files = (*authority.sign("localhost", data, "DNS:localhost"), data / "authority.crt")
        shutil.copy(authority.certificate, files[-1])
        if (user := _nobody()) is not None:
            for file in files:
                os.chown(file, user.pw_uid, user.pw_gid)
        names = ("ssl_cert_file", "ssl_key_file", "ssl_ca_file")
        self._settings |= {"ssl": "on", **dict(zip(names, map(str, files), strict=True))}
        lines = ("local all all scram-sha-256", "hostssl certified all all cert", "hostssl all all all scram-sha-256")
        (data / "pg_hba.conf").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start, and wait until it answers."""
        given = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_program("postgres")), "-D", str(self.folder / "data"), *given],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                **_as_nobody(),
            )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: end at once, in order; SIGQUIT: as after a crash. One that does not end within a limit is killed."""
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(how)
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_LIMIT_S)
                raise

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes, such as SIGSTOP."""
        for pid in postgres_guard.processes_in(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def empty_database(self) -> str:
        """The URL of a database without records, with the password in it; the same each time: many have many files."""
        if not self.run(f"SELECT 1 FROM pg_database WHERE datname = '{_DATABASE}'", "postgres"):
            self.run(f"CREATE DATABASE {_DATABASE} TEMPLATE template0", "postgres")
        self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_DATABASE}'", "postgres")
        self.run("DROP SCHEMA IF EXISTS int8tune CASCADE", _DATABASE)
        return self.url(_DATABASE)

    def url(self, database: str, port: int | None = None) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{port or self.port}/{database}"

    def run(self, statement: str, database: str) -> list[tuple[object, ...]]:
        """What a statement gives."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _wait(self) -> None:
        import psycopg

        deadline_s = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline_s:
            assert self._process is not None
            assert self._process.poll() is None, self.log
            with contextlib.suppress(psycopg.OperationalError):
                self.run("SELECT 1", "postgres")
                return
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL does not answer: {self.log}")


@contextlib.contextmanager
def running_postgres(*, is_durable: bool = False, authority: Authority | None = None) -> Iterator[PostgresServer]:
    """A server that answers; nothing of it is left afterwards.

    Args:
        is_durable: whether it waits for the disk; else a crash of the machine would damage it, not one of a process.
        authority: has signed the certificate by which it says who it is; None: no TLS.
    """
    if why := why_no_postgres():
        import pytest  # not there where only a command runs

        pytest.skip(f"no PostgreSQL: {why}")
    # Not among pytest's folders, which only this user may enter.
    folder = Path(tempfile.mkdtemp(prefix="int8tune-postgres-"))
    server = PostgresServer(folder, _free_port(), is_durable=is_durable)
    with _guarded(folder):
        if (user := _nobody()) is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        try:
            server.make()
            if authority is not None:
                server.require_tls(authority)
            server.start()
            yield server
        finally:
            server.send(signal.SIGCONT)  # to one that a test has frozen
            server.stop(signal.SIGQUIT)


@contextlib.contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Have another process remove a folder and all that runs there, when this ends or this process does."""
    guard = subprocess.Popen(
        [sys.executable, "-I", postgres_guard.__file__, str(folder)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_wait_for_parent,
    )
    try:
        yield
    finally:
        guard.terminate()
        try:
            guard.wait(_GUARD_LIMIT_S)
        finally:
            guard.kill()
    assert not folder.exists()


def _nobody() -> pwd.struct_passwd | None:
    """Whom PostgreSQL runs as, which refuses to be root; None for this user."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as_nobody() -> dict[str, Any]:
    user = _nobody()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def _end_with_parent() -> None:
    processes.signal_when_parent_ends(signal.SIGQUIT)


def _wait_for_parent() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    processes.signal_when_parent_ends(signal.SIGTERM)


@functools.cache
def _program(name: str) -> str | None:
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: -float(path.parts[4]))
    return next(map(str, newest), None) or shutil.which(name)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])

"""A team's database behind TLS, by libpq's usual environment: a real server, with certificates made on the spot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from int8tune.results.record import Campaign
from int8tune.results.stores import open_store
from tests.support.program.certificates import Authority
from tests.support.program.cli_program import in_process
from tests.support.program.postgres_server import PostgresServer, running_postgres
from tests.support.program.results_samples import campaign

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "team").make()


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    with running_postgres(authority=authority) as running:
        running.empty_database()
        running.run("CREATE DATABASE certified TEMPLATE template0", "postgres")
        yield running


@pytest.fixture(autouse=True)
def environment(server: PostgresServer, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As docs/results.md sets it."""
    monkeypatch.setenv("PGPASSWORD", server.password)
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(authority.certificate))
    return monkeypatch


def _url(server: PostgresServer, host: str = "localhost", database: str = "team") -> str:
    return f"postgresql://ada@{host}:{server.port}/{database}"


def _refused(where: str) -> str:
    """The one line, beside a hint, with which the program ends."""
    found = in_process("results", "list", where)
    first, *others = found.err.splitlines()
    assert (found.code, found.out, len(others)) == (1, "", 1), found.err
    assert others[0].startswith("hint: ")
    return first


def test_records_go_to_a_server_that_proves_who_it_is(server: PostgresServer, tmp_path: Path) -> None:
    import psycopg  # only there with the extra `team`

    store = open_store(_url(server), files=tmp_path)
    store.append([campaign()])
    seen = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'int8tune'"
    with psycopg.connect(_url(server)) as connection:
        assert connection.execute(seen).fetchall() == [(True,)]
    store.close()
    assert in_process("results", "list", _url(server)).code == 0


def test_a_certificate_of_another_authority_is_refused(
    server: PostgresServer, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.setenv("PGSSLROOTCERT", str(Authority(tmp_path, "stranger").make().certificate))
    line = _refused(_url(server))
    assert line.startswith("error: the database can't be reached (")
    assert line.endswith(f"SSL error: certificate verify failed): {_url(server)}")


def test_a_certificate_of_another_host_is_refused(server: PostgresServer) -> None:
    line = _refused(_url(server, "127.0.0.1"))
    assert 'server certificate for "localhost" (and 1 other name) does not match host name "127.0.0.1"' in line


def test_without_tls_the_server_takes_nobody(server: PostgresServer, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PGSSLMODE", "disable")
    assert "no encryption" in _refused(_url(server))


def test_a_certificate_in_place_of_a_password(
    server: PostgresServer, authority: Authority, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.delenv("PGPASSWORD")
    where = _url(server, database="certified")
    assert "connection requires a valid client certificate" in _refused(where)
    certificate, key = authority.sign("ada", tmp_path)
    environment.setenv("PGSSLCERT", str(certificate))
    environment.setenv("PGSSLKEY", str(key))
    store = open_store(where, files=tmp_path)
    store.append([campaign()])
    assert [each.name for each in store.query(Campaign)] == ["c1"]
    store.close()
    key.chmod(0o644)
    assert "has group or world access" in _refused(where)

"""What only a database can get wrong: writers on several hosts, networks that break, servers that stop, passwords."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest
from sqlalchemy import text

from int8tune.results.errors import (
    ForeignStoreError,
    NewerSchemaError,
    StoreAwayError,
    StoreError,
    StoreLockedError,
)
from int8tune.results.postgresql.spool import REFUSED, SUFFIX, Batch, Spool
from int8tune.results.postgresql.store import PostgresStore
from int8tune.results.record import BenchResult, Campaign, DeviceCheck, Duel, Trial
from int8tune.results.redaction import without_password
from int8tune.results.stores import claim, open_store
from int8tune.rpc.process import processes
from tests.support.farm.faulty_link import FaultyLink
from tests.support.program.bench_entries import peer, result
from tests.support.program.cli_program import in_process
from tests.support.program.postgres_guard import processes_in
from tests.support.program.postgres_server import PostgresServer, running_postgres
from tests.support.program.results_samples import campaign, candidate, check, duel, estimated, failed, fill, ok, run

pytestmark = [pytest.mark.promise(1, 14, 23), pytest.mark.timeout(60)]

FORK = multiprocessing.get_context("fork")
LIMIT_S = 30.0


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.empty_database()


@pytest.fixture
def link(postgres: PostgresServer) -> Iterator[FaultyLink]:
    with FaultyLink(postgres.port) as link:
        yield link


def _through(link: FaultyLink, url: str, postgres: PostgresServer) -> str:
    return postgres.url(url.rpartition("/")[2], link.port)


def _sequences(url: str, name: str = "c1") -> list[int]:
    with PostgresStore(url, readonly=True, files=Path("unused")) as store:
        return [trial.sequence for trial in store.query(Trial, campaign=name)]


def test_several_hosts_write_their_own_campaigns(url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path / "a") as a, PostgresStore(url, files=tmp_path / "b") as b:
        a.append([campaign("a"), ok(0, name="a")])
        b.append([campaign("b"), ok(0, name="b")])
        a.append([ok(1, name="a"), check()])
        b.append([ok(1, name="b")])
        for store in (a, b):
            assert [(trial.campaign, trial.sequence) for trial in store.query(Trial)] == [
                *(("a", 0), ("a", 1)),
                *(("b", 0), ("b", 1)),
            ]


def test_a_second_writer_is_told_who_the_first_one_is(url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as first:
        first.append([campaign()])
        with PostgresStore(url, files=tmp_path) as second:
            who = f"host {socket.gethostname()}, pid {os.getpid()}, since 20"
            with pytest.raises(StoreLockedError, match=rf"another process is writing to campaign `c1` \({who}"):
                second.append([ok(0)])
            with pytest.raises(StoreLockedError, match="is writing to campaign `c1`"):
                claim(second, "c1")
    with PostgresStore(url, files=tmp_path) as second:
        second.append([ok(0)])
    assert _sequences(url) == [0]


def test_a_campaign_is_claimed_before_it_is_there(url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as first, PostgresStore(url, files=tmp_path) as second:
        claim(first, "c1")
        with pytest.raises(StoreLockedError, match="is writing to campaign `c1`"):
            second.append([campaign()])
        first.append([campaign()])


def _append(url: str, files: Path, told: int, lease_s: float, first: int = 0) -> None:
    processes.signal_when_parent_ends(signal.SIGKILL)
    with PostgresStore(url, files=files, lease_s=lease_s) as store:
        if not list(store.query(Campaign)):
            store.append([campaign()])
        for sequence in range(first, first + 100_000):
            store.append([ok(sequence)])
            os.write(told, b"+")


class _Appending:
    """A process that adds trials until it is killed."""

    def __init__(self, url: str, files: Path, lease_s: float = 90.0, first: int = 0) -> None:
        self._told, told = os.pipe()
        os.set_blocking(self._told, False)
        self.process: ForkProcess = FORK.Process(target=_append, args=(url, files, told, lease_s, first))
        self.process.start()
        os.close(told)
        self.acknowledged = 0

    def wait_for(self, more: int) -> None:
        """Until so many more were acknowledged."""
        goal, deadline_s = self.acknowledged + more, time.monotonic() + LIMIT_S
        while self.count() < goal:
            assert self.process.is_alive()
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    def count(self) -> int:
        with contextlib.suppress(BlockingIOError):
            self.acknowledged += len(os.read(self._told, 1 << 20))
        return self.acknowledged

    def kill(self) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(10)
        self.count()
        os.close(self._told)


@pytest.fixture
def appending(url: str, tmp_path: Path) -> Iterator[_Appending]:
    writer = _Appending(url, tmp_path / "writer", lease_s=1.0)
    yield writer
    with contextlib.suppress(OSError):
        writer.kill()


def test_a_writer_that_is_killed_loses_nothing_and_leaves_its_campaign(
    appending: _Appending, url: str, tmp_path: Path
) -> None:
    appending.wait_for(5)
    appending.kill()
    with PostgresStore(url, files=tmp_path / "writer") as store:
        claim(store, "c1")
        found = [trial.sequence for trial in store.query(Trial)]
        assert found == list(range(len(found)))
        assert len(found) in (appending.acknowledged, appending.acknowledged + 1)
        store.append([ok(len(found))])


@pytest.mark.thorough
def test_a_lease_that_ended_is_taken_and_a_late_writer_is_refused(
    appending: _Appending, url: str, tmp_path: Path
) -> None:
    appending.wait_for(3)
    assert appending.process.pid is not None
    os.kill(appending.process.pid, signal.SIGSTOP)
    with PostgresStore(url, files=tmp_path / "other") as store:
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            try:
                claim(store, "c1")
                break
            except StoreLockedError:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
        before = [trial.sequence for trial in store.query(Trial)]
        os.kill(appending.process.pid, signal.SIGCONT)
        appending.process.join(10)
        assert appending.process.exitcode == 1  # by a `StoreLockedError`
        assert [trial.sequence for trial in store.query(Trial)] == before


def test_a_link_that_breaks_costs_nothing(postgres: PostgresServer, link: FaultyLink, url: str, tmp_path: Path) -> None:
    with PostgresStore(_through(link, url, postgres), files=tmp_path) as store:
        store.append([campaign(), ok(0)])
        link.refuse(1.5)
        began_s = time.monotonic()
        for sequence in range(1, 20):
            store.append([ok(sequence), check()])
        store.append([duel(candidate(0), candidate(1), 1.2), result(1e-4, peer("onednn", 2e-4, 1e-6))])
        assert time.monotonic() - began_s < 1.5
        assert _sequences(url) == [0]
        # A query waits until all is handed over.
        assert [trial.sequence for trial in store.query(Trial)] == list(range(20))
        assert len(list(store.query(DeviceCheck))) == 19
        assert len(list(store.query(Duel))) == len(list(store.query(BenchResult))) == 1
    assert not list(tmp_path.rglob(f"*{SUFFIX}"))


def test_a_query_goes_on_when_the_link_is_back(
    postgres: PostgresServer, link: FaultyLink, url: str, tmp_path: Path
) -> None:
    with PostgresStore(_through(link, url, postgres), files=tmp_path) as store:
        store.append([campaign(), *(ok(sequence) for sequence in range(2000))])
        found = store.query(Trial)
        first = next(found)
        link.cut()
        store.append([ok(2000)])
        assert [first, *found] == [ok(sequence) for sequence in range(2000)]


def _readers(postgres: PostgresServer) -> list[int]:
    """Server processes of connections that are open and within no transaction."""
    idle = "SELECT pid FROM pg_stat_activity WHERE application_name = 'int8tune' AND state = 'idle'"
    return [int(str(pid)) for (pid,) in postgres.run(idle, "postgres")]


def test_readings_share_a_connection_and_one_that_is_lost_meanwhile_is_replaced(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    fill_url(url, tmp_path)
    with PostgresStore(url, readonly=True, files=tmp_path) as store:
        for _ in range(2):
            kept = _readers(postgres)
            assert len(kept) == 1
            assert [trial.sequence for trial in store.query(Trial)] == list(range(20))
            assert store.tally("c1").outcomes
            within = [(a.sequence, b.sequence) for a in store.query(Trial) for b in store.query(Trial)]
            assert within == [(a, b) for a in range(20) for b in range(20)]
            assert next(store.query(Trial)).sequence == 0  # left before its end: that connection is given up
            list(store.query(Trial))
        for act in (lambda: list(store.query(Trial)), lambda: store.tally("c1")):
            (kept,) = _readers(postgres)
            postgres.run(f"SELECT pg_terminate_backend({kept})", "postgres")
            assert act()
            assert kept not in _readers(postgres)
    assert not _readers(postgres)


def fill_url(url: str, tmp_path: Path) -> None:
    """A campaign of twenty trials."""
    with PostgresStore(url, files=tmp_path) as store:
        store.append([campaign(), *(ok(sequence) for sequence in range(20))])


def test_what_waits_is_handed_over_by_the_next_start(
    postgres: PostgresServer, link: FaultyLink, url: str, tmp_path: Path
) -> None:
    through = _through(link, url, postgres)
    writer = _Appending(through, tmp_path)
    try:
        writer.wait_for(3)
        link.refuse(60)
        writer.wait_for(10)
    finally:
        writer.kill()
    assert list(tmp_path.rglob(f"*{SUFFIX}"))
    with pytest.raises(StoreAwayError, match="the database can't be reached"):
        PostgresStore(through, files=tmp_path)
    with PostgresStore(url, files=tmp_path) as store:
        found = [trial.sequence for trial in store.query(Trial)]
        assert found == list(range(len(found)))
        assert len(found) in (writer.acknowledged, writer.acknowledged + 1)
    assert not list(tmp_path.rglob(f"*{SUFFIX}"))


def test_what_waits_and_is_there_otherwise_is_kept_in_a_file(url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as store:
        store.append([campaign(), ok(0)])
    spool = _spool_of_the_dead(tmp_path, [[ok(1)], [ok(0, 7e-4)], [ok(2)]])
    with pytest.raises(StoreError, match=rf"kept in .*{REFUSED} \(campaign `c1` has a trial .* already"):
        PostgresStore(url, files=tmp_path)
    with PostgresStore(url, files=tmp_path) as store:
        assert [trial.sequence for trial in store.query(Trial)] == [0, 1, 2]
    assert not spool.exists()
    assert spool.with_suffix(REFUSED).read_bytes().count(b"\n") == 1


def test_a_line_that_was_not_written_whole_was_never_acknowledged(url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as store:
        store.append([campaign()])
    spool = _spool_of_the_dead(tmp_path, [[ok(0)], [ok(1)]])
    spool.write_bytes(spool.read_bytes()[:-20])
    with PostgresStore(url, files=tmp_path) as store:
        assert [trial.sequence for trial in store.query(Trial)] == [0]


def test_a_damaged_line_is_set_aside(url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as store:
        store.append([campaign()])
    spool = _spool_of_the_dead(tmp_path, [[ok(0)], [ok(1)]])
    spool.write_bytes(spool.read_bytes().replace(b"0.001", b"0.002", 1))
    with pytest.raises(StoreError, match=r"\(a damaged line\)"):
        PostgresStore(url, files=tmp_path)
    assert _sequences(url) == [1]


def _spool_of_the_dead(files: Path, batches: Sequence[Sequence[Trial]]) -> Path:
    """What a process that was killed left behind."""
    (folder,) = (files / "spool").iterdir()
    spool = Spool(folder / f"00000000-0000-4000-8000-000000000001{SUFFIX}")
    for number, entries in enumerate(batches, start=1):
        spool.add(Batch(number, tuple(entries)))
    spool.close()
    return spool.path


def test_a_spool_gives_back_what_was_added(tmp_path: Path) -> None:
    entries = (
        replace(campaign("named"), seed=2**128),
        run(),
        ok(0),
        estimated(1),
        failed(2, error="printed \udcff and\0"),
        duel(candidate(0), candidate(1), 1.2),
        check(),
        result(1e-4, peer("onednn", 2e-4, 1e-6)),
    )
    spool = Spool(tmp_path / f"00000000-0000-4000-8000-000000000001{SUFFIX}")
    spool.add(Batch(7, entries))
    ((found, _, _),) = spool.batches()
    spool.close()
    assert found is not None
    assert found.number == 7
    assert [repr(entry).replace("\\\\udcff", "\\udcff") for entry in found.entries] == [*map(repr, entries)]


def test_a_damaged_row_is_named(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as store:
        store.append([campaign(), ok(0), ok(1)])
    postgres.run("UPDATE int8tune.trials SET device = 'x' WHERE sequence = 1", url.rpartition("/")[2])
    with pytest.raises(ForeignStoreError, match="row 2 of trials: its checksum does not match"):
        _sequences(url)


def test_other_databases_are_refused(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no records are in this database: postgresql://ada@127.0.0.1:\d+/team"):
        PostgresStore(url, readonly=True, files=tmp_path)
    PostgresStore(url, files=tmp_path).close()
    postgres.run("UPDATE int8tune.about SET schema_version = 99", url.rpartition("/")[2])
    for readonly in (True, False):
        with pytest.raises(NewerSchemaError, match="written by a newer version of this program"):
            PostgresStore(url, readonly=readonly, files=tmp_path)


def test_no_message_has_the_password(postgres: PostgresServer, url: str, tmp_path: Path) -> None:
    """Neither that of the URL, nor a wrong one, nor what is left of one that was not escaped."""
    wrong = [
        url.rpartition("/")[0] + "/no-such-database",
        url.replace(postgres.password, f"{postgres.password}-wrong"),
        url.replace("127.0.0.1", "no-such-host.invalid"),
        url.replace(postgres.password, f"{postgres.password}/x"),
        url.replace(postgres.password, f"{postgres.password}@x"),
        url.replace("postgresql:", "mysql:"),
        f"{url}?sslmode={postgres.password}",
        f"postgresql://127.0.0.1:{postgres.port}/x?password={postgres.password}&user=nobody",
    ]
    for each in wrong:
        with pytest.raises(StoreError) as caught:
            open_store(each, readonly=True, files=tmp_path)
        assert postgres.password not in str(caught.value) or each == wrong[6]
    with PostgresStore(url, files=tmp_path) as store:
        store.append([campaign()])
        assert postgres.password not in repr(store)
    assert postgres.password not in without_password(f"int8tune tune x --results {url}")
    assert postgres.password not in without_password(f"'{wrong[-1]}' --trials 3")


def test_the_password_may_come_from_libpq_s_environment(
    postgres: PostgresServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = url.replace(f":{postgres.password}", "")
    with pytest.raises(StoreError, match="no password supplied"):
        PostgresStore(bare, files=tmp_path)
    secrets = tmp_path / "pgpass"
    secrets.write_text(f"127.0.0.1:{postgres.port}:*:ada:{postgres.password}\n")
    secrets.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(secrets))
    PostgresStore(bare, files=tmp_path).close()
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    PostgresStore(bare, files=tmp_path).close()
    monkeypatch.setenv("PGSSLMODE", "require")
    with pytest.raises(StoreAwayError, match="server does not support SSL"):
        PostgresStore(bare, files=tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_added_twice_by_a_link_that_is_cut_at_any_moment(
    postgres: PostgresServer, link: FaultyLink, url: str, tmp_path: Path, seed: int
) -> None:
    """An answer that is lost says nothing of whether a commit took place."""
    rng, done = random.Random(seed), threading.Event()

    def cut() -> None:
        while not done.wait(rng.uniform(0.001, 0.05)):
            link.cut()

    cutter = threading.Thread(target=cut, daemon=True)
    with PostgresStore(_through(link, url, postgres), files=tmp_path) as store:
        store.append([campaign()])
        cutter.start()
        for sequence in range(300):
            store.append([ok(sequence), check()])
        done.set()
        cutter.join(5)
        assert [trial.sequence for trial in store.query(Trial)] == list(range(300))
        assert len(list(store.query(DeviceCheck))) == 300


@pytest.mark.thorough
def test_a_link_that_swallows_all_is_given_up(
    postgres: PostgresServer, link: FaultyLink, url: str, tmp_path: Path
) -> None:
    with PostgresStore(_through(link, url, postgres), files=tmp_path) as store:
        store.append([campaign()])
        link.stall(12)
        began_s = time.monotonic()
        for sequence in range(50):
            store.append([ok(sequence)])
        assert time.monotonic() - began_s < 8
        assert [trial.sequence for trial in store.query(Trial)] == list(range(50))


@pytest.mark.thorough
def test_who_is_frozen_within_a_transaction_keeps_nobody_waiting(url: str, tmp_path: Path) -> None:
    with (
        PostgresStore(url, files=tmp_path / "a", lease_s=1.0) as frozen,
        PostgresStore(url, files=tmp_path / "b") as other,
    ):
        frozen.append([campaign()])
        assert frozen._writer is not None
        leases, began_s = frozen._writer._leases, time.monotonic()
        with pytest.raises(StoreAwayError), frozen._server.transaction() as connection:  # noqa: PT012
            leases.require(connection, ["c1"])
            frozen._writer._ends = True  # nothing renews the lease either
            while time.monotonic() - began_s < LIMIT_S:
                with contextlib.suppress(StoreLockedError, StoreAwayError):
                    other._writer._commit(Batch(1, (ok(0),)), other._writer._spool.writer)  # type: ignore[union-attr]
                    break
            connection.execute(text("SELECT 1"))
        assert time.monotonic() - began_s < 12
        with pytest.raises(StoreLockedError, match="another process took over campaign `c1`"):
            frozen.append([ok(1)])


@pytest.mark.thorough
def test_a_server_may_stop_and_come_back(tmp_path: Path) -> None:
    """In order, and as after a crash; what was acknowledged is there."""
    with running_postgres(is_durable=True) as server, contextlib.ExitStack() as stack:
        url = server.empty_database()
        store = stack.enter_context(PostgresStore(url, files=tmp_path))
        store.append([campaign()])
        sequence = 0
        for how in (signal.SIGINT, signal.SIGQUIT):
            for _ in range(5):
                store.append([ok(sequence)])
                sequence += 1
            server.stop(how)
            for _ in range(5):
                store.append([ok(sequence)])
                sequence += 1
            server.start()
            assert [trial.sequence for trial in store.query(Trial)] == list(range(sequence))


@pytest.mark.thorough
def test_a_server_that_is_frozen_costs_nothing(tmp_path: Path) -> None:
    with running_postgres() as server, PostgresStore(url := server.empty_database(), files=tmp_path) as store:
        store.append([campaign(), ok(0)])
        server.send(signal.SIGSTOP)
        began_s = time.monotonic()
        for sequence in range(1, 20):
            store.append([ok(sequence)])
        assert time.monotonic() - began_s < 15
        with pytest.raises(StoreAwayError, match="the database can't be reached"):
            PostgresStore(url, readonly=True, files=tmp_path)
        server.send(signal.SIGCONT)
        assert [trial.sequence for trial in store.query(Trial)] == list(range(20))


def _frozen_server(told: Connection) -> None:
    with running_postgres() as server:
        server.send(signal.SIGSTOP)
        told.send(server.folder)
        time.sleep(LIMIT_S)


@pytest.mark.thorough
def test_tests_that_are_killed_leave_nothing_of_a_frozen_server() -> None:
    """This is of the tests, not of the product: a server would go on for ever."""
    heard, told = multiprocessing.Pipe(duplex=False)
    process = FORK.Process(target=_frozen_server, args=(told,))
    process.start()
    try:
        assert heard.poll(LIMIT_S)
        folder = heard.recv()
        assert len(list(processes_in(folder))) > 3
    finally:
        process.kill()
        process.join(10)
    deadline_s = time.monotonic() + LIMIT_S
    while folder.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert not list(processes_in(folder))


@pytest.mark.thorough
def test_kills_at_any_moment_with_and_without_a_link(
    postgres: PostgresServer, link: FaultyLink, url: str, tmp_path: Path
) -> None:
    rng, known = random.Random(7), 0
    for _ in range(12):
        writer = _Appending(_through(link, url, postgres), tmp_path, first=known)
        try:
            writer.wait_for(1)
            if rng.random() < 0.6:
                link.refuse(rng.uniform(0.05, 0.4))
            time.sleep(rng.uniform(0, 0.5))
        finally:
            writer.kill()
        link.refuse(0)
        PostgresStore(url, files=tmp_path).close()
        found = _sequences(url)
        assert found == list(range(len(found)))
        assert len(found) - known in (writer.acknowledged, writer.acknowledged + 1)
        known = len(found)


def test_a_campaign_s_commands_take_a_url(url: str, postgres: PostgresServer, tmp_path: Path) -> None:
    with PostgresStore(url, files=tmp_path) as store:
        fill(store, "night", 4)
    ran = in_process("results", "best", "--results", url, "--format", "json")
    assert ran.code == 0, ran.err
    assert len(json.loads(ran.out)) > 30
    refused = in_process("bench", "--results", url)
    assert (refused.code, refused.err.count("\n")) == (2, 2)
    assert "keeps its records in a folder, not at a URL: postgresql://ada:***@127.0.0.1" in refused.err
    assert postgres.password not in ran.out + ran.err + refused.err


@pytest.mark.thorough
def test_pages_and_comparisons_take_a_url_and_keep_its_password_to_themselves(
    url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    with PostgresStore(url, files=tmp_path) as store:
        fill(store, "night", 4)
        fill(store, "day", 4)
    site = tmp_path / "site"
    site.mkdir()
    against = ("--campaign", "day", "--against", f"{url}::night")
    commands = [
        ("report", str(site), "--results", url),
        *(("report", str(site / f"page.{form}"), "--results", url, *against) for form in ("html", "md", "json")),
        ("results", "list", url),
        ("results", "show", "night", "--results", url),
        ("results", "compare", f"{url}::night", f"{url}::day"),
    ]
    shown = ""
    for command in commands:
        ran = in_process(*command)
        assert ran.code == 0, ran.err
        shown += ran.out + ran.err
    for command in (("results", "compare", url, url), ("results", "prune", "night", "--results", url)):
        refused = in_process(*command)
        assert (refused.code, "***" in refused.err) == (1, True), refused.err
        shown += refused.err
    shown += "".join(path.read_text(encoding="utf-8") for path in site.iterdir())
    assert "postgresql://ada:***@" in shown
    assert postgres.password not in shown

"""What only the results file can get wrong: other people's files, locks, damage, full and read-only disks."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.errors import (
    ForeignStoreError,
    NewerSchemaError,
    StoreError,
    StoreGoneError,
    StoreLockedError,
    StoreWriteError,
)
from int8tune.results.record import (
    BenchResult,
    BoardEvent,
    BoardEventKind,
    Campaign,
    CampaignRun,
    DeviceCheck,
    Duel,
    Entrant,
    Outcome,
    Trial,
    runs_of,
)
from int8tune.results.schema import APPLICATION_ID, SCHEMA_VERSION
from int8tune.results.store import SqliteStore
from tests.support.places import PYTHON_PATH, TESTS
from tests.support.program.mounts import fill_up, mounted
from tests.support.program.results_samples import (
    DEVICE,
    ENVIRONMENT,
    LAYER,
    STARTED,
    board_event,
    campaign,
    candidate,
    check,
    estimated,
    failed,
    ok,
    run,
)

pytestmark = pytest.mark.promise(1, 14, 15, 16)

SAMPLE_V1, SAMPLE_V2, SAMPLE_V3, SAMPLE_V4, SAMPLE_V5, SAMPLE_V6, SAMPLE_V7 = (
    TESTS / "data" / f"store_v{version}.db" for version in range(1, 8)
)
# As `store_v5.db` has it.
ENDED_RUN = replace(run(), ended_at="2026-03-01T12:30:00+00:00", ending="finished")
# As `store_v6.db` has it.
OFF = replace(board_event(), kind=BoardEventKind.LOST, canary_s=0.0, cause="no route to host")
# As `store_v3.db` has them.
NAMES = {LAYER: ("layer1.0.conv1", "layer1.1.conv2; layer1.1.add")}
# As `store_v2.db` has it.
SAMPLE_BENCH = BenchResult(
    bench="2026-03-01T12:00:00.000000+00:00",
    candidate=candidate(1),
    is_tuned=True,
    device=DEVICE,
    threads=1,
    ours=Entrant("int8tune", "0.1.0", LAYER, Outcome.OK, (1e-4, 1.1e-4, 1.2e-4)),
    peers=(
        Entrant("onednn", "3.2.0", LAYER, Outcome.OK, (2e-4, 2.1e-4, 2.2e-4), (1e-6, 1.5e-6, 1e-6)),
        Entrant("litert", "2.3.0", LAYER, Outcome.REJECTED, error="outputs are not clamped"),
    ),
    peak_ops_per_s=(1.1e12, 1.152e12, 1.0e12),
    environment=ENVIRONMENT,
    started_at=STARTED,
)


def test_environments_are_kept_once(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([campaign(), check(), *(ok(number) for number in range(20))])
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([ok(20), replace(ok(21), environment={"cpu": "other"})])
    assert _rows(tmp_path / "r.db", "SELECT count(*) FROM environments") == [(2,)]


def test_the_file_is_durable_and_named(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "r.db") as store:
        assert store._writer is not None
        with store._writer.connect() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "application_id", "user_version")
            }
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "application_id": APPLICATION_ID,
        "user_version": SCHEMA_VERSION,
    }


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET outcome = 'device_lost'",
        "UPDATE trials SET outcome = 'fine'",
        "UPDATE trials SET outcome = 'run_failed'",
        "UPDATE trials SET times_s = NULL",
        "UPDATE trials SET observed = NULL",
        "UPDATE trials SET sequence = -1",
        "UPDATE trials SET campaign_id = 99",
        "UPDATE trials SET build_s = -1.0",
    ],
)
def test_the_tables_refuse_contradictions(tmp_path: Path, change: str) -> None:
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([campaign(), ok(0)])
    with pytest.raises(sqlite3.IntegrityError):
        _change(tmp_path / "r.db", change)


def test_a_reader_works_beside_a_writer(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "r.db") as writer, SqliteStore(tmp_path / "r.db", readonly=True) as reader:
        writer.append([campaign(), ok(0)])
        assert len(list(reader.query(Trial))) == 1
        half_read = reader.query(Trial)
        next(half_read)
        writer.append([ok(1)])
        assert len(list(reader.query(Trial))) == 2
        with pytest.raises(StoreError, match="opened for reading only"):
            reader.append([ok(2)])


def test_a_query_does_not_load_what_it_is_not_asked_for(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([campaign(), *(ok(number) for number in range(2000))])
    # A damaged row near the end is found when it is reached, not before.
    _change(tmp_path / "r.db", "UPDATE trials SET device = 'x' WHERE sequence = 1900")
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        found = store.query(Trial)
        for _ in range(1900):
            next(found)
        with pytest.raises(ForeignStoreError, match="row 1901 of trials: its checksum does not match"):
            next(found)


@pytest.mark.parametrize("column", ["environments SET content", "environments SET digest", "campaigns SET name"])
def test_bytes_where_a_text_must_be_are_damage(tmp_path: Path, column: str) -> None:
    """SQLite takes them, and gives them back as they are."""
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([campaign(), ok(0)])
    _change(tmp_path / "r.db", f"UPDATE {column} = x'c3a4'")
    with (
        SqliteStore(tmp_path / "r.db", readonly=True) as store,
        pytest.raises(ForeignStoreError, match=r"row 1 of trials: .* must be str: bytes"),
    ):
        list(store.query(Trial))


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with SqliteStore(path):
        holder = json.loads((tmp_path / "r.db.lock").read_text())
        assert holder["pid"] == os.getpid()
        with pytest.raises(StoreLockedError) as error:
            SqliteStore(path)
    assert f"(host {socket.gethostname()}, pid {os.getpid()}, since {holder['since']}): {path}" in str(error.value)
    SqliteStore(path).close()


def test_one_file_with_two_names_has_one_lock(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db"), pytest.raises(StoreLockedError):
        SqliteStore(tmp_path / "link.db")


def test_a_removed_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with SqliteStore(path) as store:
        (tmp_path / "r.db.lock").unlink()
        with pytest.raises(StoreLockedError, match=rf"\(pid {os.getpid()}\): {path}"):
            SqliteStore(path)
        store.append([campaign(), ok(0)])
    with SqliteStore(path) as store:
        assert len(list(store.query(Trial))) == 1


def _move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def _replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (Path.unlink, "removed"),
        (_move_away, "removed"),
        (_replace, "replaced"),
        (lambda path: shutil.rmtree(path.parent), "removed"),
    ],
    ids=["file removed", "file moved", "file replaced", "folder removed"],
)
def test_a_file_that_is_not_at_its_place_takes_no_more(
    tmp_path: Path, change: Callable[[Path], object], word: str
) -> None:
    """What was acknowledged before is in the file; what is refused now is found out now, and not at the end."""
    path = tmp_path / "results" / "r.db"
    path.parent.mkdir()
    with SqliteStore(path) as store:
        store.append([campaign(), ok(0)])
        change(path)
        with pytest.raises(StoreGoneError, match=f"the results file was {word} while it was being written: {path}"):
            store.append([ok(1)])


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    store = SqliteStore(tmp_path / "r.db")
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        store.close()
        SqliteStore(tmp_path / "r.db").close()
    finally:
        os.close(write_end)
        os.close(read_end)
        os.waitpid(child, 0)


def _race(path: Path, line: int, said: int) -> None:
    """Wait for the start, try to be the writer, say so, and stay it until killed."""
    os.read(line, 1)
    try:
        store = SqliteStore(path)
    except StoreLockedError:
        os.write(said, b"refused\n")
    else:
        os.write(said, b"writes\n")
        time.sleep(60)
        store.close()


@pytest.mark.parametrize("races", [20, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
@pytest.mark.thorough
def test_of_two_that_start_at_once_one_writes(tmp_path: Path, races: int) -> None:
    """The winner is killed each time: whoever comes next is not refused for it."""
    fork = multiprocessing.get_context("fork")
    SqliteStore(tmp_path / "r.db").close()
    for _ in range(races):
        (line, start), (said, say) = os.pipe(), os.pipe()
        racers = [fork.Process(target=_race, args=(tmp_path / "r.db", line, say)) for _ in range(2)]
        for racer in racers:
            racer.start()
        os.write(start, b"go")
        words = b""
        while words.count(b"\n") < 2:
            words += os.read(said, 100)
        assert sorted(words.split()) == [b"refused", b"writes"]
        for racer in racers:
            racer.kill()
            racer.join(10)
        for descriptor in (line, start, said, say):
            os.close(descriptor)


def _png(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))


def _foreign(path: Path) -> None:
    _change(path, "CREATE TABLE photos (id INTEGER)")


def _foreign_id(path: Path) -> None:
    _change(path, "PRAGMA application_id=42")


def _newer(path: Path) -> None:
    SqliteStore(path).close()
    _change(path, "PRAGMA user_version=8")


def _older_than_any(path: Path) -> None:
    SqliteStore(path).close()
    _change(path, "PRAGMA user_version=0")


def _cut(path: Path) -> None:
    _fill(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _overwritten(path: Path) -> None:
    _fill(path)
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 8)


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (_png, ForeignStoreError, r"not a results file \(it starts with b'\\x89PNG.*\)"),
        (_foreign, ForeignStoreError, r"the SQLite file of another program \(application id 0x0\)"),
        (_foreign_id, ForeignStoreError, r"the SQLite file of another program \(application id 0x2a\)"),
        (_newer, NewerSchemaError, r"newer version of this program \(schema 8, this one knows up to 7\)"),
        (_older_than_any, ForeignStoreError, r"the results file is damaged \(schema 0\)"),
        (_cut, ForeignStoreError, r"the results file is damaged \(.+\)"),
        (_overwritten, ForeignStoreError, r"the results file is damaged \(.+\)"),
        (_folder, StoreError, "the results file is a folder"),
        (_pipe, StoreError, "the results file is not a regular file"),
    ],
)
@pytest.mark.parametrize("readonly", [True, False])
def test_what_is_no_results_file_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], kind: type[StoreError], message: str, readonly: bool
) -> None:
    path = tmp_path / "r.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    (tmp_path / "r.db.lock").unlink(missing_ok=True)
    with pytest.raises(kind, match=f"{message}: {path}$") as error:
        SqliteStore(path, readonly=readonly)
    assert "\n" not in str(error.value)
    assert not path.is_file() or path.read_bytes() == before
    assert not (tmp_path / "r.db.lock").exists()


def test_a_missing_file_is_refused_to_a_reader(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"no such results file: {tmp_path / 'r.db'}$"):
        SqliteStore(tmp_path / "r.db", readonly=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "r.db").touch()
    with pytest.raises(ForeignStoreError, match="it is empty"):
        SqliteStore(tmp_path / "r.db", readonly=True)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"no such folder: {tmp_path / 'none'}$"):
        SqliteStore(tmp_path / "none" / "r.db")


@pytest.mark.thorough
def test_flipped_bytes_are_never_read_as_data(tmp_path: Path) -> None:
    _fill(tmp_path / "r.db", 30)
    good = (tmp_path / "r.db").read_bytes()
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        expected = list(store.query(Trial))
    damaged = 0
    for place in range(0, len(good), len(good) // 120):
        path = tmp_path / f"{place}.db"
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x15]) + good[place + 1 :])
        try:
            with SqliteStore(path, readonly=True) as store:
                assert list(store.query(Trial)) == expected
        except StoreError:
            damaged += 1
    assert damaged > 10


def test_old_files_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v1.db` was written by schema version 1 and must never be written again."""
    shutil.copy(SAMPLE_V1, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db") as store:
        assert list(store.query(Campaign)) == [campaign()]
        assert list(store.query(DeviceCheck)) == [check()]
        assert list(store.query(Trial)) == [ok(0), failed(1), ok(2, 8e-4)]
        (found,) = store.query(Duel)
        assert (found.a, found.b) == (candidate(0).id, candidate(2).id)
        assert found.a_times_s == (1e-3, 1.25e-3, 1.1e-3, 1e-3, 1.05e-3)
        store.append([ok(3)])


def test_files_of_version_1_have_no_bench_results_until_they_are_written(tmp_path: Path) -> None:
    shutil.copy(SAMPLE_V1, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(BenchResult)) == []
        assert len(list(store.query(Trial))) == 3
    assert (tmp_path / "r.db").read_bytes() == SAMPLE_V1.read_bytes()
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([SAMPLE_BENCH])
    assert _rows(tmp_path / "r.db", "PRAGMA user_version") == [(SCHEMA_VERSION,)]
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(BenchResult)) == [SAMPLE_BENCH]
        assert len(list(store.query(Trial))) == 3


def test_files_of_version_2_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v2.db` was written by schema version 2 and must never be written again."""
    shutil.copy(SAMPLE_V2, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db") as store:
        assert list(store.query(BenchResult)) == [SAMPLE_BENCH]
        assert list(store.query(Trial)) == [ok(0), failed(1)]


def test_files_of_version_3_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v3.db` was written by schema version 3 and must never be written again."""
    shutil.copy(SAMPLE_V3, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db") as store:
        assert list(store.query(Campaign)) == [replace(campaign(), names=NAMES)]
        assert list(store.query(Trial)) == [ok(0), failed(1)]


def test_files_of_version_4_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v4.db` was written by schema version 4 and must never be written again."""
    shutil.copy(SAMPLE_V4, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db") as store:
        assert list(store.query(Trial)) == [estimated(0), failed(1)]
        assert list(store.query(CampaignRun)) == []
        store.append([replace(run(), command="tune \udc80.onnx")])
        assert list(store.query(CampaignRun)) == [replace(run(), command="tune \\udc80.onnx")]


def test_files_of_version_5_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v5.db` was written by schema version 5 and must never be written again."""
    shutil.copy(SAMPLE_V5, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(CampaignRun)) == [run(), ENDED_RUN]
        assert runs_of(store.query(CampaignRun)) == [ENDED_RUN]
        assert list(store.query(Trial)) == [estimated(0), failed(1)]
        assert list(store.query(BoardEvent)) == []
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([board_event()])
        assert list(store.query(BoardEvent)) == [board_event()]


def test_files_of_version_6_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v6.db` was written by schema version 6 and must never be written again."""
    shutil.copy(SAMPLE_V6, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(BoardEvent)) == [board_event(), OFF]
        assert list(store.query(Trial)) == [ok(0), failed(1)]


def test_files_of_version_6_get_their_index_when_they_are_written(tmp_path: Path) -> None:
    shutil.copy(SAMPLE_V6, tmp_path / "r.db")
    asked = "SELECT name FROM sqlite_schema WHERE type = 'index' AND name = 'trials_by_campaign'"
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert [trial.sequence for trial in store.first_trials()] == [0]
    assert (tmp_path / "r.db").read_bytes() == SAMPLE_V6.read_bytes()
    assert _rows(tmp_path / "r.db", asked) == []
    with SqliteStore(tmp_path / "r.db") as store:
        store.append([ok(2)])
    assert _rows(tmp_path / "r.db", asked) == [("trials_by_campaign",)]
    with SqliteStore(tmp_path / "r.db") as store:
        assert [trial.sequence for trial in store.query(Trial)] == [0, 1, 2]


def test_files_of_version_7_are_read_for_ever(tmp_path: Path) -> None:
    """`store_v7.db` was written by schema version 7 and must never be written again."""
    shutil.copy(SAMPLE_V7, tmp_path / "r.db")
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(BoardEvent)) == [board_event(), OFF]
        assert list(store.query(Trial)) == [ok(0), failed(1)]
        assert list(store.first_trials()) == [ok(0)]


WRITE_UNTIL_IT_FAILS = """
import resource, sys
from int8tune.results.errors import StoreWriteError
from int8tune.results.store import SqliteStore
from tests.support.program.results_samples import campaign, ok
store = SqliteStore(sys.argv[1])
store.append([campaign()])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
done = 0
try:
    for done in range(2000):
        store.append([ok(done)])
except StoreWriteError as error:
    print(done, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.append([ok(done)])
store.close()
"""


def test_a_file_that_may_not_grow_loses_nothing_acknowledged(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE_UNTIL_IT_FAILS, tmp_path / "r.db"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
    )
    count, message = done.stdout.split(" ", 1)
    assert message.startswith("the results file can't be written (")
    assert message.endswith(f"): {tmp_path / 'r.db'}\n")
    with SqliteStore(tmp_path / "r.db", readonly=True) as store:
        assert list(store.query(Trial)) == [ok(number) for number in range(int(count) + 1)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=512k", "tmpfs") as disk:
        yield disk


def test_a_full_disk_stops_with_one_message_and_goes_on_with_room(small_disk: Path) -> None:
    path = small_disk / "r.db"
    with SqliteStore(path) as store:
        store.append([campaign()])
        filler = small_disk / "filler"
        filler.write_bytes(bytes(small_disk.stat().st_blksize * 40))
        done, message = _append_until_it_fails(store)
        assert re.fullmatch(rf"the results file can't be written \(.*\): {path}", message)
        assert done > 0
        assert len(list(store.query(Trial))) == done
        with pytest.raises(StoreWriteError):
            store.append([ok(done + number) for number in range(500)])
        filler.unlink()
        store.append([ok(done)])
    with SqliteStore(path, readonly=True) as store:
        assert list(store.query(Trial)) == [ok(number) for number in range(done + 1)]


def test_no_room_for_a_new_file(small_disk: Path) -> None:
    fill_up(small_disk / "filler")
    with pytest.raises(StoreWriteError, match=f": {small_disk / 'r.db'}"):
        SqliteStore(small_disk / "r.db")
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["filler", "r.db.lock"]
    (small_disk / "filler").unlink()
    SqliteStore(small_disk / "r.db").close()


def test_a_read_only_folder_can_be_read_and_not_written(tmp_path: Path) -> None:
    _fill(tmp_path / "r.db")
    before = sorted(tmp_path.iterdir())
    with mounted(tmp_path / "view", "--bind", "-o", "ro", str(tmp_path)) as view:
        subprocess.run(["mount", "-o", "remount,bind,ro", view], check=True, timeout=10)
        with SqliteStore(view / "r.db", readonly=True) as store:
            assert len(list(store.query(Trial))) == 50
        for name in ("r.db", "new.db"):
            with pytest.raises(StoreWriteError, match=rf"\(Read-only file system\): {view / name}\.lock$"):
                SqliteStore(view / name)
    assert sorted(tmp_path.iterdir()) == [*before, tmp_path / "view"]


def _append_until_it_fails(store: SqliteStore) -> tuple[int, str]:
    for done in range(5000):
        try:
            store.append([ok(done)])
        except StoreWriteError as error:
            return done, str(error)
    raise AssertionError("the disk was never full")


def _fill(path: Path, count: int = 50) -> None:
    with SqliteStore(path) as store:
        store.append([campaign(), *(ok(number) for number in range(count))])


def _rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def _change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(statement)
        connection.commit()
    finally:
        connection.close()

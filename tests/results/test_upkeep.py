"""Stores that are merged; campaigns that are renamed, archived and removed: nothing is lost, whatever happens."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.errors import (
    ForeignStoreError,
    NoSuchCampaignError,
    StoreError,
    StoreLockedError,
    StoreWriteError,
    UpkeepError,
)
from int8tune.results.record import BenchResult, BoardEvent, Campaign, CampaignRun, DeviceCheck, Duel, Entry, Trial
from int8tune.results.store import SqliteStore
from int8tune.results.upkeep.changes import archive_campaigns, rename_campaign
from int8tune.results.upkeep.merging import merge_stores
from tests.support.places import TESTS
from tests.support.program.bench_entries import result
from tests.support.program.mounts import fill_up, mounted
from tests.support.program.results_samples import board_event, campaign, candidate, check, duel, failed, ok, run

pytestmark = pytest.mark.promise(1, 15, 16)

KINDS: Sequence[type[Entry]] = (Campaign, CampaignRun, BoardEvent, Trial, Duel, DeviceCheck, BenchResult)
FORK = multiprocessing.get_context("fork")
LIMIT_S = 20.0


def campaign_entries(name: str, trials: int = 3) -> list[Entry]:
    fight = duel(candidate(0), candidate(1), 1.2, name=name)
    return [
        campaign(name),
        run(name=name),
        board_event(name=name),
        *(ok(number, name=name) for number in range(trials)),
        fight,
    ]


def make(path: Path, *entries: Entry) -> Path:
    path.parent.mkdir(exist_ok=True)
    with SqliteStore(path) as store:
        store.append(entries)
    return path


def contents(path: Path) -> dict[type, list[Entry]]:
    with SqliteStore(path, readonly=True) as store:
        return {kind: list(store.query(kind)) for kind in KINDS}


def names(path: Path) -> list[str]:
    return [entry.name for entry in contents(path)[Campaign] if isinstance(entry, Campaign)]


def files(folder: Path) -> list[str]:
    """Those that keep something: readers leave SQLite's own beside a file, and writers an empty lock."""
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.endswith((".lock", "-shm", "-wal")))


class TestMerge:
    def test_each_entry_is_there_once(self, tmp_path: Path) -> None:
        a = make(tmp_path / "a.db", *campaign_entries("x"), check(), result(1e-4))
        b = make(tmp_path / "b.db", *campaign_entries("x"), check(), *campaign_entries("y"))
        before = a.read_bytes(), b.read_bytes()
        merged = merge_stores([a, b], tmp_path / "all.db")
        assert (a.read_bytes(), b.read_bytes()) == before
        found = contents(tmp_path / "all.db")
        assert names(tmp_path / "all.db") == ["x", "y"]
        assert {kind: len(found[kind]) for kind in KINDS} == {
            Campaign: 2, CampaignRun: 2, BoardEvent: 2, Trial: 6, Duel: 2, DeviceCheck: 1, BenchResult: 1,
        }  # fmt: skip
        assert (merged.campaigns, merged.trials, merged.apart, merged.damaged) == (2, 6, (), ())
        assert files(tmp_path) == ["a.db", "all.db", "b.db"]

    def test_a_merge_with_itself_and_a_second_merge_add_nothing(self, tmp_path: Path) -> None:
        a = make(tmp_path / "a.db", *campaign_entries("x"), check())
        merge_stores([a, a], tmp_path / "1.db")
        merge_stores([tmp_path / "1.db", a], tmp_path / "2.db")
        assert contents(tmp_path / "2.db") == contents(tmp_path / "1.db") == contents(a)

    def test_two_states_of_one_campaign_are_one(self, tmp_path: Path) -> None:
        """A folder was copied, and the campaign went on in one of the two."""
        a = make(tmp_path / "a.db", *campaign_entries("x", 3))
        b = make(tmp_path / "b.db", *campaign_entries("x", 5))
        merged = merge_stores([a, b], tmp_path / "all.db")
        assert contents(tmp_path / "all.db") == contents(b)
        assert merged.apart == ()

    @pytest.mark.parametrize(
        "other",
        [
            [replace(campaign("x"), seed=8)],
            [replace(campaign("x"), created_at="2026-03-02T12:00:00+00:00")],
            [campaign("x"), ok(0, 2e-3, name="x")],
            [campaign("x"), ok(0, chosen=candidate(1), name="x")],
        ],
        ids=["other seed", "started at another time", "another result", "another order"],
    )
    def test_campaigns_of_one_name_that_differ_are_kept_apart(self, tmp_path: Path, other: list[Entry]) -> None:
        a = make(tmp_path / "a.db", *campaign_entries("x"))
        b = make(tmp_path / "b.db", *other)
        merged = merge_stores([a, b, b], tmp_path / "all.db")
        assert names(tmp_path / "all.db") == ["x", "x.2"]
        assert [(apart.campaign, apart.renamed, apart.store) for apart in merged.apart] == [("x", "x.2", b)]
        again = merge_stores([tmp_path / "all.db", b, a], tmp_path / "again.db")
        assert contents(tmp_path / "again.db") == contents(tmp_path / "all.db")
        assert again.apart == ()

    def test_a_name_is_never_too_long(self, tmp_path: Path) -> None:
        name = "n" * 64
        a, b = make(tmp_path / "a.db", campaign(name)), make(tmp_path / "b.db", replace(campaign(name), seed=8))
        merge_stores([a, b], tmp_path / "all.db")
        assert names(tmp_path / "all.db") == [name, "n" * 62 + ".2"]

    def test_rows_that_cannot_be_read_are_set_aside_with_their_place(self, tmp_path: Path) -> None:
        a = make(tmp_path / "a.db", *campaign_entries("x"), *campaign_entries("y"), check())
        edit(a, "UPDATE trials SET device = 'elsewhere' WHERE id = 2")
        edit(a, "UPDATE campaigns SET seed = '9' WHERE name = 'y'")
        edit(a, "UPDATE device_checks SET noise = x'00'")
        merged = merge_stores([a], tmp_path / "all.db")
        places = {(row.table, row.row): row.fault for row in merged.damaged}
        assert {place for place in places if place[0] == "trials"} == {("trials", number) for number in (2, 4, 5, 6)}
        assert {("campaigns", 2), ("device_checks", 1), ("duels", 2), ("campaign_runs", 2)} < places.keys()
        assert places["board_events", 2] == "its campaign can't be read"
        assert len(places) == 9
        assert "its checksum does not match" in places["trials", 2]
        assert places["trials", 4] == "its campaign can't be read"
        assert merged.damaged_file == tmp_path / "all.db.damaged.jsonl"
        lines = [json.loads(line) for line in merged.damaged_file.read_text().splitlines()]
        assert [(line["store"], line["table"], line["row"]) for line in lines] == [
            (str(a), row.table, row.row) for row in merged.damaged
        ]
        assert next(line for line in lines if line["table"] == "trials")["values"]["device"] == "elsewhere"
        assert [entry.sequence for entry in contents(tmp_path / "all.db")[Trial] if isinstance(entry, Trial)] == [0, 2]

    def test_a_whole_row_of_another_store_mends_a_damaged_one(self, tmp_path: Path) -> None:
        a, b = make(tmp_path / "a.db", *campaign_entries("x")), make(tmp_path / "b.db", *campaign_entries("x"))
        edit(a, "UPDATE trials SET device = 'elsewhere' WHERE id = 2")
        merged = merge_stores([a, b], tmp_path / "all.db")
        assert contents(tmp_path / "all.db") == contents(b)
        assert len(merged.damaged) == 1

    @pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
    def test_stores_of_every_version(self, tmp_path: Path, version: int) -> None:
        sample = shutil.copy(TESTS / "data" / f"store_v{version}.db", tmp_path / "old.db")
        merge_stores([sample], tmp_path / "all.db")
        assert contents(tmp_path / "all.db") == contents(sample)

    def test_a_campaign_may_be_running(self, tmp_path: Path) -> None:
        with SqliteStore(tmp_path / "a.db") as store:
            store.append(campaign_entries("x"))
            merge_stores([tmp_path / "a.db"], tmp_path / "all.db")
            store.append([ok(9, name="x")])
        assert len(contents(tmp_path / "all.db")[Trial]) == 3
        assert len(contents(tmp_path / "a.db")[Trial]) == 4

    def test_nothing_is_replaced(self, tmp_path: Path) -> None:
        a = make(tmp_path / "a.db", *campaign_entries("x"))
        before = a.read_bytes()
        with pytest.raises(UpkeepError, match="there is a file of this name already"):
            merge_stores([a], a)
        assert a.read_bytes() == before
        with pytest.raises(UpkeepError, match="no such folder"):
            merge_stores([a], tmp_path / "no" / "all.db")

    def test_a_store_that_is_damaged_as_a_whole_ends_it_and_leaves_nothing(self, tmp_path: Path) -> None:
        a, b = make(tmp_path / "a.db", *campaign_entries("x")), make(tmp_path / "b.db", *campaign_entries("y", 200))
        with b.open("r+b") as file:
            file.truncate(b.stat().st_size // 2)
        with pytest.raises(ForeignStoreError, match=f"the results file is damaged .*: {b}"):
            merge_stores([a, b], tmp_path / "all.db")
        assert files(tmp_path) == ["a.db", "b.db"]

    def test_a_full_disk_leaves_nothing(self, tmp_path: Path) -> None:
        a = make(tmp_path / "a.db", *campaign_entries("x", 400))
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=200k", "tmpfs") as small:
            with pytest.raises(StoreWriteError):
                merge_stores([a], small / "all.db")
            assert files(small) == []


def edit(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute(statement)
        connection.commit()


class TestRename:
    def test_all_that_is_its_own_has_the_new_name(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", *campaign_entries("x"), *campaign_entries("y"))
        rename_campaign(path, "x", "z")
        wanted = make(tmp_path / "w.db", *campaign_entries("z"), *campaign_entries("y"))
        assert contents(path) == contents(wanted)

    def test_what_is_refused(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", *campaign_entries("night"), *campaign_entries("y"))
        before = contents(path)
        with pytest.raises(NoSuchCampaignError, match=r"no such campaign `nihgt`, did you mean `night`\?"):
            rename_campaign(path, "nihgt", "z")
        with pytest.raises(UpkeepError, match="there is a campaign of this name already: y"):
            rename_campaign(path, "night", "y")
        with SqliteStore(path), pytest.raises(StoreLockedError):
            rename_campaign(path, "night", "z")
        assert contents(path) == before
        with pytest.raises(StoreError, match="no such results file"):
            rename_campaign(tmp_path / "no.db", "a", "b")
        assert not (tmp_path / "no.db").exists()


class TestArchive:
    def test_a_copy_leaves_the_store_as_it_is(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", *campaign_entries("x"), *campaign_entries("y"), check(), check(device="other"))
        before = path.read_bytes()
        archived = archive_campaigns(path, ["x"], tmp_path / "x.db")
        assert path.read_bytes() == before
        assert (archived.trials, archived.removed) == (3, False)
        assert contents(tmp_path / "x.db") == contents(make(tmp_path / "w.db", *campaign_entries("x"), check()))

    def test_what_was_moved_comes_back_by_a_merge(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", *campaign_entries("x"), *campaign_entries("y", 500), check())
        before, size = contents(path), path.stat().st_size
        archive_campaigns(path, ["y"], tmp_path / "y.db", move=True)
        assert names(path) == ["x"]
        assert names(tmp_path / "y.db") == ["y"]
        assert path.stat().st_size < size / 2
        merge_stores([path, tmp_path / "y.db"], tmp_path / "all.db")
        assert contents(tmp_path / "all.db") == before

    def test_environments_of_nobody_go_too(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", campaign("x"), replace(ok(0, name="x"), environment={"cpu": "secret"}))
        archive_campaigns(path, ["x"], tmp_path / "x.db", move=True)
        assert b"secret" not in path.read_bytes()

    def test_a_campaign_that_runs_is_copied_and_not_moved(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", *campaign_entries("x"))
        with SqliteStore(path):
            with pytest.raises(StoreLockedError):
                archive_campaigns(path, ["x"], tmp_path / "x.db", move=True)
            archive_campaigns(path, ["x"], tmp_path / "copy.db")
        assert (tmp_path / "copy.db").exists()
        assert not (tmp_path / "x.db").exists()

    def test_damage_stays_where_it_is(self, tmp_path: Path) -> None:
        path = make(tmp_path / "r.db", *campaign_entries("x"))
        edit(path, "UPDATE trials SET device = 'elsewhere' WHERE id = 2")
        before = path.read_bytes()
        with pytest.raises(ForeignStoreError, match=r"damaged \(1 rows, such as row 2 of trials\)"):
            archive_campaigns(path, ["x"], tmp_path / "x.db", move=True)
        assert not (tmp_path / "x.db").exists()
        assert path.read_bytes() == before

    def test_a_full_disk_loses_nothing(self, tmp_path: Path) -> None:
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=600k", "tmpfs") as small:
            path = make(small / "r.db", *campaign_entries("x", 100))
            before = contents(path)
            fill_up(small / "filler")
            with pytest.raises(StoreError):
                archive_campaigns(path, ["x"], small / "x.db", move=True)
            assert contents(path) == before
            assert not (small / "x.db").exists()


def killed(work: Callable[[], object], delay_s: float) -> bool:
    """Do it in a process that is killed after so long; whether it was still at it."""
    ready, started = os.pipe()

    def begin() -> None:
        os.write(started, b"+")
        work()

    child = FORK.Process(target=begin)
    child.start()
    os.read(ready, 1)
    time.sleep(delay_s)
    child.kill()
    child.join(LIMIT_S)
    for descriptor in (ready, started):
        os.close(descriptor)
    return child.exitcode != 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.thorough)])
def test_killed_at_any_moment_nothing_is_lost(tmp_path: Path, kills: int) -> None:
    """Each record is in the store, in the archive, or in both; a merge is there whole or not at all."""
    moments, interrupted = random.Random(5), 0
    x, y = campaign_entries("x", 60), campaign_entries("y", 60)
    sample = make(tmp_path / "sample.db", *x, *y, failed(60, name="x"), check())
    everything = contents(sample)
    lasts_s = 0.0
    for number in range(kills + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, out = shutil.copy(sample, folder / "r.db"), folder / "out.db"

        def work(path: Path = path, out: Path = out) -> None:
            rename_campaign(path, "y", "z")
            archive_campaigns(path, ["z"], out, move=True)
            merge_stores([path, out], path.with_name("all.db"))

        if not lasts_s:
            began_s = time.monotonic()
            work()
            lasts_s = time.monotonic() - began_s
            continue
        interrupted += killed(work, moments.uniform(0, 0.9 * lasts_s))
        for name in ("r.db", "out.db"):  # what goes on takes the locks again
            if (folder / name).exists():
                SqliteStore(folder / name).close()
        if "y" in names(path):
            rename_campaign(path, "y", "z")
        stores = [each for each in (path, out) if each.exists()]
        (folder / "all.db").unlink(missing_ok=True)
        merge_stores(stores, folder / "all.db")
        rename_campaign(folder / "all.db", "z", "y")
        found = contents(folder / "all.db")
        assert {kind: sorted(map(repr, found[kind])) for kind in KINDS} == {
            kind: sorted(map(repr, everything[kind])) for kind in KINDS
        }
    assert interrupted >= kills / 3


def test_what_a_killed_merge_left_is_removed_by_the_next(tmp_path: Path) -> None:
    a = make(tmp_path / "a.db", *campaign_entries("x"))
    left = tmp_path / ".all.db.part-abc"
    left.mkdir()
    make(left / "records.db", campaign("half"))
    busy = tmp_path / ".all.db.part-xyz"
    busy.mkdir()
    with SqliteStore(busy / "records.db"):
        merge_stores([a], tmp_path / "all.db")
        assert not left.exists()
        assert busy.exists()

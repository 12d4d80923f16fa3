"""Large stores: what is asked for is found without reading the rest, and is what reading all would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.dialects import sqlite

from int8tune.results import selected_rows
from int8tune.results.analysis.campaign import analyze
from int8tune.results.base import Before, Store
from int8tune.results.best import best_schedules
from int8tune.results.following import FollowedCampaign
from int8tune.results.memory import MemoryStore
from int8tune.results.postgresql.store import PostgresStore
from int8tune.results.record import CacheMode, Campaign, Candidate, Duel, Entry, Outcome, Trial, cache_mode
from int8tune.results.selection import deciding_trials, spread_trials, stride, tally_of
from int8tune.results.snapshot import snapshot
from int8tune.results.store import SqliteStore
from int8tune.results.summary import Verdict, outline, summarize
from int8tune.results.upkeep.listing import campaign_rows_of
from int8tune.tuner.campaign.teaching import trials_before
from tests.support.program.many_trials import DEVICE, LAYERS, TARGET, campaign_of, entries_of
from tests.support.program.postgres_server import PostgresServer
from tests.support.program.results_samples import LAYER, campaign, candidate, duel, estimated, failed, ok

TRIALS, CAMPAIGNS = 600, 3
OTHER = "dense-u8s8-1x64-o10-s32"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """Three campaigns of 600 trials each, and a new one without any."""
    with SqliteStore(tmp_path_factory.mktemp("large") / "records.db") as store:
        for number in range(CAMPAIGNS):
            store.append(list(entries_of(number, TRIALS)))
        store.append([campaign_of(CAMPAIGNS)])
        yield store


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many rows were read, by the entries that they are."""
    counted: Counter[str] = Counter()

    def counting(codec: object, *rest: object) -> object:
        counted[codec.label] += 1  # type: ignore[attr-defined]
        return entry_of(codec, *rest)  # type: ignore[arg-type]

    from int8tune.results.store import entry_of  # type: ignore[attr-defined]

    monkeypatch.setattr("int8tune.results.store.entry_of", counting)
    return counted


def test_the_best_of_a_campaign_reads_no_more_than_decides(large: SqliteStore, read: Counter[str]) -> None:
    assert len(best_schedules(large, campaign="many-1")) == LAYERS
    assert read["trial"] == LAYERS * 4  # the default and three that were timed against it


def test_a_report_reads_each_trial_once(large: SqliteStore, read: Counter[str]) -> None:
    assert analyze(large, "many-1", {}).summary.totals.outcomes
    assert read["trial"] == TRIALS + LAYERS * 4


def test_a_new_campaign_reads_a_share_of_a_large_store(
    large: SqliteStore, read: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("int8tune.tuner.campaign.teaching.MOST_EARLIER", 500)
    taught = trials_before(large, f"many-{CAMPAIGNS}", CacheMode.NETWORK)
    assert len(taught) == read["trial"] == CAMPAIGNS * LAYERS * 4  # of 15 of each task every fourth
    assert {trial.campaign for trial in taught} == {"many-0", "many-1", "many-2"}
    steps = {trial.sequence // LAYERS for trial in taught}
    assert steps == {0, 4, 8, 12}


def test_a_list_reads_no_more_trials_than_decide(large: SqliteStore, read: Counter[str]) -> None:
    rows = list(campaign_rows_of(large, "here", None))
    assert read["trial"] == CAMPAIGNS * LAYERS * 4
    whole = [summarize(large, f"many-{number}", {}) for number in range(CAMPAIGNS + 1)]
    found = [(row.trials, row.failed, row.speedup, row.faster_layers) for row in rows]
    assert found == [
        (
            summary.totals.trials,
            summary.totals.trials - summary.totals.outcomes.get(Outcome.OK, 0),
            summary.totals.speedup,
            sum(layer.verdict is Verdict.FASTER for layer in summary.layers),
        )
        for summary in whole
    ]
    assert rows[1].last_at == max(trial.started_at for trial in large.query(Trial, campaign="many-1"))


def test_who_watches_a_campaign_reads_what_is_new(tmp_path: Path, read: Counter[str]) -> None:
    entries = list(entries_of(0, TRIALS))
    trials = [entry for entry in entries if isinstance(entry, Trial)]
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([entry for entry in entries if not isinstance(entry, Trial | Duel)])
        store.append(trials[:-1])
        followed = FollowedCampaign(campaign_of(0))
        followed.look(store)
        read.clear()
        store.append([trials[-1]])
        assert followed.look(store).trials == TRIALS
        assert followed.look(store).trials == TRIALS
        assert read["trial"] == 1


@pytest.mark.parametrize("campaign", ["many-1", None])
def test_first_trials_are_found_in_an_index(large: SqliteStore, campaign: str | None) -> None:
    statement = selected_rows.first_trials({"campaign": campaign} if campaign else {})
    assert "COVERING INDEX trials_by_campaign" in _plan(large, statement)


def test_what_a_campaign_learns_from_is_counted_and_chosen_in_an_index(large: SqliteStore) -> None:
    before = Before("many-3", TARGET, DEVICE, campaign_of(3).created_at, lambda _: True)
    assert large._reader is not None
    with large._reader.connect() as connection:
        statement = selected_rows.spread_trials(connection, before, 500)
        counting = str(_compiled(selected_rows.counted(connection, before)))
        assert "COVERING INDEX trials_by_campaign" in _plan(large, statement)
        found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {counting}")
        assert "COVERING INDEX trials_by_campaign" in " ".join(str(row) for row in found)


class Plain:
    """A store that only answers queries."""

    def __init__(self, entries: list[Entry]) -> None:
        store = MemoryStore()
        store.append(entries)
        self.query, self.append, self.close = store.query, store.append, store.close


def mixed() -> list[Entry]:
    """Tasks with and without duels, with defaults that failed, and of estimates, on two devices."""
    entries: list[Entry] = [campaign("a"), campaign("b"), campaign("c")]
    # The default is the first by sequence, not the first that was recorded.
    entries += [ok(3, 8e-4, name="a"), ok(1, name="a"), ok(2, 9e-4, name="a"), ok(4, 7e-4, name="a")]
    entries += [_of(duel(candidate(1), candidate(other), gain), "a") for other, gain in ((2, 1.1), (3, 1.3))]
    entries.append(_of(duel(candidate(2), candidate(4), 2.0), "a"))  # of another default: it says nothing
    entries += [failed(0, name="b"), ok(1, 5e-4, name="b"), ok(2, 4e-4, name="b")]
    elsewhere = [replace(ok(3 + number, chosen=candidate(number, OTHER), name="b"), device="pi3") for number in (0, 1)]
    entries += elsewhere
    entries += [estimated(number, 2e6 / (1 + number), name="c") for number in (0, 1, 2)]
    return entries


def _of(entry: Duel, name: str) -> Duel:
    return replace(entry, campaign=name)


class TestSelection:
    @pytest.fixture(params=["sqlite", "postgresql"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
        if request.param == "sqlite":
            with SqliteStore(tmp_path / "r.db") as file:
                yield file
            return
        server: PostgresServer = request.getfixturevalue("postgres")
        with PostgresStore(server.empty_database(), files=tmp_path) as database:
            yield database

    def test_the_best_is_what_reading_all_would_give(self, store: Store) -> None:
        store.append(mixed())
        plain = Plain(mixed())
        for filters in ({}, {"campaign": "a"}, {"campaign": "b"}, {"campaign": "c"}, {"workload": LAYER}):
            assert best_schedules(store, **filters) == best_schedules(plain, **filters)  # type: ignore[arg-type]
        assert [best.sequence for best in best_schedules(store, campaign="a")] == [3]
        assert [best.sequence for best in best_schedules(store, campaign="b")] == [2, 3]
        assert [best.sequence for best in best_schedules(store, campaign="c")] == [2]
        duels = list(store.query(Duel, campaign="a"))
        assert [one.sequence for one in deciding_trials(store, duels, {"campaign": "a"})] == [1, 2, 3]

    def test_a_campaign_that_is_followed_is_what_reading_all_would_give(self, store: Store) -> None:
        kept = mixed()
        stored = [entry for entry in kept if isinstance(entry, Campaign)]
        store.append(stored)
        followed = [FollowedCampaign(each) for each in stored]
        for entry in kept:
            if isinstance(entry, Campaign):
                continue
            store.append([entry])
            for each in followed:
                found, whole = each.look(store), snapshot(store, each.campaign)
                # What is said of the last ones goes by when they were recorded, and not by their sequence.
                assert replace(found, last_at=None, failures=()) == replace(whole, last_at=None, failures=())

    def test_trials_are_counted(self, store: Store) -> None:
        store.append([*mixed(), campaign("none")])
        for name in ("a", "b", "c", "none", "unknown"):
            assert tally_of(store, name) == tally_of(Plain(mixed()), name)  # type: ignore[arg-type]
            outlined = outline(store, campaign(name)), outline(Plain(mixed()), campaign(name))  # type: ignore[arg-type]
            assert outlined[0].totals == outlined[1].totals
            assert [(row.default, row.best) for row in outlined[0].layers] == [
                (row.default, row.best) for row in outlined[1].layers
            ]

    @pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
    def test_a_share_is_what_reading_all_would_give(self, store: Store, most: int) -> None:
        entries = [campaign("a"), campaign("b"), campaign("own")]
        trials = [*(ok(number, name="a") for number in range(4)), *(ok(number, name="b") for number in range(3))]
        other = Candidate(OTHER, candidate().target, "direct", 1, {})
        late = replace(ok(5, name="b"), started_at="2026-03-02T00:00:00+00:00")
        trials += [ok(9, chosen=other, name="b"), late, ok(0, name="own")]
        trials.append(replace(ok(6, name="b"), environment={"cache": "cold"}))
        store.append([*entries, *trials])
        before = Before(
            "own", candidate().target, DEVICE, "2026-03-01T23:00:00+00:00", lambda found: cache_mode(found) == "warm"
        )
        found = [(trial.campaign, trial.sequence) for trial in spread_trials(store, before, most)]
        assert found == [
            (one.campaign, one.sequence) for one in spread_trials(Plain([*entries, *trials]), before, most)
        ]
        step = stride(8, most)
        assert found == [
            *(("a", place) for place in range(0, 4, step)),
            *(("b", place) for place in range(0, 3, step)),
            ("b", 9),
        ]

    def test_many_candidates_are_asked_for_in_parts(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("int8tune.results.selection.CANDIDATES_AT_ONCE", 2)
        rivals = range(1, 6)
        entries = [campaign(), *(ok(number) for number in range(6))]
        store.append([*entries, *(duel(candidate(0), candidate(number), 1 + number / 10) for number in rivals)])
        duels = list(store.query(Duel))
        assert [trial.sequence for trial in deciding_trials(store, duels, {})] == [0, *rivals]


def _compiled(statement: object) -> object:
    return statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]


def _plan(store: SqliteStore, statement: object) -> str:
    assert store._reader is not None
    with store._reader.connect() as connection:
        return " ".join(str(row) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {_compiled(statement)}"))

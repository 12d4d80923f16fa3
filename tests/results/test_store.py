"""What every store does: the contract, for the file and for the fake."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from int8tune.results.base import Store
from int8tune.results.errors import RecordError, StoreError
from int8tune.results.memory import MemoryStore
from int8tune.results.postgresql.store import PostgresStore
from int8tune.results.record import (
    BenchResult,
    BoardEvent,
    Campaign,
    CampaignRun,
    Candidate,
    DeviceCheck,
    Duel,
    Entry,
    Measurement,
    Outcome,
    Trial,
)
from int8tune.results.store import SqliteStore
from tests.support.program.bench_entries import failed as failed_entrant
from tests.support.program.bench_entries import peer, result
from tests.support.program.postgres_server import PostgresServer
from tests.support.program.results_samples import (
    DEVICE,
    ENVIRONMENT,
    LAYER,
    STARTED,
    TARGET,
    board_event,
    campaign,
    candidate,
    check,
    duel,
    failed,
    ok,
    run,
)


class StoreContract(ABC):
    """A subclass gives `store`: an empty one, closed afterwards."""

    @pytest.fixture
    @abstractmethod
    def store(self) -> Iterator[Store]: ...

    def test_entries_come_back_as_they_were(self, store: Store) -> None:
        entries: list[Entry] = [
            campaign(),
            replace(campaign("named"), names={LAYER: ("conv1", "conv2; add")}),
            run(),
            replace(run(), ended_at=STARTED, ending="finished"),
            board_event(),
            replace(board_event("pi-2"), canary_s=0, cause="printed \n \u2028"),
            check(),
            ok(0),
            failed(1),
            duel(candidate(0), candidate(1), 1.2),
            result(1e-4, peer("onednn", 2e-4, 1e-6), failed_entrant("litert")),
        ]
        store.append(entries)
        kinds: list[type[Entry]] = [Campaign, CampaignRun, BoardEvent, DeviceCheck, Trial, Duel, BenchResult]
        assert [entry for kind in kinds for entry in store.query(kind)] == entries

    def test_trials_come_campaign_by_campaign_by_sequence(self, store: Store) -> None:
        store.append([campaign("z"), campaign("a")])
        store.append([ok(5, name="a"), ok(2, name="z"), ok(9, name="z"), ok(1, name="a"), ok(0, name="z")])
        found = [(trial.campaign, trial.sequence) for trial in store.query(Trial)]
        assert found == [("z", 0), ("z", 2), ("z", 9), ("a", 1), ("a", 5)]

    def test_other_entries_come_in_the_order_they_were_added(self, store: Store) -> None:
        checks = [check(peak) for peak in (3e11, 1e11, 2e11)]
        for entry in checks:
            store.append([entry])
        assert list(store.query(DeviceCheck)) == checks

    def test_filters_select(self, store: Store) -> None:
        other = candidate(1, "dense-u8s8-1x64-o10-s32", "a53")
        store.append([campaign(), campaign("c2"), ok(0), replace(ok(1, chosen=other), device="pi3"), ok(0, name="c2")])
        store.append([check(), check(device="pi3")])
        assert [trial.sequence for trial in store.query(Trial, campaign="c1")] == [0, 1]
        assert [trial.sequence for trial in store.query(Trial, workload=other.workload)] == [1]
        assert [trial.sequence for trial in store.query(Trial, target="a53", device="pi3")] == [1]
        assert list(store.query(Trial, target="a53", device=DEVICE)) == []
        assert [one.name for one in store.query(Campaign, campaign="c2")] == ["c2"]
        assert [one.device for one in store.query(DeviceCheck, device="pi3")] == ["pi3"]

    def test_a_filter_on_a_missing_field_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="a device check has no campaign to filter by"):
            store.query(DeviceCheck, campaign="c1")
        with pytest.raises(ValueError, match="a campaign has no workload to filter by"):
            store.query(Campaign, workload=LAYER)

    def test_a_candidate_is_tried_once_per_campaign(self, store: Store) -> None:
        store.append([campaign(), campaign("c2"), ok(0)])
        with pytest.raises(StoreError, match=f"campaign `c1` has a trial of this candidate already: {candidate(0).id}"):
            store.append([failed(1, chosen=candidate(0))])
        store.append([ok(0, chosen=candidate(0), name="c2")])
        assert len(list(store.query(Trial))) == 2

    def test_a_sequence_number_is_given_once_per_campaign(self, store: Store) -> None:
        store.append([campaign(), ok(3)])
        with pytest.raises(StoreError, match="campaign `c1` has a trial with this sequence number already: 3"):
            store.append([ok(3, chosen=candidate(8))])

    def test_a_campaign_is_added_once(self, store: Store) -> None:
        store.append([campaign()])
        with pytest.raises(StoreError, match="the store has a campaign of this name already: c1"):
            store.append([campaign()])

    def test_what_belongs_to_a_campaign_needs_it(self, store: Store) -> None:
        for entry in (ok(0), duel(candidate(0), candidate(1), 1.1), run(), board_event()):
            with pytest.raises(StoreError, match="no such campaign in the store: c1"):
                store.append([entry])

    def test_an_append_is_all_or_nothing(self, store: Store) -> None:
        store.append([campaign()])
        with pytest.raises(StoreError, match="already"):
            store.append(
                [campaign("c2"), ok(0), replace(ok(1), environment={"cpu": "new"}), ok(2, chosen=candidate(0))]
            )
        assert list(store.query(Trial)) == []
        # What the failed append brought along is unknown again, and can be added.
        store.append([campaign("c2"), ok(0, name="c2"), replace(ok(1, name="c2"), environment={"cpu": "new"})])
        assert [trial.environment["cpu"] for trial in store.query(Trial)] == [ENVIRONMENT["cpu"], "new"]

    def test_values_that_can_not_be_kept_are_refused(self, store: Store) -> None:
        store.append([campaign()])
        for entry, what in (
            (replace(ok(0), measurement=Measurement((1.0,), 1, {"load": float("nan")})), "observations of a trial"),
            (replace(ok(0), attempts=2**63), "attempts of a trial needs more than 64 bits"),
            (replace(ok(0), device="\ud800"), "device of a trial is not valid Unicode"),
            (replace(ok(0), build_s=float("nan")), "build_s of a trial is not a number"),
        ):
            with pytest.raises(RecordError, match=what):
                store.append([entry])
        assert list(store.query(Trial)) == []

    def test_an_error_text_of_any_bytes_is_kept(self, store: Store) -> None:
        store.append([campaign(), failed(0, error="printed \udcff and\0")])
        assert "printed" in next(store.query(Trial)).error

    def test_appending_while_reading_disturbs_nobody(self, store: Store) -> None:
        store.append([campaign(), *(ok(number) for number in range(1200))])
        trials = store.query(Trial)
        first = next(trials)
        store.append([ok(1200)])
        assert [first, *trials] == [ok(number) for number in range(1200)]
        assert len(list(store.query(Trial))) == 1201

    def test_nothing_works_after_closing(self, store: Store) -> None:
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.append([campaign()])
        with pytest.raises(StoreError, match="closed"):
            store.query(Trial)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with contextlib.closing(MemoryStore()) as store:
            yield store


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
        with SqliteStore(tmp_path_factory.mktemp("store") / "results.db") as store:
            yield store


@pytest.mark.timeout(60)
class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, postgres: PostgresServer, tmp_path: Path) -> Iterator[Store]:
        with PostgresStore(postgres.empty_database(), files=tmp_path) as store:
            yield store


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = st.text("abcXYZ019._-", min_size=1, max_size=64)
seconds = st.floats(min_value=1e-12, max_value=1e6)
times = st.lists(seconds, min_size=1, max_size=8).map(tuple)
environments = st.dictionaries(text, text, max_size=4)
knobs = st.integers(-(2**70), 2**70) | st.booleans() | text
measurements = st.builds(
    Measurement, times, st.integers(1, 2**40), st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False))
)
candidates = st.builds(Candidate, text, text, text, st.integers(0, 99), st.dictionaries(text, knobs, max_size=5))
failures = st.sampled_from([outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.DEVICE_LOST)])


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    measurement = draw(st.none() | measurements)
    return Trial(
        campaign="c1",
        sequence=draw(st.integers(0, 2**63 - 1)),
        candidate=draw(candidates),
        outcome=draw(failures) if measurement is None else Outcome.OK,
        measurement=measurement,
        device=draw(text),
        environment=draw(environments),
        started_at=draw(text),
        build_s=draw(st.floats(0, 1e9)),
        run_s=draw(st.integers(0, 100)),
        binary=draw(text),
        reused_from=draw(text),
        error_class=draw(text),
        error=draw(text),
        attempts=draw(st.integers(1, 9)),
    )


campaigns = st.builds(
    Campaign,
    names,
    text,
    text,
    text,
    text,
    st.integers(0, 2**128),
    st.integers(0, 9),
    st.dictionaries(text, st.integers(0, 10**6)),
    text,
)
pairs = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=6)
duels = st.builds(
    lambda found, environment: Duel(
        campaign="c1",
        workload=LAYER,
        target=TARGET,
        device=DEVICE,
        a="a",
        b="b",
        a_times_s=tuple(a for a, _ in found),
        b_times_s=tuple(b for _, b in found),
        environment=environment,
        started_at=STARTED,
    ),
    pairs,
    environments,
)
checks = st.builds(DeviceCheck, text, text, seconds, st.dictionaries(text, seconds), seconds, environments, text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entry=st.one_of(trials(), campaigns.filter(lambda one: one.name != "c1"), duels, checks))
@example(entry=ok(0, chosen=replace(candidate(), config={"large": 2**63, "small": -(2**70)})))
def test_any_entry_survives_the_file(tmp_path_factory: pytest.TempPathFactory, entry: Entry) -> None:
    path = tmp_path_factory.mktemp("trip") / "results.db"
    with SqliteStore(path) as store:
        store.append([campaign(), entry])
    with SqliteStore(path, readonly=True) as store:
        assert list(store.query(type(entry)))[-1] == entry

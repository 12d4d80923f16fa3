"""What there is to see of campaigns at one moment."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.following import FollowedCampaign
from int8tune.results.store import SqliteStore
from int8tune.tuner.campaign_status import CampaignStatus, place_of, write_campaign_status
from int8tune.tuner.watching import watcher as watching
from int8tune.tuner.watching.overview import overview_fields
from int8tune.tuner.watching.watcher import Watcher
from tests.support.program.results_samples import campaign, failed, ok
from tests.support.program.watched_campaigns import AT_WORK, NOW, ended, overview, view


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (AT_WORK, "running"),
        (replace(AT_WORK, writer=replace(AT_WORK.writer, pid=1, started_ticks=1)), "killed"),
        (ended("finished"), "finished"),
        (ended("failed", error="no device"), "failed"),
        (ended("finished", written_at=NOW - 600), "running"),
        (None, "running"),
    ],
    ids=["current", "gone", "ended", "failed", "elsewhere", "unknown"],
)
def test_whether_a_campaign_runs(status: CampaignStatus | None, phase: str) -> None:
    """The last one but one goes on elsewhere: its records are newer than what was said here."""
    assert view(status).phase(NOW) == phase
    assert view(None).phase(NOW + 300) == "ended"


def test_how_long_it_takes_by_its_process_or_else_by_its_records() -> None:
    assert (view().left_s(NOW), view().per_minute(NOW), view().budget) == (304.0, 12.0, 64)
    assert view(ended("finished")).left_s(NOW) is None
    assert (view(None).left_s(NOW), view(None).budget, view(None).layers) == (None, 64, (1, 1))


def test_the_json_has_it_all() -> None:
    fields = json.loads(json.dumps(overview_fields(overview(fault="damaged")), allow_nan=False))
    assert fields["format"] == 1
    assert fields["places"] == [{"place": "/results", "fault": "damaged"}]
    (found,) = fields["campaigns"]
    assert (found["state"], found["trials"], found["trials_budget"], found["left_s"]) == ("running", 3, 64, 304.0)
    assert found["network_cost"]["speedup"] == pytest.approx(2.0)
    assert found["network_cost"]["confirmed_speedup"] == 1.0
    assert (fields["boards"][0]["name"], fields["boards"][0]["state"]) == ("pi", "quarantined")
    assert fields["failures"][0]["error"] == "cannot select"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "results").mkdir()
    with SqliteStore(tmp_path / "results" / "records.db") as store:
        store.append([campaign(), ok(0), failed(1)])
    return tmp_path / "results"


def test_records_that_appear_later_are_damaged_and_are_mended(results: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    watcher = Watcher(later)
    assert watcher.look().places[0].fault.startswith("no such results file: ")
    shutil.copytree(results, later)
    found = watcher.look()
    assert (found.places[0].fault, [each.trials for each in found.campaigns]) == ("", [2])
    whole = (later / "records.db").read_bytes()
    (later / "records.db").write_bytes(whole[:5000])
    with SqliteStore(results / "records.db") as store:
        store.append([ok(2)])
    fault = watcher.look().places[0].fault
    assert "results file is damaged" in fault
    assert "\n" not in fault
    shutil.copyfile(results / "records.db", later / "records.db")
    found = watcher.look()
    assert (found.places[0].fault, [each.trials for each in found.campaigns]) == ("", [3])
    watcher.close()


def test_only_what_may_have_changed_is_read_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    look = FollowedCampaign.look
    monkeypatch.setattr(
        FollowedCampaign, "look", lambda self, store: reads.append(self.campaign.name) or look(self, store)
    )
    watcher = Watcher(results)
    for _ in range(3):
        watcher.look()
    assert reads == ["c1"]
    write_campaign_status(replace(AT_WORK, place=place_of(results)))
    with SqliteStore(results / "records.db") as store:
        store.append([ok(2)])
        assert watcher.look().campaigns[0].trials == 3
    assert reads == ["c1"] * 2
    watcher.close()


def test_without_a_place_all_that_ran_of_late_are_shown(results: Path, tmp_path: Path) -> None:
    watcher = Watcher(None, results)
    assert [each.name for each in watcher.look().campaigns] == ["c1"]
    elsewhere = tmp_path / "elsewhere"
    now = watcher.look().at
    for name, at in (("new", now), ("old", now - 2 * 86400)):
        write_campaign_status(replace(ended("finished"), place=str(elsewhere), campaign=name, written_at=at))
    found = watcher.look()
    assert {(each.place, each.name) for each in found.campaigns} == {(str(results), "c1"), (str(elsewhere), "new")}
    assert [bool(place.fault) for place in found.places] == [False, True]
    watcher.close()


def test_of_many_campaigns_the_latest_are_read(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_CAMPAIGNS", 2)
    with SqliteStore(results / "records.db") as store:
        store.append([replace(campaign(f"d{year}"), created_at=f"{year}-01-01") for year in (2031, 2030, 2029)])
    watcher = Watcher(results)
    found = watcher.look()
    assert ({each.name for each in found.campaigns}, found.left_out) == ({"d2031", "d2030"}, 2)
    watcher.close()

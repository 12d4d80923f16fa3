"""A campaign tells other processes how it is."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.rpc.errors import StatusFileError
from int8tune.tuner.campaign import announcing
from int8tune.tuner.campaign.announcing import KEPT_S, Announcer, announced
from int8tune.tuner.campaign.events import Progress, Silence
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign_status import (
    CampaignStatus,
    all_statuses,
    campaigns_folder,
    place_of,
    read_status,
    status_path,
)
from tests.support.program.campaigns import SMALL, network_of

SPEC = CampaignSpec("c", network_of(SMALL), trials_per_task=5, time_limit_s=100.0)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def status() -> CampaignStatus:
    (found,) = all_statuses()
    return found


def test_it_says_how_far_it_is_and_how_it_ended(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "EVERY_S", 0.0)
    with announced(SPEC, state / "results", Silence()) as announcer:
        assert (status().trials, status().left_s, status().is_current) == (5, None, True)
        announcer.progress(Progress(1, 0, 5, 3, 1, 60.0, 90.0, None, {}))
        assert (status().trials_done, status().resumed, status().left_s) == (3, 1, 40.0)
        announcer.end("finished")
    assert (status().place, status().campaign) == (str(state / "results"), "c")
    assert (status().ending, status().is_current) == ("finished", False)


def test_a_failure_is_told_with_its_cause(state: Path) -> None:
    with pytest.raises(ValueError, match="no"), announced(SPEC, state, Silence()):
        raise ValueError("no\x1b[2J\n device")
    assert (status().ending, status().error) == ("failed", "no\\x1b[2J device")
    with pytest.raises(KeyboardInterrupt), announced(SPEC, state, Silence()):
        raise KeyboardInterrupt
    assert (status().ending, status().error) == ("interrupted", "")


def test_what_can_not_be_written_is_said_once(state: Path) -> None:
    said = []

    class Listener(Silence):
        def notice(self, text: str) -> None:
            said.append(text)

    (state / "state").write_text("in the way")
    with announced(SPEC, state, Listener()) as announcer:
        announcer.progress(Progress(1, 0, 5, 3, 1, 60.0, 90.0, None, {}))
        announcer.end("finished")
    assert len(said) == 1
    assert "`int8tune watch` won't show how far this is" in said[0]


def test_old_files_are_removed(state: Path) -> None:
    Announcer(SPEC, state, Silence()).end("finished")
    old = status_path(place_of(state), "c")
    os.utime(old, (time.time() - KEPT_S - 1,) * 2)
    Announcer(replace(SPEC, name="d"), state, Silence())
    assert [each.campaign for each in all_statuses()] == ["d"]
    assert not old.exists()


def test_a_password_is_not_written() -> None:
    assert place_of("postgresql://me:secret@host/db") == "postgresql://host/db"
    assert place_of("/x/records.db") == place_of("/x") == "/x"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', "\xff", "[" * 100_000])
def test_damaged_files_are_refused_and_left_out(state: Path, text: str) -> None:
    Announcer(SPEC, state, Silence())
    whole = json.loads(status_path(place_of(state), "c").read_text())
    bad = campaigns_folder() / "bad.json"
    for content in (text, json.dumps(whole | {"colour": 1}), json.dumps(whole | {"trials": -1})):
        bad.write_text(content)
        with pytest.raises(StatusFileError, match=r"bad\.json: "):
            read_status(bad)
    assert [each.campaign for each in all_statuses()] == ["c"]

"""`int8tune results list`, `show`, `merge`, `rename`, `archive` and `prune`."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

import int8tune as it
from int8tune.results.errors import NoSuchCampaignError, UpkeepError
from int8tune.results.store import SqliteStore
from int8tune.tuner.errors import SpecError
from tests.support.program.cli_program import Ended, in_process
from tests.support.program.results_samples import campaign, candidate, check, duel, failed, ok, run

ENDED = replace(run(), ended_at="2026-03-01T13:00:00+00:00", ending="finished")
HEADS = ["campaign", "network", "target", "device", "trials", "failed", "speedup", "faster", "started", "host"]
OLD = "2020-01-01T00:00:00+00:00"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A campaign that found something, and an old one that did not."""
    folder = tmp_path / "results"
    folder.mkdir()
    with SqliteStore(folder / "records.db") as store:
        store.append([campaign("c1"), run(), ok(0), ok(1, 5e-4), failed(2), duel(candidate(0), candidate(1), 2.0)])
        store.append([ENDED, check(), replace(campaign("old"), created_at=OLD)])
    return folder


def assert_failed(ended: Ended, message: str, code: int = 1) -> str:
    """One line that says so, and another with a hint, which is returned."""
    assert ended.out == ""
    error, hint = ended.err.splitlines()
    assert re.fullmatch(f"error: {message}", error), error
    assert hint.startswith("hint: ")
    assert ended.code == code
    return hint.removeprefix("hint: ")


def test_campaigns_are_listed(results: Path) -> None:
    shown = in_process("results", "list", results)
    assert shown.code == 0
    head, first, second = shown.out.splitlines()
    assert head.split() == HEADS
    assert first.split()[4:] == ["3", "1", "2.00", "1", "of", "1", "2026-03-01", "12:00", "bench-1"]
    assert second.split()[0] == "old"
    assert re.fullmatch(rf"[\d.]+ KiB: {results}\n", shown.err)
    rows = json.loads(in_process("results", "list", results, "--format", "json").out)
    assert (rows[0]["campaign"], rows[0]["user"], rows[0]["ending"]) == ("c1", "ada", "finished")
    assert rows[0]["last_at"] == ENDED.ended_at
    assert rows[0]["store_bytes"] == (results / "records.db").stat().st_size
    assert list(it.campaigns(results).to_pandas()["campaign"]) == ["c1", "old"]


def test_campaigns_of_several_folders_say_where_they_are(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "b")
    shown = in_process("results", "list", results, tmp_path / "b" / "records.db")
    assert [line.split()[:2] for line in shown.out.splitlines()] == [
        ["store", "campaign"],
        *([str(store), name] for store in (results, tmp_path / "b" / "records.db") for name in ("c1", "old")),
    ]


def test_one_campaign_is_shown_with_its_runs(results: Path) -> None:
    shown = in_process("results", "show", "c1", "--results", results)
    assert shown.code == 0
    assert "search    evolutionary, seed 7, 64 trials a layer, cache warm" in shown.out
    assert "run       2026-03-01T12:00:00+00:00 to 2026-03-01T13:00:00+00:00, finished" in shown.out
    assert "ada on bench-1, Intel Xeon Platinum 8272CL, int8tune 0.1.0, commit 4f4f4f4f4f4f" in shown.out
    assert "int8tune tune resnet18 --trials 64" in shown.out
    assert "LLVMError" in shown.out
    found = json.loads(in_process("results", "show", "c1", "--results", results, "--format", "json").out)
    assert found["started_as"]["seed"] == 7
    assert [one["user"] for one in found["program_runs"]] == ["ada"]
    assert it.show_campaign("c1", results).runs == (ENDED,)


def test_folders_are_merged_and_campaigns_archived_and_renamed(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with SqliteStore(other / "records.db") as store:
        store.append([replace(campaign("c1"), seed=8)])
    shown = in_process("results", "merge", results, other, "-o", tmp_path / "all")
    assert shown.out == f"3 campaigns, 3 trials: {tmp_path}/all/records.db\n"
    assert shown.err == f"note: `c1` of {other}/records.db is `c1.2`, another campaign has its name\n"
    assert in_process("results", "rename", "c1.2", "c2", "--results", tmp_path / "all").code == 0
    moved = in_process("results", "archive", "c1", "-o", tmp_path / "c1.db", "--move", "--results", tmp_path / "all")
    assert moved.out == f"1 campaign, 3 trials moved: {tmp_path}/c1.db\n"
    assert [row.campaign for row in it.campaigns(tmp_path / "all")] == ["old", "c2"]
    again = it.merge_records([tmp_path / "all", tmp_path / "c1.db"], tmp_path / "again.db")
    assert (again.campaigns, again.trials, again.damaged_file) == (3, 3, None)


def test_nothing_is_removed_without_yes(results: Path) -> None:
    before = (results / "records.db").read_bytes()
    shown = in_process("results", "prune", "--older-than", "900d", "--results", results)
    assert [line.split()[0] for line in shown.out.splitlines()] == ["campaign", "old"]
    assert shown.err.endswith("nothing was removed; to remove these: add --yes\n")
    assert (results / "records.db").read_bytes() == before
    assert (
        "no campaign is that old" in in_process("results", "prune", "--older-than", "9000d", "--results", results).err
    )
    assert_failed(in_process("results", "prune", "--results", results), "say which: .*", code=2)


def test_what_is_removed_can_be_merged_back(results: Path, tmp_path: Path) -> None:
    shown = in_process("results", "prune", "c1", "--yes", "--results", results)
    assert shown.code == 0
    (removed,) = results.glob("records.removed-*.db")
    assert shown.err.endswith(f"removed; what they were, to be merged back or deleted: {removed}\n")
    assert [row.campaign for row in it.campaigns(results)] == ["old"]
    it.merge_records([results, removed], tmp_path / "back")
    assert {row.campaign for row in it.campaigns(tmp_path / "back")} == {"c1", "old"}


def test_a_campaign_that_waits_for_boards_keeps_its_name(results: Path) -> None:
    (results / "c1.journal").touch()
    waits = f"campaign `c1` is not finished, work of it is noted in: {results}/c1.journal"
    for words in (["rename", "c1", "c2"], ["prune", "c1"], ["archive", "c1", "-o", results / "o.db", "--move"]):
        assert_failed(in_process("results", *words, "--results", results), waits)
    assert in_process("results", "archive", "c1", "-o", results / "o.db", "--results", results).code == 0


def test_a_running_campaign_is_not_disturbed(results: Path) -> None:
    with SqliteStore(results / "records.db"):
        for words in (["rename", "c1", "c2"], ["prune", "c1", "--yes"]):
            assert_failed(in_process("results", *words, "--results", results), "another process is writing .*")
    assert [row.campaign for row in it.campaigns(results)] == ["c1", "old"]


COMMANDS = (
    ["list", "DIR"],
    ["show", "c1", "--results", "DIR"],
    ["merge", "DIR", "-o", "NEW"],
    ["rename", "c1", "c3", "--results", "DIR"],
    ["archive", "c1", "-o", "NEW.db", "--move", "--results", "DIR"],
    ["prune", "c1", "--yes", "--results", "DIR"],
)


def said(words: list[str], results: Path) -> Ended:
    places = {"DIR": results, "NEW": results.parent / "new", "NEW.db": results.parent / "new.db"}
    return in_process("results", *(str(places.get(word, word)) for word in words))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_what_is_no_store_is_refused_in_a_line_and_left_alone(words: list[str], results: Path) -> None:
    path = results / "records.db"
    for content, message in (
        (b"", r"not a results file \(it is empty\): .*"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), r"not a results file \(it starts with b'\\x89PNG.*"),
        (path.read_bytes()[:9000], r"the results file is damaged \(.*"),
    ):
        path.write_bytes(content)
        assert_failed(said(words, results), message)
        assert path.read_bytes() == content
    path.unlink()
    assert_failed(said(words, results), "no such results file: .*")
    assert not (results.parent / "new.db").exists()


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if words[0] not in ("merge", "rename")], ids=lambda words: words[0]
)
def test_damaged_rows_lead_to_merge(words: list[str], results: Path) -> None:
    """What the hint says works."""
    with sqlite3.connect(results / "records.db") as connection:
        connection.execute("UPDATE trials SET device = 'x' WHERE id = 1")
    connection.close()
    hint = assert_failed(said(words, results), r"the results file is damaged \(.*row 1 of trials.*")
    assert hint == "take what can be read into a new folder: int8tune results merge DIR -o NEW"
    shown = said(["merge", "DIR", "-o", "NEW"], results)
    aside = results.parent / "new" / "records.db.damaged.jsonl"
    assert shown.err == f"note: 1 row can't be read, set aside in {aside}\n"
    assert shown.out == f"2 campaigns, 2 trials: {results.parent}/new/records.db\n"


def test_names_that_are_not_there(results: Path) -> None:
    meant = "no such campaign `c11`, did you mean `c1`\\?"
    for words in (
        ["show", "c11"],
        ["rename", "c11", "c3"],
        ["archive", "c11", "-o", results / "o.db"],
        ["prune", "c11"],
    ):
        assert_failed(in_process("results", *words, "--results", results), meant)
    with pytest.raises(UpkeepError, match="already: old"):
        it.rename_campaign("c1", "old", results)
    with pytest.raises(SpecError, match="a campaign's name has 1 to 64"):
        it.rename_campaign("c1", "a/b", results)
    with pytest.raises(NoSuchCampaignError, match="the records have: c1, old"):
        it.archive_campaigns("zzz", results / "o.db", results)
    with pytest.raises(UpkeepError, match=r"only results folders and files .*: postgresql://\*\*\*@host/db"):
        it.merge_records(["postgresql://ada:secret@host/db"], results / "o.db")

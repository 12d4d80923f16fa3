"""`results compare`, and the forms of what is written."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from int8tune.results.store import SqliteStore
from tests.support.places import TESTS
from tests.support.program.cli_program import in_process
from tests.support.program.pages import Page
from tests.support.program.results_samples import LAYER, campaign, candidate, duel, ok

OTHER = "dense-u8s8-1x64-o10-s32"


def write_store(folder: Path, gain: float, workload: str = LAYER, name: str = "c1") -> Path:
    """A results folder whose campaign found a candidate that is so much faster than the default."""
    folder.mkdir()
    default, best = candidate(0, workload), candidate(round(100 * gain), workload)
    with SqliteStore(folder / "records.db") as store:
        trials = [ok(0, chosen=default, name=name), ok(1, 1e-3 / gain, chosen=best, name=name)]
        store.append([campaign(name, {workload: 4}), *trials, duel(default, best, gain, name=name)])
    return folder


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Last week's and this week's, in which the best is a tenth slower."""
    folder = tmp_path_factory.mktemp("stores")
    return write_store(folder / "old", 2.0), write_store(folder / "new", 1.8)


def test_a_regression_has_an_exit_code_of_its_own(stores: tuple[Path, Path]) -> None:
    found = in_process("results", "compare", *stores, "--fail-if", "slower:3%")
    assert found.code == 3
    assert found.err.splitlines() == [
        "regression: the network: B takes 1.11 times as long",
        "regression: conv2d 3x3 56x56x64->64: B takes 1.11 times as long",
    ]
    assert " slower" in found.out
    assert in_process("results", "compare", *stores, "--fail-if", "slower:30%", "--fail-if", "missing").code == 0
    assert in_process("results", "compare", *stores).code == 0
    assert in_process("results", "compare", *reversed(stores), "--fail-if", "slower:3%").code == 0


def test_it_is_printed_in_three_forms_and_written_in_five(stores: tuple[Path, Path], tmp_path: Path) -> None:
    command = ("results", "compare", *stores)
    printed = json.loads(in_process(*command, "--format", "json").out)
    assert [layer["change"] for layer in printed["layers"]] == ["slower"]
    assert in_process(*command, "--format", "markdown").out.startswith("### resnet18: slower\n")
    for extension in (".html", ".md", ".csv", ".json", ".parquet"):
        out = tmp_path / f"out{extension}"
        assert in_process(*command, "-o", out).code == 0
        assert out.stat().st_size > 0
    assert json.loads((tmp_path / "out.json").read_text()) == printed
    assert (tmp_path / "out.csv").read_text().splitlines()[0].startswith("workload,label,count,names,change")
    assert in_process(*command, "--format", "xml").err.startswith("error: --format: unknown format `xml`")


def test_pytest_benchmark_compares_both_sides(stores: tuple[Path, Path], tmp_path: Path) -> None:
    both = tmp_path / "both.json"
    assert in_process("results", "compare", *stores, "--benchmark-json", both).code == 0
    command = [sys.executable, "-m", "pytest_benchmark", "compare", both, "--group-by=group", "--csv=both.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "both.csv").read_text().splitlines()))
    assert {row["name"] for row in rows} == {f"A[{LAYER}]", f"B[{LAYER}]"}
    medians = {row["name"][0]: float(row["median"]) for row in rows}
    printed = json.loads(in_process("results", "compare", *stores, "--format", "json").out)["layers"][0]
    assert medians == {"A": printed["a"]["time"], "B": printed["b"]["time"]}
    turned = json.loads(both.read_text())
    turned["benchmarks"].reverse()
    both.write_text(json.dumps(turned))
    against_new = in_process("results", "compare", both, stores[1], "--format", "json")
    assert [layer["a"]["time"] for layer in json.loads(against_new.out)["layers"]] == [medians["B"]]


@pytest.mark.parametrize(
    ("b", "said"),
    [
        ("{new}/nothing", "no such results file: {new}/nothing/records.db"),
        ("{new}::c9", "no such campaign, the records have c1: c9"),
        ("{old}", "A and B are the same: campaign c1 of {old}"),
        ("{old}/records.db", "A and B are the same: campaign c1 of {old}/records.db"),
        ("{other}", "no layer is on both sides: campaign c1 of {old} has 1, such as conv2d 3x3 56x56x64->64; "),
        ("{pytest}", "A and B were taken under other conditions: cpu Intel Xeon Platinum 8272CL and Intel"),
        ("{empty}", "no such results file: {empty}/records.db"),
        ("{text}", 'neither records nor a best log nor JSON (it begins with "what?")'),
    ],
)
def test_each_fault_is_a_line_and_a_hint(b: str, said: str, stores: tuple[Path, Path], tmp_path: Path) -> None:
    places = {"old": stores[0], "new": stores[1], "empty": tmp_path / "empty", "text": tmp_path / "text"}
    places |= {"pytest": TESTS / "data" / "pytest_benchmark_5.3.json", "other": tmp_path / "other"}
    places["empty"].mkdir()
    places["text"].write_text("what?")
    if b == "{other}":
        write_store(places["other"], 2.0, OTHER)
    found = in_process("results", "compare", stores[0], b.format(**places))
    lines = found.err.splitlines()
    assert (found.code, found.out, len(lines)) == (1, "", 2)
    assert lines[0].startswith(f"error: {said.format(**places)}")
    assert lines[1].startswith("hint: ")


@pytest.mark.parametrize("condition", ["faster", "slower:3", "slower:x%"])
def test_an_unknown_condition_is_refused_before_anything_is_read(condition: str, tmp_path: Path) -> None:
    found = in_process("results", "compare", tmp_path, tmp_path, "--fail-if", condition)
    assert found.err.startswith(f"error: unknown condition `{condition}`, known: slower:3%")


@pytest.mark.parametrize("extension", [".txt", "", ".db"])
@pytest.mark.parametrize(
    ("command", "known"),
    [
        (("report", "{out}", "--results", "{old}"), ".html, .md, .csv, .json, .parquet"),
        (("results", "export", "{out}", "--results", "{old}"), ".parquet, .csv, .json, .t4.json, .metaschedule"),
        (("results", "compare", "{old}", "{new}", "-o", "{out}"), ".html, .md, .csv, .json, .parquet"),
        (("compare-schemes", "{old}", "--data", "{old}", "--report", "{out}"), ".html, .md, .csv, .json, .parquet"),
    ],
)
def test_an_unknown_extension_is_an_error_that_names_the_known_ones(
    command: tuple[str, ...], known: str, extension: str, stores: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / f"out{extension}"
    found = in_process(*(word.format(out=out, old=stores[0], new=stores[1]) for word in command))
    what = f"unknown extension `{extension}`" if extension else "the file needs an extension"
    assert (found.code, found.err.splitlines()[0]) == (2, f"error: {what}, known: {known}: {out}")
    assert not out.exists()


def test_a_report_in_every_form(stores: tuple[Path, Path], tmp_path: Path) -> None:
    import pandas

    where = ("--results", stores[1])
    for extension in (".html", ".md", ".csv", ".json", ".parquet"):
        out = tmp_path / f"out{extension}"
        assert in_process("report", out, *where).err == f"report of c1, 2 trials  {out}\n"
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["int8tune_report"], found["against"]) == (1, None)
    frames = pandas.read_csv(tmp_path / "out.csv"), pandas.read_parquet(tmp_path / "out.parquet")
    assert list(frames[0]) == list(frames[1])
    for frame in frames:
        assert frame["best.median_s"][0] == pytest.approx(found["layers"][0]["best"]["median_s"])
    text = (tmp_path / "out.md").read_text()
    assert text.startswith("### resnet18: 1.80 times faster\n")
    assert "| conv2d 3x3 56x56x64->64 | 4 |" in text


def test_all_tables_have_one_set_of_names(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """The table that a page carries is the file's, also with what changed; what trials have has the same name there."""
    import pandas

    page, table, parquet = (tmp_path / f"out{extension}" for extension in (".html", ".csv", ".parquet"))
    for more in ((), ("--against", stores[0])):
        for out in (page, table, parquet):
            assert in_process("report", out, "--results", stores[1], *more).code == 0
        assert Page(page.read_text()).downloads["c1.csv"] == table.read_text()
        names = list(pandas.read_csv(table))
        assert names == list(pandas.read_parquet(parquet))
    for out in (tmp_path / "trials.csv", tmp_path / "trials.parquet"):
        assert in_process("results", "export", out, "--results", stores[1]).code == 0
    trials = list(pandas.read_csv(tmp_path / "trials.csv"))
    assert trials == list(pandas.read_parquet(tmp_path / "trials.parquet"))
    of_layers = {"campaign", "network", "device", "target", "workload", "label", "count", "names"}
    of_schedules = {"candidate_id", "template", "version", "config", "sequence"}
    assert of_layers | of_schedules <= set(trials)
    assert of_layers | {f"{which}.{name}" for which in ("default", "best") for name in of_schedules} <= set(names)
    assert {f"against.{name}" for name in ("change", "time", "ratio", "candidate_id")} <= set(names)


def test_a_report_against_earlier_results_says_what_changed(stores: tuple[Path, Path], tmp_path: Path) -> None:
    for extension in (".md", ".json", ".csv"):
        command = ("report", tmp_path / f"out{extension}", "--results", stores[1], "--against", stores[0])
        assert in_process(*command).code == 0
    assert "slower" in (tmp_path / "out.md").read_text().partition("\n")[0]
    against = json.loads((tmp_path / "out.json").read_text())["against"]
    assert against["network"]["change"] == "slower"
    assert "against.change" in (tmp_path / "out.csv").read_text().partition("\n")[0]


def test_a_table_of_trials_is_what_its_extension_says(stores: tuple[Path, Path], tmp_path: Path) -> None:
    for extension, begins in ((".csv", b"target,workload"), (".json", b"{"), (".parquet", b"PAR1")):
        out = tmp_path / f"out{extension}"
        assert in_process("results", "export", out, "--results", stores[0]).code == 0
        assert out.read_bytes().startswith(begins)
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["int8tune_trials"], len(found["trials"])) == (1, 2)


def test_a_store_of_an_old_version_is_compared(tmp_path: Path) -> None:
    for version in (1, 3):
        (tmp_path / str(version)).mkdir()
        shutil.copy(TESTS / "data" / f"store_v{version}.db", tmp_path / str(version) / "records.db")
    found = in_process("results", "compare", tmp_path / "1::c1", tmp_path / "3", "--campaign", "c1")
    assert (found.code, found.err) == (0, "")


def test_an_index_has_a_page_of_every_campaign(stores: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "site"
    found = in_process("report", f"{out}/", "--results", stores[0], "--results", stores[1])
    assert (found.code, found.err) == (0, f"index of 2 campaigns  {out}/index.html\n")
    # Both campaigns have one name.
    assert sorted(path.name for path in out.iterdir()) == ["c1.html", "campaign-2.html", "index.html"]
    page = (out / "index.html").read_text()
    assert 'href="c1.html"' in page
    assert 'href="campaign-2.html"' in page
    again = in_process("report", out, "--results", stores[0], "--results", tmp_path / "nowhere")
    assert again.err.splitlines() == [
        f"left out: no such results file: {tmp_path}/nowhere/records.db",
        f"index of 1 campaign  {out}/index.html",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{out}/", "--results", "{out}/none"), "no such results file: {out}/none/records.db"),
        (("{out}/", "--campaign", "c1"), "an index is of all campaigns: leave campaign and against out"),
        (("{out}.md", "--results", "{old}", "--results", "{new}"), "a report is of one results folder; an index may"),
        (("{file}/", "--results", "{old}"), "the folder can't be made (there is a file of this name): {file}"),
        (("{out}/a/b/", "--results", "{old}"), "the folder can't be made (no such file or directory): {out}/a/b"),
    ],
)
def test_an_index_that_can_not_be_is_a_line(
    words: tuple[str, ...], said: str, stores: tuple[Path, Path], tmp_path: Path
) -> None:
    places = {"out": tmp_path / "out", "old": stores[0], "new": stores[1], "file": tmp_path / "file"}
    places["file"].touch()
    found = in_process("report", *(word.format(**places) for word in words))
    assert found.code in (1, 2)
    assert found.err.startswith(f"error: {said.format(**places)}")
    assert len(found.err.splitlines()) == 2


def test_names_of_campaigns_lead_nowhere_else(tmp_path: Path) -> None:
    """A store may come from anywhere: its campaigns may have any name."""
    (tmp_path / "store").mkdir()
    names = ("../../c1", "index", "C1", "c1", ".hidden", "a" * 300)
    with SqliteStore(tmp_path / "store" / "records.db") as store:
        for name in names:
            store.append([campaign(name), ok(0, chosen=candidate(0), name=name)])
    out = tmp_path / "site"
    assert in_process("report", f"{out}/", "--results", tmp_path / "store").code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "C1.html",
        *(f"campaign-{number}.html" for number in (1, 2, 4, 5, 6)),
        "index.html",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "store"]

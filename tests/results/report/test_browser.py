"""Pages in a real browser: nothing for axe to find, no wider than a phone, sorted and filtered by their script."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from int8tune.results.analysis.campaign import analyze
from int8tune.results.comparison.compare import Comparison, compare_sides
from int8tune.results.comparison.of_store import side_of_campaign
from int8tune.results.history import PastCampaign, histories
from int8tune.results.record import Campaign
from int8tune.results.report.comparison_page import render_comparison_page
from int8tune.results.report.html import render_html
from int8tune.results.report.index_page import render_index
from int8tune.results.report.schemes_page import render_schemes_page
from int8tune.rpc.farm.simulation.values import Fault, FaultKind
from tests.results.report.test_html import sample
from tests.results.report.test_schemes_page import schemes
from tests.results.test_history import past
from tests.support.program.browser import LIMIT_S, ask, axe, axe_findings, browser
from tests.support.program.two_campaigns import LAYERS, Machine, side_store
from tests.tuner.campaign.test_board_events import played

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(browser() is None, reason="no chromium"),
]
needs_axe = pytest.mark.skipif(axe() is None, reason="no axe-core: npm install --no-save axe-core")


def pages_over_time() -> Sequence[PastCampaign]:
    """A network of which three campaigns are known, the last one slower, and another one."""
    layers = LAYERS[:4]
    stores = [
        side_store(Machine(), 0, layers=layers),
        side_store(Machine(speed=1.1), 1, made_anew="best", layers=layers),
        side_store(Machine(), 2, dict.fromkeys(layers, 0.9), layers=layers),
    ]
    days = [past(store, day) for store, day in zip(stores, (1, 5, 20), strict=True)]
    return [*days, past(stores[0], 2, network="other")]


def comparison() -> Comparison:
    """Slower, faster and unchanged layers, and one that is in one of the two alone."""
    changed = {LAYERS[1]: 0.8, LAYERS[2]: 1.3}
    sides = [
        side_store(Machine(), 0, layers=LAYERS[:4]),
        side_store(Machine(), 5, changed, made_anew="best", layers=LAYERS[1:5]),
    ]
    found = [
        side_of_campaign(store, next(store.query(Campaign)), name) for store, name in zip(sides, "ab", strict=True)
    ]
    return compare_sides(*found)


def boards_page() -> str:
    """The page of a campaign on boards, one of which is off, with what changed since an earlier one."""
    store = played(Fault(FaultKind.SLOW, "pi-2", 5.0, 1e4, 2.0), Fault(FaultKind.UNPLUG, "pi-3", 5.0, 15.0), trials=600)
    return render_html(analyze(store, "c1", {}), comparison())


PAGES: Mapping[str, Callable[[], str]] = {
    "campaign": lambda: render_html(sample()),
    "boards": boards_page,
    "schemes": lambda: render_schemes_page(schemes()),
    "index": lambda: render_index(histories(pages_over_time()), ["no such results file: records.db"]),
    "comparison": lambda: render_comparison_page(comparison()),
}


@pytest.fixture(scope="module", params=list(PAGES))
def page(request: pytest.FixtureRequest) -> str:
    return PAGES[request.param]()


@pytest.fixture(scope="module")
def campaign_page() -> str:
    return render_html(sample())


@needs_axe
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (500, False)])
def test_axe_finds_nothing(page: str, tmp_path: Path, width: int, dark: bool) -> None:
    assert axe_findings(page, tmp_path, width, dark=dark) == []


@needs_axe
def test_axe_finds_what_is_wrong(campaign_page: str, tmp_path: Path) -> None:
    worse = campaign_page.replace('aria-label="Trials of layer 1,', 'data-label="').replace('lang="en"', "")
    found = axe_findings(worse, tmp_path)
    assert {line.partition(":")[0] for line in found} == {"html-has-lang", "svg-img-alt"}


@pytest.mark.parametrize("width", [500, 768, 1440])
def test_nothing_is_wider_than_the_window(page: str, tmp_path: Path, width: int) -> None:
    root = "document.documentElement"
    shown, whole = ask(page, f"return [{root}.clientWidth, {root}.scrollWidth]", tmp_path, width)
    assert whole <= shown <= width


def test_a_phone_s_page_is_not_wider(page: str, tmp_path: Path) -> None:
    """A window can't be as narrow as a phone: a frame in it can."""
    ask_frame = """const frame = document.createElement("iframe");
      frame.width = 390;
      frame.height = 900;
      frame.srcdoc = document.documentElement.outerHTML.replace(/<script[^]*?<\\/script>/g, "");
      document.body.replaceChildren(frame);
      await new Promise((done) => frame.addEventListener("load", done));
      const root = frame.contentDocument.documentElement;
      const shown = [...root.querySelectorAll("figure svg")].filter((svg) => getComputedStyle(svg).display !== "none");
      return [root.clientWidth, root.scrollWidth, shown.every((svg) => svg.classList.contains("phone"))]"""
    shown, whole, are_small = ask(page, ask_frame, tmp_path)
    assert whole <= shown <= 390
    assert are_small


def test_the_table_is_sorted_and_filtered(campaign_page: str, tmp_path: Path) -> None:
    question = """const heads = [...document.querySelectorAll("#layers-table thead button")];
      const rows = () => [...document.querySelectorAll("#layers-table tbody tr")].filter((row) => !row.hidden);
      const shares = () => rows().map((row) => Number(row.cells[6].dataset.v || -1));
      const share = heads.find((head) => head.textContent.startsWith("Share"));
      share.click();
      const falling = shares();
      share.click();
      const rising = shares();
      const search = document.querySelector("[data-controls] input[type=search]");
      search.value = "dwconv2d 7x7";
      search.dispatchEvent(new Event("input"));
      const names = rows().map((row) => row.cells[1].dataset.v);
      return {falling, rising, found: names, said: document.querySelector("[role=status]").textContent,
        sorted: share.parentElement.getAttribute("aria-sort")};"""
    found = ask(campaign_page, question, tmp_path)
    known = [share for share in found["rising"] if share >= 0]
    assert found["falling"] == [*sorted(known, reverse=True), -1]
    assert found["rising"] == [*sorted(known), -1]
    assert found["found"] == ["dwconv2d 3x3 7x7x512", "dwconv2d 3x3 7x7x1024"]
    assert found["said"] == "2 of 35 layers"
    assert found["sorted"] == "ascending"


def test_the_page_s_own_policy_lets_it_work(campaign_page: str, tmp_path: Path) -> None:
    """With its policy in place, its script runs and its style applies."""
    path = tmp_path / "page.html"
    path.write_text(campaign_page)
    program = browser()
    assert program is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
    ]
    done = subprocess.run(
        [program, *options, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout.count('<button type="button">') == 13
    assert "Content Security Policy" not in done.stderr


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext")
def test_the_page_prints_as_a_document(campaign_page: str, tmp_path: Path) -> None:
    path, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    path.write_text(campaign_page)
    program = browser()
    assert program is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--no-pdf-header-footer",
    ]
    words = [program, *options, f"--print-to-pdf={paper}", path.as_uri()]
    subprocess.run(words, capture_output=True, timeout=LIMIT_S, check=True)
    read = subprocess.run(
        ["pdftotext", "-layout", paper, "-"], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    pages = [page for page in read.stdout.split("\f") if page.strip()]
    assert 5 <= len(pages) <= 12
    assert "resnet-mobile-mix on local" in pages[0]
    assert "Filter" not in read.stdout
    # No heading is left alone at the end of a page.
    for page in pages[:-1]:
        last = [line for line in page.splitlines() if line.strip()][-1].strip()
        assert last not in {"Layers", "The search", "Failed trials", "Beside other libraries", "Provenance and data"}

"""Pages in a real browser: nothing for axe to find, no wider than a phone, sorted and filtered by their script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from int8tune.results.report.html import render_html
from int8tune.results.report.schemes_page import render_schemes_page
from tests.results.report.test_html import sample
from tests.results.report.test_schemes_page import schemes
from tests.support.program.browser import LIMIT_S, ask, axe, axe_findings, browser

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(browser() is None, reason="no chromium"),
]
needs_axe = pytest.mark.skipif(axe() is None, reason="no axe-core: npm install --no-save axe-core")


@pytest.fixture(scope="module", params=["campaign", "schemes"])
def page(request: pytest.FixtureRequest) -> str:
    return render_html(sample()) if request.param == "campaign" else render_schemes_page(schemes())


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

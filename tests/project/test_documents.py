"""Links of the documents lead somewhere, and the modules that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.places import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What headings are called in links: lower case, words joined by dashes, without other marks."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    targets = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    lost = []
    for target in targets:
        path, _, anchor = target.partition("#")
        if path.startswith(("https:", "http:")):
            continue
        file = page if not path else (page.parent / path).resolve()
        if not file.exists() or (anchor and anchor not in anchors(file)):
            lost.append(target)
    assert lost == []


def test_every_page_is_in_the_readme() -> None:
    linked = {target.partition("#")[0] for target in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"} <= linked


def test_modules_of_the_table_are_there() -> None:
    """A row's first column has its package, or that of the row above; the second one its modules and folders."""
    package, lost = "", []
    for row in (ROOT / "docs" / "packages.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) != 5 or "`" not in cells[2]:
            continue
        package = cells[1].strip("`") or package
        names = re.findall(r"`([^`]+)`", cells[2])
        lost += [
            name
            for name in names
            if not ((ROOT / package / name).is_dir() or (ROOT / package / f"{name}.py").is_file())
        ]
    assert package == "tuner"
    assert lost == []

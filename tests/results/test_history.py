"""Campaigns over time, and the index that shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from int8tune.results.comparison.compare import Change, compare_sides
from int8tune.results.comparison.of_store import side_of_campaign
from int8tune.results.history import PastCampaign, histories
from int8tune.results.memory import MemoryStore
from int8tune.results.record import Campaign, CampaignRun
from int8tune.results.report.comparison_page import render_comparison_page
from int8tune.results.report.index_page import render_index
from int8tune.results.summary import summarize
from tests.support.program.two_campaigns import LAYERS, Machine, side_store

FEW = LAYERS[:4]
RUN = CampaignRun("c1", "r1", "ci-7", "me", "int8tune tune", "0.1.0", "0123456789abcdef", "Xeon", "2026-03-01T12:00:00")


def past(store: MemoryStore, day: int, run: CampaignRun | None = None, **changes: str) -> PastCampaign:
    """The campaign of a store, as if it were another one."""
    (campaign,) = store.query(Campaign)
    summary = summarize(store, campaign.name, {})
    moved = replace(campaign, name=f"day-{day}", created_at=f"2026-03-{day:02}T02:00:00+00:00", **changes)
    side = side_of_campaign(store, campaign, "records")
    side = replace(side, conditions=replace(side.conditions, target=moved.target, device=moved.device))
    return PastCampaign(replace(summary, campaign=moved), side, "records", f"day-{day}.html", run)


@pytest.fixture(scope="module")
def three() -> Sequence[PastCampaign]:
    """A network on three days, the third of them slower; given in another order."""
    stores = [
        side_store(Machine(), 0, layers=FEW),
        side_store(Machine(speed=1.1), 1, made_anew="best", layers=FEW),
        side_store(Machine(), 2, dict.fromkeys(FEW, 0.9), layers=FEW),
    ]
    days = [past(store, day) for store, day in zip(stores, (1, 5, 20), strict=True)]
    return [days[2], days[0], replace(days[1], run=RUN)]


def test_a_history_is_in_the_order_of_its_dates_with_what_changed(three: Sequence[PastCampaign]) -> None:
    (history,) = histories(three)
    assert [each.summary.campaign.name for each in history.campaigns] == ["day-1", "day-5", "day-20"]
    changes = [each.since.change if each.since else None for each in history.campaigns]
    assert changes == [None, Change.UNCHANGED, Change.SLOWER]


def test_networks_targets_and_devices_have_histories_of_their_own(three: Sequence[PastCampaign]) -> None:
    store = side_store(Machine(), 3, layers=FEW)
    others = [past(store, 2, network="other"), past(store, 3, target="x86-amx"), past(store, 4, device="pi")]
    assert sorted(len(history.campaigns) for history in histories([*three, *others])) == [1, 1, 1, 3]


def test_a_campaign_that_has_not_timed_all_layers_has_no_time_of_its_network() -> None:
    store = side_store(Machine(), 0, layers=FEW)
    (campaign,) = store.query(Campaign)
    whole = past(store, 1)
    assert whole.time == pytest.approx(2 * 4 * 1e-3 / 1.3, rel=0.1)
    totals = replace(whole.summary.totals, compared_layers=3)
    assert replace(whole, summary=replace(whole.summary, totals=totals)).time is None
    assert campaign.name == "c1"


class Checker(HTMLParser):
    """What a page asks for, and whether its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a":
            self.links.append(values.get("href") or "")
        self.fetched += [value or "" for name, value in attrs if name in ("src", "action")]
        if tag == "link":
            self.fetched.append(values.get("href") or "")
        if tag not in ("meta", "br", "input", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    assert (checker.open, checker.fetched) == ([], [])
    return checker


def test_an_index_leads_to_every_page_and_asks_for_nothing_else(three: Sequence[PastCampaign]) -> None:
    page = render_index(histories(three), ["no such results file: <b>x</b>"])
    links = checked(page).links
    # From a point of the chart, twice as that is drawn for phones, too; and from the table.
    assert [links.count(f"day-{day}.html") for day in (1, 5, 20)] == [3, 3, 3]
    assert "<b>x</b>" not in page
    assert re.search(r'<td class="verdict bad">slower</td>', page)
    assert "ci-7, 0.1.0, 0123456789" in page
    assert page == render_index(histories(three), ["no such results file: <b>x</b>"])


def test_an_index_of_one_campaign_or_none_has_no_curve(three: Sequence[PastCampaign]) -> None:
    assert "<figure>" not in render_index(histories(three[:1]), [])
    page = render_index((), [])
    checked(page)
    assert "no campaign yet" in page


def test_an_index_of_several_networks_begins_with_the_latest_campaign_of_each(three: Sequence[PastCampaign]) -> None:
    assert "At a glance" not in render_index(histories(three), [])
    part = replace(three[0].summary.totals, compared_layers=3)
    other = replace(past(side_store(Machine(), 3, layers=FEW), 2, network="other"), page="")
    other = replace(other, summary=replace(other.summary, totals=replace(part, layers=8)))
    page = render_index(histories([*three, other]), [])
    checked(page)
    glance = page[page.index("At a glance") : page.index('id="history-1"')]
    rows = re.findall(r"<tr>\s*<th scope=.*?</tr>", glance, flags=re.DOTALL)
    assert [re.sub(r"<[^>]*>|\s+", " ", row).split()[0] for row in rows] == ["other", "resnet18"]
    assert "3 of 8 layer runs" in rows[0]
    assert 'href=""' not in page
    assert 'href="#history-2"' in rows[1]
    assert '<a href="day-20.html">day-20</a>' in rows[1]
    assert ">slower<" in rows[1]


def test_names_of_others_are_texts_on_a_page(three: Sequence[PastCampaign]) -> None:
    bad = '"><script>alert(1)</script>'
    campaign = replace(three[0].summary.campaign, name=bad, network=bad, created_at="no date")
    moved = replace(three[0], summary=replace(three[0].summary, campaign=campaign), place=bad)
    page = render_index(histories([moved, three[1]]), [bad])
    checked(page)
    assert "<script>alert" not in page
    side = replace(three[1].side, source=bad, network=bad)
    page = render_comparison_page(compare_sides(three[0].side, side))
    checked(page)
    assert "<script>alert" not in page


def test_a_page_of_a_comparison_has_every_layer_what_changed_first(three: Sequence[PastCampaign]) -> None:
    b = side_store(Machine(), 5, {FEW[2]: 0.85}, made_anew="best", layers=FEW)
    (campaign,) = b.query(Campaign)
    comparison = compare_sides(three[1].side, side_of_campaign(b, campaign, "b"))
    page = render_comparison_page(comparison)
    checked(page)
    rows = re.findall(r'<th scope="row" class="whole">(conv2d [^<]*)</th>', page)
    assert len(rows) == len(FEW)
    assert rows[0] == "conv2d 3x3 14x14x48-&gt;64"
    assert page.count('class="bar"') == len(FEW)

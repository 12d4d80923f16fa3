"""A campaign's page: whole, self-contained, small, and with the numbers that the summary has."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from int8tune.results.analysis.campaign import CampaignAnalysis, analyze
from int8tune.results.analysis.roofline import LayerSize
from int8tune.results.best_log import read_best_log
from int8tune.results.errors import ExportError
from int8tune.results.memory import MemoryStore
from int8tune.results.record import Outcome
from int8tune.results.report.format import factor, interval, microseconds, milliseconds, percent
from int8tune.results.report.html import render_html, write_html
from int8tune.results.report.text import as_dict
from tests.support.places import ROOT
from tests.support.program.pages import Page
from tests.support.program.results_samples import (
    ENVIRONMENT,
    LAYER,
    campaign,
    candidate,
    check,
    duel,
    failed,
    fill,
    ok,
    run,
    sample_sizes,
)

MOST_BYTES = 300_000


def sample() -> CampaignAnalysis:
    store = MemoryStore()
    fill(store)
    store.append([run(name="resnet-night")])
    return analyze(store, "resnet-night", sample_sizes())


@pytest.fixture(scope="module")
def analysis() -> CampaignAnalysis:
    return sample()


@pytest.fixture(scope="module")
def page(analysis: CampaignAnalysis) -> Page:
    return Page(render_html(analysis))


def test_the_page_needs_nothing_from_elsewhere(page: Page) -> None:
    fetching = ("src", "srcset", "action", "xlink:href", "style", "onclick")
    assert [found for found in page.attributes if found[1] in fetching] == []
    links = [value for _, name, value in page.attributes if name == "href"]
    assert {link[0] if link[0] == "#" else link[:5] for link in links} == {"#", "data:"}
    assert "url(" not in page.html.replace("url(#hatch)", "").replace("url(#noise)", "")
    assert "http" not in page.html.replace("http-equiv", "")


def test_only_the_page_s_own_style_and_script_have_an_effect(page: Page) -> None:
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src"))
    for name in ("style", "script"):
        (content,) = re.findall(f"<{name}>(.*?)</{name}>", page.html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_charts_are_well_formed_and_told_by_a_label(page: Page) -> None:
    charts = [ElementTree.fromstring(chart) for chart in page.charts]
    assert len(charts) > 100
    for chart in charts:
        named = chart.get("role") == "img" and chart.get("aria-label")
        assert named or chart.get("aria-hidden") == "true"


def test_coordinates_are_inside_of_their_chart(page: Page) -> None:
    for chart in map(ElementTree.fromstring, page.charts):
        if chart.get("role") != "img":
            continue
        width, height = map(float, (chart.get("viewBox") or "").split()[2:])
        for element in chart.iter():
            places = [(element.get("x", "0"), element.get("y", "0")), (element.get("cx", "0"), element.get("cy", "0"))]
            if element.get("transform") is None:
                assert all(-1 <= float(x) <= width + 1 and -1 <= float(y) <= height + 1 for x, y in places)


def test_every_layer_has_its_numbers_as_the_summary_has_them(page: Page, analysis: CampaignAnalysis) -> None:
    rows = re.findall(r'<tr id="layer-\d+".*?</tr>', page.html, flags=re.DOTALL)
    assert len(rows) == len(analysis.summary.layers) == 35
    for html, row in zip(rows, analysis.summary.layers, strict=True):
        words = Page(html).words
        for timed in (row.default, row.best):
            assert microseconds(timed.median_s if timed else None) in words
            assert timed is None or f"trial {timed.sequence}, candidate {timed.candidate.id} ," in words
        assert interval(row.speedup) in words
        assert percent(analysis.network.share(row)) in words


def test_the_headline_is_the_summary_s(page: Page, analysis: CampaignAnalysis) -> None:
    totals = analysis.summary.totals
    figures = re.findall(r'<dd class="figure">(.*?)</dd>', page.html)
    assert figures[0] == f"{milliseconds(analysis.network.timed)} ms"
    assert figures[1] == f"{factor(totals.speedup)}\N{MULTIPLICATION SIGN}"
    assert figures[5] == f"{totals.trials - totals.outcomes[Outcome.OK]:,} of {totals.trials:,}"
    for fact in ("resnet-mobile-mix on local", "Intel Xeon Platinum 8272CL", "1,152 GOP/s", "evolutionary, seed 7"):
        assert fact in page.words


def test_trials_a_second_are_of_the_time_that_passed_everywhere(page: Page, analysis: CampaignAnalysis) -> None:
    rate = f"{analysis.summary.totals.trials / analysis.summary.totals.wall_s:.2f} a second"
    assert page.words.count(rate) == 2
    assert page.words.count("a second") == 2


def test_who_ran_it_is_said(page: Page, analysis: CampaignAnalysis) -> None:
    (only,) = analysis.runs
    assert f"{only.host}, {only.user}" in page.words
    assert page.words.count(only.command) == 2


def test_failures_are_told_by_outcome_and_example(page: Page, analysis: CampaignAnalysis) -> None:
    for group in analysis.summary.failures:
        assert f"trial {group.example.sequence}," in page.words
        assert group.example.candidate.id in page.words


def test_the_page_carries_its_numbers(page: Page, analysis: CampaignAnalysis, tmp_path: Path) -> None:
    files = page.downloads
    assert list(files) == ["resnet-night.csv", "resnet-night.json.gz", "resnet-night.best.jsonl"]
    assert len(files["resnet-night.csv"].splitlines()) == 36
    assert json.loads(files["resnet-night.json.gz"]) == json.loads(json.dumps(as_dict(analysis.summary)))
    (tmp_path / "best.jsonl").write_text(files["resnet-night.best.jsonl"])
    assert read_best_log(tmp_path / "best.jsonl") == list(analysis.best)


def layers_of(*networks: str) -> list[str]:
    """The distinct layers of networks, as their tables have them."""
    tables = [json.loads((ROOT / "compiler" / "networks" / f"{network}.json").read_text()) for network in networks]
    return list(dict.fromkeys(layer["workload"] for table in tables for layer in table["layers"]))


@pytest.mark.parametrize(
    "keys",
    [
        [f"conv2d-u8s8-1x56x56x{64 + place}-k3x3x64-s1-p1-float.c-u8" for place in range(60)],
        pytest.param(layers_of("inception_v4", "resnet50")[:60], id="two networks"),
        pytest.param(layers_of("bert_base", "mobilenet_v2", "resnet50", "inception_v1")[:60], id="four networks"),
    ],
)
def test_a_page_of_60_layers_is_small(keys: list[str]) -> None:
    store = MemoryStore()
    layers = dict.fromkeys(keys, 4)
    store.append([campaign(layers=layers), check()])
    for place, layer in enumerate(layers):
        chosen = [candidate(tile, layer) for tile in range(64)]
        store.append([ok(64 * place + tile, 1e-3 * (1 - tile / 900), chosen=one) for tile, one in enumerate(chosen)])
        store.append([duel(chosen[0], chosen[63], 1.07)])
    html = render_html(analyze(store, "c1", {layer: LayerSize(10**8, 400_000, 40_000) for layer in layers}))
    assert html.count("<tr id=") == 60
    assert len(html.encode()) < MOST_BYTES


def test_a_campaign_without_trials_has_a_page() -> None:
    store = MemoryStore()
    store.append([campaign()])
    html = render_html(analyze(store, "c1", {}))
    for words in ("No trial failed.", "No layer has a verified schedule yet.", "No probe was timed."):
        assert words in html


def test_names_of_layers_and_changes_of_the_environment_are_shown() -> None:
    store = MemoryStore()
    store.append([replace(campaign(), names={LAYER: ("block_1/conv", "block_2/<b>add</b>")}), ok(0)])
    store.append([replace(ok(1), environment=ENVIRONMENT | {"governor": "powersave"})])
    html = render_html(analyze(store, "c1", {}))
    assert "<dd><code>block_1/conv</code>, <code>block_2/&lt;b&gt;add&lt;/b&gt;</code></dd>" in html
    assert "<h3>Changed to</h3>" in html
    assert Page(html).words.count("powersave") == 1


def test_text_from_records_can_not_become_markup() -> None:
    attack = "</script></style><script>alert(1)</script>\"><img src=x onerror=alert(1)>&'\u2028"
    store = MemoryStore()
    store.append([replace(campaign(layers={attack: 1}), network=attack, device=attack), check(device=attack)])
    chosen = [candidate(tile, attack) for tile in range(2)]
    environment = {"cpu": attack, "board": attack, attack: attack}
    exact = replace(ok(0, chosen=chosen[0]), environment=environment, device=attack)
    assert exact.measurement
    exact = replace(exact, measurement=replace(exact.measurement, observed={"probe_before_s": 1e-5}))
    bad = failed(1, error=attack, error_class=attack, chosen=chosen[1])
    store.append([exact, replace(bad, environment=environment, device=attack), replace(run(), command=attack)])
    html = render_html(analyze(store, "c1", {attack: LayerSize(100, 10, 10)}))
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("<script>") == html.count("</script>") == html.count("</style>") == 1
    assert not [found for found in Page(html).attributes if found[1].startswith("on")]
    assert attack.split("\u2028")[0] in Page(html).words


def test_a_spreadsheet_takes_no_name_for_a_formula() -> None:
    store = MemoryStore()
    key = "=cmd|'/C calc'!A0"
    store.append([campaign(layers={key: 1}), ok(0, chosen=candidate(0, key))])
    assert f",'{key},'{key},1," in Page(render_html(analyze(store, "c1", {}))).downloads["c1.csv"]


def test_equal_input_gives_an_equal_page(page: Page) -> None:
    assert render_html(sample()) == page.html


def test_a_page_is_written_whole(tmp_path: Path, analysis: CampaignAnalysis, page: Page) -> None:
    write_html(tmp_path / "page.html", analysis)
    assert (tmp_path / "page.html").read_text() == page.html
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(ExportError, match="can't be written"):
        write_html(tmp_path / "none" / "page.html", analysis)

"""One best and one default of a layer, wherever a page tells them: each place is read from the page itself."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import pytest

from int8tune.results.analysis.campaign import analyze
from int8tune.results.memory import MemoryStore
from int8tune.results.report.format import microseconds, milliseconds
from int8tune.results.report.html import render_html
from tests.support.program.pages import Page
from tests.support.program.results_samples import fill, sample_sizes


@pytest.fixture(scope="module")
def page() -> Page:
    store = MemoryStore()
    fill(store)
    return Page(render_html(analyze(store, "resnet-night", sample_sizes())))


@pytest.fixture(scope="module")
def layers(page: Page) -> list[dict[str, Any]]:
    """The layers of the JSON that the page carries, with which all else is compared."""
    found: list[dict[str, Any]] = json.loads(page.downloads["resnet-night.json.gz"])["layers"]
    return found


def seconds(layer: Mapping[str, Any], which: str) -> float | None:
    found: float | None = layer[which]["median_s"] if layer[which] else None
    return found


def test_the_table_s_times_are_the_json_s(page: Page, layers: list[dict[str, Any]]) -> None:
    rows = re.findall(r'<tr id="layer-\d+".*?</tr>', page.html, flags=re.DOTALL)
    shown = [re.findall(r'<td class="n" data-v="(.*?)">(.*?)</td>', row)[:2] for row in rows]
    times = [[seconds(layer, which) for which in ("default", "best")] for layer in layers]
    assert shown == [[("" if s is None else f"{s:.6g}", microseconds(s)) for s in pair] for pair in times]


def test_the_csv_s_times_are_the_json_s(page: Page, layers: list[dict[str, Any]]) -> None:
    rows = list(csv.DictReader(page.downloads["resnet-night.csv"].splitlines()))
    for which in ("default", "best"):
        found = [float(row[f"{which}.median_s"]) if row[f"{which}.median_s"] else None for row in rows]
        assert found == [seconds(layer, which) for layer in layers]


def test_the_small_charts_captions_are_the_json_s(page: Page, layers: list[dict[str, Any]]) -> None:
    captions = re.findall(r"<b>(\d+)</b> [^<]*<small>(\S+) &rarr; (\S+) µs", page.html)
    expected = [
        (str(number), microseconds(seconds(layer, "default")), microseconds(seconds(layer, "best")))
        for number, layer in enumerate(layers, start=1)
        if layer["best"]
    ]
    assert len(expected) > 30
    assert captions == expected


def test_the_headline_and_the_end_of_the_search_are_the_layers_sum(page: Page, layers: list[dict[str, Any]]) -> None:
    network = milliseconds(math.fsum(layer["count"] * (seconds(layer, "best") or 0.0) for layer in layers))
    assert re.findall(r'<dd class="figure">(.*?)</dd>', page.html)[0] == f"{network} ms"
    ends = re.findall(r"at first, (\S+) ms in the end", page.html)
    assert ends == [network, network]

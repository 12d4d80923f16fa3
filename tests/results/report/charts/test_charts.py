"""Scales, labels and marks."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from int8tune.results.analysis.roofline import MemoryLevel, Roofline
from int8tune.results.report.charts.axes import frame
from int8tune.results.report.charts.bars import Part, bar, interval_bar
from int8tune.results.report.charts.histogram import histogram_chart
from int8tune.results.report.charts.labels import place_labels
from int8tune.results.report.charts.pareto import Point, pareto_chart
from int8tune.results.report.charts.roofline import Dot, roofline_chart
from int8tune.results.report.charts.scale import Linear, Logarithmic, padded, tick_label
from int8tune.results.report.charts.series import series_chart
from int8tune.results.report.charts.svg import dots, number, steps, tag, width_of


def test_a_linear_scale_maps_its_ends() -> None:
    scale = Linear(10, 20, 100, 0)
    assert [scale(value) for value in (10, 15, 20)] == [100, 50, 0]
    assert Linear(3, 3, 7, 9)(3) == 7


@pytest.mark.parametrize(
    ("low", "high", "count", "ticks"),
    [
        (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.79, 0.85, 5, [0.8, 0.82, 0.84]),
        (-12, 31, 4, [0, 20]),
        (0, 7.5, 9, [0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 5, 3, [5]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, count: int, ticks: list[float]) -> None:
    assert Linear(low, high, 0, 100).ticks(count) == pytest.approx(ticks)


def test_a_factor_is_as_wide_anywhere_on_a_logarithmic_scale() -> None:
    scale = Logarithmic(1, 1000, 0, 300)
    assert [scale(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert scale.ticks() == pytest.approx([1, 3, 10, 30, 100, 300, 1000])
    assert Logarithmic(1, 1e6, 0, 1).ticks() == pytest.approx([10**power for power in range(7)])


def test_values_are_padded_and_written_short() -> None:
    assert padded(0, 10, 0.1) == (-1, 11)
    assert padded(5, 5) == (4.75, 5.25)
    assert padded(0, 0) == (-1, 1)
    assert [tick_label(value) for value in (0, 1200, 0.25, 3e9, 2e-5)] == ["0", "1,200", "0.25", "3e9", "2e-5"]


def test_coordinates_are_short() -> None:
    assert [number(value) for value in (1.0, 0.04, -0.04, 12.345, -3)] == ["1", "0", "0", "12.3", "-3"]


def test_text_is_escaped_and_attributes_are_named() -> None:
    found = ElementTree.fromstring(tag("g", "<b>&", tag("title", '"'), stroke_width=2, class_='a"b', x=None))
    assert (found.text, found[0].text) == ("<b>&", '"')
    assert found.attrib == {"stroke-width": "2", "class": 'a"b'}


def test_dots_and_steps_are_one_path() -> None:
    assert 'd="m1 2h0m3-4h0"' in dots([(1, 2), (4, -2)], "trial")
    assert 'd="M0 9H5V4H20"' in steps([(0, 9), (3, 9), (5, 4)], 20, "curve")
    assert 'd=""' in steps([], 20, "curve")


def test_bars_are_shares_of_their_place() -> None:
    found = ElementTree.fromstring(bar([Part(0, 0.25, "best"), Part(0.25, 0.5, "saved")], [0.125]))
    assert [(piece.get("x"), piece.get("width")) for piece in found] == [("0%", "25%"), ("25%", "25%"), ("12.5%", "1")]
    assert found.get("aria-hidden") == "true"
    line, span, dot = ElementTree.fromstring(interval_bar(0.4, 0.5, 0.7, 0.3))
    assert (line.get("x"), span.get("x"), span.get("width"), dot.get("cx")) == ("30%", "40%", "30%", "50%")


def test_labels_cover_neither_points_nor_each_other() -> None:
    points = [(str(place), 100 + place % 5 * 9.0, 100 + place // 5 * 9.0, 4.0) for place in range(25)]
    labels = [ElementTree.fromstring(label) for label in place_labels(points, frame(400, 300))]
    assert labels
    boxes = []
    for label in labels:
        left, bottom = float(label.get("x", "")), float(label.get("y", ""))
        boxes.append((left, bottom - 8.8, left + width_of(label.text or "", 11), bottom))
    boxes += [(x - r, y - r, x + r, y + r) for _, x, y, r in points]
    for one, other in combinations(boxes, 2):
        if len(boxes) - boxes.index(one) > len(points):
            apart = one[2] <= other[0] + 0.1 or other[2] <= one[0] + 0.1
            assert apart or one[3] <= other[1] + 0.1 or other[3] <= one[1] + 0.1


def test_a_dot_under_its_roof_is_drawn_under_its_roof() -> None:
    levels = (MemoryLevel("L1", 1e11, 32_768), MemoryLevel("memory", 1e10, None))
    roofline = Roofline(1e12, levels, True)
    chart = ElementTree.fromstring(roofline_chart(roofline, [Dot(1, "a layer", 10, 5e10, 9e10, 1.0)], 800, 400))
    circles = list(chart.iter("circle"))
    assert [one.get("class") for one in circles] == ["ring", "dot"]
    ring, dot = (float(one.get("cy", "")) for one in circles)
    places = [[float(end.split(" ")[1]) for end in (one.get("d") or "")[1:].split("L")] for one in _roofs(chart)]
    (peak,) = (start for start, end in places if start == end)
    assert peak < dot < ring


def _roofs(chart: ElementTree.Element) -> list[ElementTree.Element]:
    return [path for path in chart.iter("path") if path.get("class") == "roof"]


def test_charts_of_schemes_are_well_formed() -> None:
    point = Point("1", "<max>", (1.0, 0.9, 1.1), (90.0, 88.0, 92.0), is_front=True)
    other = Point("f1", "float", (2.0, 2.0, 2.0), (91.0, 89.0, 93.0), is_reference=True)
    charts = [
        pareto_chart([point, other], ("ms", "top-1, %"), 400, 300),
        series_chart({"a": (1.0, None, 3.0), "<b>": ()}, ("layer", "dB"), 400, 300),
        series_chart({}, ("layer", "dB"), 400, 300),
        histogram_chart(-1.0, 1.0, [0, 5, 1000, 3], [(-0.5, 0.5), None], "<values>"),
        histogram_chart(0.0, 0.0, [0], [], "nothing"),
    ]
    assert all(ElementTree.fromstring(chart).get("aria-label") for chart in charts)

"""The page that compares ways to quantize a model."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

from int8tune.results.report.schemes import render_schemes, render_schemes_markdown, schemes_as_dict
from int8tune.results.report.schemes_page import render_schemes_page
from int8tune.results.schemes import (
    Answers,
    BoardRow,
    BoardTable,
    Details,
    FloatRow,
    SchemeRow,
    SchemeSummary,
    TensorHistogram,
)
from int8tune.results.shares import PairedTest, Share
from int8tune.results.stats import MedianTime, Speedup
from tests.support.program.pages import Page


def schemes(count: int = 6, model: str = "small.onnx") -> SchemeSummary:
    """Several schemes, each slower than the one before, and more right."""
    names = [f"scheme {place}" for place in range(count)]
    rows = [_row(name, place) for place, name in enumerate(names)]
    failed = SchemeRow("broken", "int8tune", failure="it wrote no model")
    histograms = tuple(
        TensorHistogram(f"tensor{place}", "Conv", -1.0, 3.0, tuple(range(128)), dict.fromkeys(names[:3], (-0.5, 2.0)))
        for place in range(5)
    )
    along = {name: tuple(40.0 - step - place for step in range(5)) for place, name in enumerate(names)}
    details = Details(histograms, tuple(f"tensor{place}" for place in range(5)), along, 8)
    floats = (FloatRow("onnxruntime", "1.30", MedianTime(5e-3, 4.9e-3, 5.1e-3)), FloatRow("litert", "2", None, "none"))
    answers = Answers(Share(182, 200), None)
    return SchemeSummary(model, "a CPU", "x86-vnni", 1, 50, 200, 10_000, answers, floats, (*rows, failed), "", details)


def _row(name: str, place: int) -> SchemeRow:
    time = MedianTime(1e-3 + place * 1e-4, 0.9e-3 + place * 1e-4, 1.1e-3 + place * 1e-4)
    answers = Answers(Share(160 + place, 200), None)
    speedup = Speedup(5.0, 4.8, 5.2)
    return SchemeRow(name, "int8tune", answers, PairedTest(3, 1), Share(190, 200), 30.0, 1.5, 3000, 9000, time, speedup)


def test_the_page_has_every_scheme_and_every_tensor() -> None:
    page = Page(render_schemes_page(schemes()))
    for words in (
        "scheme 0",
        "scheme 5",
        "float, onnxruntime 1.30",
        "tensor4",
        "broken : it wrote no model",
        "top-1, %",
    ):
        assert words in page.words
    (content,) = page.downloads.values()
    assert json.loads(content)["histograms"][0]["counts"] == list(range(128))
    assert all(ElementTree.fromstring(chart).tag == "svg" for chart in page.charts)
    assert len(page.html) < 100_000


def test_without_labels_schemes_are_told_by_their_signal() -> None:
    found = schemes()
    rows = tuple(replace(row, answers=Answers(None, None)) for row in found.rows)
    page = Page(render_schemes_page(replace(found, answers=Answers(None, None), rows=rows)))
    assert "SQNR, dB" in page.words
    assert "its fastest time is 5.000 ms" in page.words


def test_a_page_without_times_and_details_says_so() -> None:
    found = replace(schemes(0), floats=(), details=Details())
    assert "No scheme has a time." in Page(render_schemes_page(found)).words


BOARDS = (
    BoardTable(
        "pi-1",
        "Cortex-A72",
        "arm-neon",
        4,
        True,
        (
            BoardRow("scheme 0", MedianTime(0.02, 0.019, 0.021), Speedup(1.0, 1.0, 1.0)),
            BoardRow("scheme 1", MedianTime(0.04, 0.039, 0.041), Speedup(0.5, 0.49, 0.51)),
            BoardRow("broken", None, None, "wrong_answer: case 0: 1 of 64 values differ"),
        ),
    ),
    BoardTable("a53", "Cortex-A53", "arm-neon", 1, False, (BoardRow("scheme 0", None, None),)),
)


def test_boards_have_tables_of_their_own() -> None:
    found = replace(schemes(2), boards=BOARDS)
    titles = (
        "on pi-1: Cortex-A72 (arm-neon), 4 threads; outputs compared bit for bit there; speedups are over scheme 0",
        "on a53: Cortex-A53 (arm-neon), 1 thread; outputs compared bit for bit there; its times are no measurements",
    )
    page, lines = Page(render_schemes_page(found)), render_schemes(found).splitlines()
    for title in titles:
        assert title in page.words
        assert title in lines
    assert "broken : wrong_answer: case 0: 1 of 64 values differ" in page.words
    assert lines[-3:] == ["", "ms [95 %]  speedup [95 %]  scheme", "    exact               -  scheme 0"]
    assert "40.000 [39.000, 41.000]  0.50 [0.49, 0.51]  scheme 1" in lines
    assert "                      -                  -  broken" in lines
    assert r"| 40.000 \[39.000, 41.000\] | 0.50 \[0.49, 0.51\] | scheme 1 |" in render_schemes_markdown(found)
    pi, a53 = schemes_as_dict(found)["boards"]
    assert (pi["rows"][1]["time"]["estimate_s"], a53["is_measured"]) == (0.04, False)


def test_names_can_not_become_markup() -> None:
    attack = '</script><script>alert(1)</script>"><img src=x>'
    found = schemes(model=attack)
    histogram = replace(found.details.histograms[0], name=attack, producer=attack, kept={attack: (0.0, 1.0)})
    details = Details((histogram,), (attack,), {attack: (1.0,)}, 1)
    board = BoardTable(attack, attack, attack, 1, True, (BoardRow(attack, None, None, attack),))
    html = render_schemes_page(replace(found, details=details, disturbance=attack, boards=(board,)))
    assert "<script>alert" not in html
    assert "<img" not in html

"""A campaign as one web page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from int8tune.results.atomic import write_atomic
from int8tune.results.progress import Progress
from int8tune.results.report import format
from int8tune.results.report.words import meanings
from int8tune.results.summary import CampaignSummary, TimedSchedule

# View box of the small curves in the overview of the searches.
CURVE_WIDTH = 100.0
CURVE_HEIGHT = 28.0


def page_environment() -> Environment:
    """What the pages are rendered with: their templates, and numbers as people read them."""
    environment = Environment(
        loader=PackageLoader("int8tune.results", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        microseconds=format.microseconds,
        kilocycles=format.kilocycles,
        milliseconds=format.milliseconds,
        giga=format.giga,
        percent=format.percent,
        factor=format.factor,
        interval=format.interval,
    )
    return environment


def plotting() -> Markup:
    """The library that draws the charts of a page."""
    return Markup(get_plotlyjs())


def render_html(summary: CampaignSummary, progress: Sequence[Progress]) -> str:
    """The page; equal input gives equal text."""
    numbers = {row.workload: number for number, row in enumerate(summary.layers, start=1)}
    unit, scale = "GOP/s", 1e9
    in_words: Callable[[float], str] = format.giga
    if summary.estimated_by:
        unit, scale, in_words = "operations per cycle", 1.0, format.factor
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            summary=summary,
            meaning=meanings(summary),
            numbers=numbers,
            unit=unit,
            curves=[_curve(numbers, summary, one, in_words) for one in progress],
            data={
                "unit": unit,
                "layers": _layers(summary),
                "searches": [_search(numbers, one, scale) for one in progress],
            },
            plotly=plotting(),
        )
    )


def write_html(path: Path, summary: CampaignSummary, progress: Sequence[Progress]) -> None:
    """Write the page, whole or not at all.

    Raises:
        ExportError: the file can't be written.
    """
    write_atomic(path, render_html(summary, progress))


def _layers(summary: CampaignSummary) -> list[dict[str, Any]]:
    """What the chart of the layers draws."""
    return [
        {
            "number": number,
            "label": row.label,
            "verdict": row.verdict.value,
            "speedup": format.interval(row.speedup),
            "default": _point(row.default),
            "best": _point(row.best),
        }
        for number, row in enumerate(summary.layers, start=1)
    ]


def _point(timed: TimedSchedule | None) -> dict[str, Any] | None:
    if timed is None:
        return None
    rate = timed.ops_per_cycle if timed.ops_per_s is None else timed.ops_per_s / 1e9
    if rate is None:
        return None
    share = None if timed.peak_share is None else _rounded(timed.peak_share * 100)
    return {"rate": _rounded(rate), "percent": share, "trial": timed.sequence}


def _search(numbers: dict[str, int], progress: Progress, scale: float) -> dict[str, Any]:
    """What the chart of one layer's search draws: one value per trial."""
    return {
        "number": numbers[progress.workload],
        "trials": [step.sequence for step in progress.steps],
        "candidates": [step.candidate_id for step in progress.steps],
        "outcomes": [step.outcome.value for step in progress.steps],
        "rates": [_scaled(step.rate, scale) for step in progress.steps],
        "best": [_scaled(step.best_rate, scale) for step in progress.steps],
    }


def _curve(
    numbers: dict[str, int], summary: CampaignSummary, progress: Progress, rate_in_words: Callable[[float], str]
) -> dict[str, Any]:
    """One entry of the overview: the best rate so far as an SVG polyline, from 0 at the bottom."""
    number = numbers[progress.workload]
    rates = [step.best_rate for step in progress.steps]
    known = [rate for rate in rates if rate is not None]
    width = CURVE_WIDTH / max(len(rates) - 1, 1)
    points = [
        f"{place * width:.1f},{(1 - rate / known[-1]) * CURVE_HEIGHT:.1f}"
        for place, rate in enumerate(rates)
        if rate is not None
    ]
    return {
        "number": number,
        "label": summary.layers[number - 1].label,
        "points": " ".join(points),
        "start": points[0].split(",")[0] if points else "",
        "first": rate_in_words(known[0]) if known else None,
        "best": rate_in_words(known[-1]) if known else None,
    }


def _scaled(rate: float | None, scale: float) -> float | None:
    return None if rate is None else _rounded(rate / scale)


def _rounded(value: float) -> float:
    """Four significant digits: a page of many trials stays small."""
    return float(f"{value:.4g}")

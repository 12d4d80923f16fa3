"""Schemes as one web page that needs no other file and no network."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from int8tune.results.report.document import page_environment
from int8tune.results.report.schemes import HEAD, float_cells, meanings, scheme_cells
from int8tune.results.schemes import SchemeRow, SchemeSummary, TensorHistogram
from int8tune.results.shares import Share
from int8tune.results.stats import MedianTime

# View box of the small curves in the overview.
CURVE_WIDTH = 100.0
CURVE_HEIGHT = 28.0


def render_schemes_page(summary: SchemeSummary) -> str:
    """The page; equal input gives equal text."""
    front = {id(row) for row in summary.front}
    rows = [float_cells(summary, row) for row in summary.floats]
    rows += [scheme_cells(row, is_best=id(row) in front) for row in summary.rows]
    return (
        page_environment()
        .get_template("schemes.html.j2")
        .render(
            summary=summary,
            head=HEAD,
            rows=rows,
            meanings=meanings(summary),
            outlines=[_outline(each) for each in summary.details.histograms],
            data={
                "quality": "top-1, %" if summary.has_labels else "SQNR, dB",
                "floats": [_float_point(summary, row.runtime, row.time) for row in summary.floats if row.time],
                "schemes": [_point(summary, row) for row in summary.rows if row.time],
                "front": [row.scheme for row in summary.front],
                "tensors": summary.details.tensors,
                "along": [{"scheme": name, "db": _rounded(values)} for name, values in _along(summary)],
                "histograms": [_histogram(each) for each in summary.details.histograms],
            },
            plotly=Markup(get_plotlyjs()),
        )
    )


def _along(summary: SchemeSummary) -> Any:
    return (summary.details.along_db or {}).items()


def _point(summary: SchemeSummary, row: SchemeRow) -> dict[str, Any]:
    """What the chart of accuracy against time draws: values with the ends of their intervals."""
    assert row.time is not None
    quality = _percent(row.answers.top1) if summary.has_labels else _single(row.sqnr_db)
    return {"name": row.scheme, "ms": _ms(row.time), "quality": quality}


def _float_point(summary: SchemeSummary, runtime: str, time: MedianTime) -> dict[str, Any]:
    return {"name": f"float, {runtime}", "ms": _ms(time), "quality": _percent(summary.answers.top1)}


def _percent(share: Share | None) -> list[float] | None:
    return None if share is None else [round(each * 100, 3) for each in (share.estimate, share.low, share.high)]


def _single(value: float | None) -> list[float] | None:
    return None if value is None else [round(value, 2)] * 3


def _ms(time: MedianTime) -> list[float]:
    return [float(f"{each * 1e3:.5g}") for each in (time.estimate_s, time.low_s, time.high_s)]


def _rounded(values: tuple[float | None, ...]) -> list[float | None]:
    return [None if value is None else round(value, 2) for value in values]


def _histogram(values: TensorHistogram) -> dict[str, Any]:
    return {
        "name": values.name,
        "producer": values.producer,
        "low": values.low,
        "high": values.high,
        "counts": values.counts,
        "kept": [{"scheme": name, "ends": [float(f"{end:.5g}") for end in ends]} for name, ends in values.kept.items()],
    }


def _outline(values: TensorHistogram) -> dict[str, Any]:
    """One entry of the overview: the logarithm of counts as an SVG polyline."""
    width = CURVE_WIDTH / max(len(values.counts) - 1, 1)
    logarithms = [math.log1p(count) for count in values.counts]
    most = max(logarithms) or 1.0
    points = [f"{place * width:.1f},{(1 - value / most) * CURVE_HEIGHT:.1f}" for place, value in enumerate(logarithms)]
    return {"name": values.name, "producer": values.producer, "points": " ".join(points)}

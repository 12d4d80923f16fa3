"""Schemes as one web page that needs no other file and no network."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from int8tune.results.report.charts.histogram import histogram_chart
from int8tune.results.report.charts.pareto import Point, pareto_chart
from int8tune.results.report.charts.series import series_chart, series_class
from int8tune.results.report.document import Figure, download, render_document
from int8tune.results.report.schemes import (
    BOARD_HEAD,
    HEAD,
    Cells,
    board_cells,
    board_title,
    float_cells,
    meanings,
    scheme_cells,
)
from int8tune.results.schemes import SchemeRow, SchemeSummary
from int8tune.results.shares import Share
from int8tune.results.stats import MedianTime

WIDE, NARROW = (860.0, 380.0), (358.0, 320.0)
LOW_WIDE, LOW_NARROW = (860.0, 320.0), (358.0, 280.0)


def render_schemes_page(summary: SchemeSummary) -> str:
    """The page; equal input gives equal text."""
    return render_document(
        "schemes.html.j2",
        summary=summary,
        head=HEAD,
        rows=_rows(summary),
        meanings=meanings(summary),
        pareto=_pareto(summary),
        board_head=BOARD_HEAD,
        boards=[(board, board_title(board), list(map(board_cells, board.rows))) for board in summary.boards],
        fastest_float=summary.floats[0].time if summary.floats else None,
        along=_along(summary),
        histograms=_histograms(summary),
        series={name: series_class(place) for place, name in enumerate(_names(summary))},
        downloads=[_details(summary)],
    )


def _rows(summary: SchemeSummary) -> list[tuple[str, Cells]]:
    """The rows of the table, each with the name of its point."""
    front = {id(row) for row in summary.front}
    rows = [(_float_name(place), float_cells(summary, row)) for place, row in enumerate(summary.floats)]
    schemes = enumerate(summary.rows, start=1)
    return rows + [(str(place), scheme_cells(row, is_best=id(row) in front)) for place, row in schemes]


def _float_name(place: int) -> str:
    return f"f{place + 1}"


def _pareto(summary: SchemeSummary) -> Figure | None:
    """None where nothing has a time."""
    front = {id(row) for row in summary.front}
    points = []
    for place, row in enumerate(summary.rows, start=1):
        quality = _quality(summary, row)
        if row.time is not None and quality is not None:
            points.append(Point(str(place), row.scheme, _ms(row.time), quality, is_front=id(row) in front))
    if not points:
        return None
    if summary.answers.top1 is not None:
        points += [
            Point(
                _float_name(place),
                f"float, {row.runtime}",
                _ms(row.time),
                _percent(summary.answers.top1),
                is_reference=True,
            )
            for place, row in enumerate(summary.floats)
            if row.time
        ]
    titles = ("ms", "top-1, %" if summary.has_labels else "SQNR, dB")
    return Figure(pareto_chart(points, titles, *WIDE), pareto_chart(points, titles, *NARROW))


def _quality(summary: SchemeSummary, row: SchemeRow) -> tuple[float, float, float] | None:
    if summary.has_labels:
        return _percent(row.answers.top1) if row.answers.top1 else None
    return (row.sqnr_db,) * 3 if row.sqnr_db is not None else None


def _percent(share: Share) -> tuple[float, float, float]:
    return share.estimate * 100, share.low * 100, share.high * 100


def _ms(time: MedianTime) -> tuple[float, float, float]:
    return time.estimate_s * 1e3, time.low_s * 1e3, time.high_s * 1e3


def _names(summary: SchemeSummary) -> list[str]:
    """The schemes of the charts below the table, each once."""
    kept = [name for each in summary.details.histograms for name in each.kept]
    return list(dict.fromkeys([*(summary.details.along_db or {}), *kept]))


def _along(summary: SchemeSummary) -> Figure | None:
    found = summary.details.along_db
    if not found or not any(value is not None and math.isfinite(value) for line in found.values() for value in line):
        return None
    lines = {name: found.get(name, ()) for name in _names(summary)}
    titles = ("layer", "SQNR, dB")
    return Figure(series_chart(lines, titles, *LOW_WIDE), series_chart(lines, titles, *LOW_NARROW))


def _histograms(summary: SchemeSummary) -> list[dict[str, Any]]:
    names = _names(summary)
    found = []
    for place, each in enumerate(summary.details.histograms, start=1):
        # Lines are drawn as the series of their scheme: one that keeps nothing of this tensor has none.
        kept = [each.kept.get(name) for name in names]
        chart = histogram_chart(each.low, each.high, each.counts, kept, f"Values of tensor {place}")
        found.append({"name": each.name, "producer": each.producer, "chart": chart})
    return found


def _details(summary: SchemeSummary) -> dict[str, str]:
    """What the charts are drawn from, as a file."""
    return download(json.dumps(asdict(summary.details)), "application/json", "details.json")

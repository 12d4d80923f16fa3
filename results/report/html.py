"""A campaign as one web page that needs no other file and no network, and prints as a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from int8tune.results.analysis.campaign import CampaignAnalysis
from int8tune.results.atomic import write_atomic
from int8tune.results.best_log import best_log_text
from int8tune.results.comparison.compare import Comparison
from int8tune.results.record import Outcome
from int8tune.results.report import campaign_views as views_of
from int8tune.results.report import campaign_words as words
from int8tune.results.report.board_words import board_in_words, boards_in_words, unwell
from int8tune.results.report.comparison_page import comparison_view
from int8tune.results.report.document import download, render_document
from int8tune.results.report.layer_table import report_rows
from int8tune.results.report.tables import csv_text
from int8tune.results.report.text import as_dict
from int8tune.results.report.words import meanings

SECTIONS = (
    ("time", "Where the time goes"),
    ("roofline", "What bounds the layers"),
    ("gains", "Where the gain comes from"),
    ("peers", "Beside other libraries"),
    ("layers", "Layers"),
    ("search", "The search"),
    ("tuning", "Where tuning time went"),
    ("health", "Health over time"),
    ("failures", "Failed trials"),
    ("provenance", "Provenance and data"),
)
MOST_ENVIRONMENTS = 4


def render_html(analysis: CampaignAnalysis, since: Comparison | None = None) -> str:
    """The page; equal input gives equal text.

    Args:
        since: what changed since earlier results; it is the first section.
    """
    summary, views = analysis.summary, views_of.layer_views(analysis)
    return render_document(
        "campaign.html.j2",
        sections=SECTIONS if since is None else (("against", "What changed"), *SECTIONS),
        against=None if since is None else comparison_view(since),
        campaign=summary.campaign,
        summary=summary,
        network=analysis.network,
        time=analysis.time,
        health=analysis.health,
        boards=summary.boards,
        boards_said=boards_in_words(summary.boards),
        unwell=[(board.name, board_in_words(board)) for board in unwell(summary.boards)],
        failures=analysis.failures,
        peers=analysis.peers,
        runs=analysis.runs,
        views=views,
        ok=Outcome.OK,
        numbers={view.row.workload: view.number for view in views},
        meaning=meanings(summary),
        downloads=downloads(analysis, since),
        version=_version(),
        **_head(analysis),
        **_drawn(analysis, views),
        **_environments(summary.environments),
    )


def write_html(path: Path, analysis: CampaignAnalysis) -> None:
    """Write the page, whole or not at all.

    Raises:
        ExportError: the file can't be written.
    """
    write_atomic(path, render_html(analysis))


def downloads(analysis: CampaignAnalysis, since: Comparison | None = None) -> list[dict[str, str]]:
    """The files that a page carries."""
    name = analysis.summary.campaign.name
    summary = json.dumps(as_dict(analysis.summary), allow_nan=False, separators=(",", ":"))
    return [
        download(csv_text(report_rows(analysis, since)), "text/csv", f"{name}.csv"),
        download(summary, "application/json", f"{name}.json"),
        download(best_log_text(analysis.best), "application/jsonl", f"{name}.best.jsonl"),
    ]


def _head(analysis: CampaignAnalysis) -> dict[str, Any]:
    return {
        "lead": words.lead(analysis),
        "tiles": words.tiles(analysis, views_of.unit_of(analysis)),
        "facts": words.facts(analysis),
        "command": analysis.runs[-1].command if analysis.runs else "",
    }


def _drawn(analysis: CampaignAnalysis, views: Sequence[views_of.LayerView]) -> dict[str, Any]:
    unit = views_of.unit_of(analysis)
    return {
        "unit": unit,
        "time_rows": views_of.time_rows(views, unit),
        "roofline": views_of.roofline_figure(analysis, views),
        "bounds": words.bounds(views),
        "knows_sizes": analysis.roofline is None or analysis.roofline.knows_sizes,
        "gain_rows": views_of.gain_rows(analysis, views, unit),
        "peer_rows": views_of.peer_rows(analysis, views),
        "others_benched": sum(not layer.is_best for layer in analysis.peers.layers),
        "course": views_of.course_figure(analysis, unit),
        "multiples": views_of.multiples(analysis, views, unit),
        "place_rows": views_of.place_rows(analysis),
        "health_figures": views_of.health_figures(analysis),
        "boards_figure": views_of.boards_figure(analysis),
        "most_boards": views_of.MOST_BOARDS,
        "failure_rows": views_of.failure_rows(analysis),
    }


def _environments(found: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The first environment whole; of the later ones what is not as in the one before."""
    changes = [
        {name: value for name, value in after.items() if before.get(name) != value} for before, after in pairwise(found)
    ]
    shown = [*map(dict, found[:1]), *changes]
    return {"environments": shown[:MOST_ENVIRONMENTS], "more_environments": len(shown[MOST_ENVIRONMENTS:])}


def _version() -> str:
    try:
        return version("int8tune")
    except PackageNotFoundError:
        return "unknown"

"""A comparison as a web page, and as a section of a campaign's."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from int8tune.results.comparison.compare import Change, ComparedLayer, Comparison
from int8tune.results.report.charts.bars import interval_bar
from int8tune.results.report.comparison import counts_in_words, side_in_words, time_in_words, title_of
from int8tune.results.report.document import render_document
from int8tune.results.report.format import interval, kilocycles, milliseconds

# What changed comes first; the widest bars are of this factor, or of the largest change where that is less.
_ORDER = (Change.SLOWER, Change.FASTER, Change.ONLY_A, Change.ONLY_B, Change.NOT_TIMED, Change.UNCHANGED)
_WIDEST, _NARROWEST = 2.0, 1.1


def render_comparison_page(comparison: Comparison) -> str:
    """The page; equal input gives equal text."""
    return render_document("comparison.html.j2", title=title_of(comparison), against=comparison_view(comparison))


def comparison_view(comparison: Comparison) -> dict[str, Any]:
    """What `sections/against.html.j2` draws."""
    ends = [layer.ratio.estimate for layer in comparison.layers if layer.ratio]
    largest = max((max(ratio, 1 / ratio) for ratio in ends), default=_NARROWEST)
    span = math.log(min(max(largest, _NARROWEST), _WIDEST) * 1.1)
    ordered = sorted(comparison.layers, key=lambda layer: _ORDER.index(layer.change))
    differing = "; ".join(f"{name} {pair[0]} and {pair[1]}" for name, pair in comparison.differences.items())
    sides = [("A, before", side_in_words(comparison.a)), ("B, now", side_in_words(comparison.b))]
    return {
        "change": comparison.network.change.value,
        "network": _network(comparison),
        "counts": counts_in_words(comparison),
        "sides": [*sides, *([("differs", differing)] if differing else [])],
        "unit": "kcyc" if comparison.is_estimated else "us",
        "rows": [_row(comparison, layer, span) for layer in ordered],
        "notes": comparison.notes,
    }


def _network(comparison: Comparison) -> str:
    network = comparison.network
    unit, in_words = ("thousand cycles", kilocycles) if comparison.is_estimated else ("ms", milliseconds)
    times = f"{in_words(network.a)} {unit} before, {in_words(network.b)} now"
    return f"{times}: before / now {interval(network.ratio)}, {network.runs} of {network.all_runs} layer runs"


def _row(comparison: Comparison, layer: ComparedLayer, span: float) -> dict[str, Any]:
    return {
        "label": layer.label,
        "count": layer.count,
        "a": time_in_words(comparison, layer.a),
        "b": time_in_words(comparison, layer.b),
        "ratio": interval(layer.ratio),
        "bar": _bar(layer, span),
        "change": layer.change.value,
        "why": layer.why,
    }


def _bar(layer: ComparedLayer, span: float) -> Markup | str:
    """The ratio with its interval, 1 in the middle, on a logarithmic axis."""
    if layer.ratio is None:
        return ""
    low, middle, high = (
        min(max((math.log(end) / span + 1) / 2, 0.0), 1.0)
        for end in (layer.ratio.low, layer.ratio.estimate, layer.ratio.high)
    )
    return interval_bar(low, middle, high, 0.5)

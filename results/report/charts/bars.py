"""Bars of one row of a list or table; they are as wide as their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from int8tune.results.report.charts.svg import tag

HEIGHT = 12.0


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar, from `start` to `end` as shares of its whole place; `kind` is its class."""

    start: float
    end: float
    kind: str


def bar(parts: Sequence[Part], cuts: Sequence[float] = ()) -> Markup:
    """One row of pieces; `cuts` are shares at which it is divided. Numbers stand beside it: screen readers skip it."""
    pieces = [
        tag(
            "rect",
            x=_percent(part.start),
            width=_percent(max(part.end - part.start, 0.002)),
            height=HEIGHT,
            class_=part.kind,
        )
        for part in parts
    ]
    pieces += [tag("rect", x=_percent(cut), width=1, height=HEIGHT, class_="cut") for cut in cuts]
    return tag("svg", *pieces, class_="bar", width="100%", height=HEIGHT, aria_hidden="true")


def interval_bar(low: float, estimate: float, high: float, reference: float) -> Markup:
    """An estimate with its interval, and a line where neither is faster; all as shares of the place."""
    middle = HEIGHT / 2
    parts = [
        tag("rect", x=_percent(reference), width=1, height=HEIGHT, class_="reference"),
        tag("rect", x=_percent(low), width=_percent(max(high - low, 0.002)), y=middle - 1, height=2, class_="interval"),
        tag("circle", cx=_percent(estimate), cy=middle, r=4, class_="best"),
    ]
    return tag("svg", *parts, class_="bar", width="100%", height=HEIGHT, aria_hidden="true")


def _percent(share: float) -> str:
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"

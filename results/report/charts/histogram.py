"""How often values occur, on a logarithmic scale, and the ends of what is kept of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from int8tune.results.report.charts.scale import Linear, tick_label
from int8tune.results.report.charts.series import series_class
from int8tune.results.report.charts.svg import image, line, tag, text

WIDTH, HEIGHT = 220.0, 92.0
MOST_PARTS = 110


def histogram_chart(
    low: float, high: float, counts: Sequence[int], kept: Sequence[tuple[float, float] | None], label: str
) -> Markup:
    """Counts of equal parts of a range; two lines for each pair of ends, drawn as its place's series; None has none."""
    together = math.ceil(len(counts) / MOST_PARTS)
    sums = [sum(counts[place : place + together]) for place in range(0, len(counts), together)]
    ends = [low, high, *(end for pair in kept if pair for end in pair)]
    x = Linear(min(ends), max(ends) if max(ends) > min(ends) else min(ends) + 1, 4, WIDTH - 4)
    y = Linear(0, math.log1p(max(sums, default=1)) or 1.0, HEIGHT - 18, 4)
    step = (high - low) / max(len(counts), 1) * together
    path = f"M{x(low):.0f} {y(0):.0f}"
    for place, count in enumerate(sums):
        path += f"V{y(math.log1p(count)):.0f}H{x(min(low + (place + 1) * step, high)):.0f}"
    parts = [
        tag("path", d=f"{path}V{y(0):.0f}Z", class_="filled"),
        line(x.start, y(0), x.end, y(0), "axis"),
        text(tick_label(float(f"{x.low:.3g}")), x.start, HEIGHT - 4, class_="small"),
        text(tick_label(float(f"{x.high:.3g}")), x.end, HEIGHT - 4, anchor="end", class_="small"),
    ]
    parts += [
        line(x(end), y(0), x(end), 4, series_class(place)) for place, pair in enumerate(kept) if pair for end in pair
    ]
    return image(WIDTH, HEIGHT, label, parts)

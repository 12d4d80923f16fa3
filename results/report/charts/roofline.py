"""The roofline: what each layer reaches, beside what the device's memories and its peak allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from int8tune.results.analysis.roofline import Roofline
from int8tune.results.report.charts.axes import Frame, frame, x_axis, y_axis
from int8tune.results.report.charts.labels import place_labels
from int8tune.results.report.charts.scale import Logarithmic
from int8tune.results.report.charts.svg import image, line, tag, text

SMALLEST, LARGEST = 3.0, 9.0


@dataclass(frozen=True, slots=True)
class Dot:
    """One layer.

    Attributes:
        number: in the order of the network.
        title: what a pointer over it is told.
        intensity: operations per byte.
        default, best: operations per second; no ring without a default.
        share: of the network's time, which is the dot's area.
    """

    number: int
    title: str
    intensity: float
    default: float | None
    best: float
    share: float


def roofline_chart(roofline: Roofline, dots: Sequence[Dot], width: float, height: float) -> Markup:
    """Both axes are logarithmic; dots of a larger part of the network's time are larger, and come first to a label."""
    inside = frame(width, height)
    x, y = _scales(roofline, dots, inside)
    parts = [
        y_axis(inside, y, y.ticks(), "GOP/s", lambda value: f"{value / 1e9:,.10g}"),
        x_axis(inside, x, x.ticks(), "operations per byte"),
        *_roofs(roofline, x, y, inside),
    ]
    largest = max((dot.share for dot in dots), default=0.0) or 1.0
    ordered = sorted(dots, key=lambda dot: -dot.share)
    radii = [max(SMALLEST, LARGEST * math.sqrt(dot.share / largest)) for dot in ordered]
    parts += [_dot(dot, radius, x, y) for dot, radius in zip(ordered, radii, strict=True)]
    places = zip(ordered, radii, strict=True)
    parts += place_labels([(str(dot.number), x(dot.intensity), y(dot.best), radius) for dot, radius in places], inside)
    label = f"Roofline: what {len(dots)} layers reach, beside the device's peak and the bandwidth of its memories"
    return image(width, height, label, parts)


def _scales(roofline: Roofline, dots: Sequence[Dot], inside: Frame) -> tuple[Logarithmic, Logarithmic]:
    intensities = [dot.intensity for dot in dots]
    rates = [rate for dot in dots for rate in (dot.default, dot.best) if rate is not None]
    x = Logarithmic(min(intensities) / 1.6, max(intensities) * 1.6, inside.left, inside.right)
    y = Logarithmic(min(rates) / 2, max(roofline.peak_ops_per_s, *rates) * 1.9, inside.bottom, inside.top)
    return x, y


def _roofs(roofline: Roofline, x: Logarithmic, y: Logarithmic, inside: Frame) -> list[Markup]:
    peak = roofline.peak_ops_per_s
    knee = min((level.bytes_per_s for level in roofline.levels), default=0.0)
    start = max(
        x.low, peak / max((level.bytes_per_s for level in roofline.levels), default=math.inf) if knee else x.low
    )
    parts = [line(x(min(start, x.high)), y(peak), inside.right, y(peak), "roof")]
    parts.append(text(f"peak {peak / 1e9:,.0f} GOP/s", inside.right, y(peak) - 6, anchor="end", class_="rooflabel"))
    angle = math.degrees(
        math.atan2((inside.bottom - inside.top) / math.log(y.high / y.low), inside.width / math.log(x.high / x.low))
    )
    for level in roofline.levels:
        low = max(x.low, y.low / level.bytes_per_s)
        high = min(x.high, peak / level.bytes_per_s)
        if low >= high:
            continue
        parts.append(line(x(low), y(low * level.bytes_per_s), x(high), y(high * level.bytes_per_s), "roof"))
        parts.append(
            _along(f"{level.name} {level.bytes_per_s / 1e9:,.0f} GB/s", x(low), y(low * level.bytes_per_s), angle)
        )
    return parts


def _along(label: str, left: float, bottom: float, angle: float) -> Markup:
    """A label on a slope, a little above the line."""
    turn = f"translate({left:.1f} {bottom:.1f}) rotate({-angle:.1f})"
    return tag("text", label, transform=turn, x=8, y=-5, class_="rooflabel")


def _dot(dot: Dot, radius: float, x: Logarithmic, y: Logarithmic) -> Markup:
    across = x(dot.intensity)
    parts = [tag("title", dot.title)]
    if dot.default is not None and abs(y(dot.default) - y(dot.best)) > 0.5:
        parts.append(line(across, y(dot.default), across, y(dot.best), "change"))
        parts.append(tag("circle", cx=across, cy=y(dot.default), r=radius, class_="ring"))
    parts.append(tag("circle", cx=across, cy=y(dot.best), r=radius, class_="dot"))
    return tag("g", *parts)

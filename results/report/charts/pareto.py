"""How good beside how slow: points with intervals, and the step line that none is better than."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from int8tune.results.report.charts.axes import frame, x_axis, y_axis
from int8tune.results.report.charts.labels import place_labels
from int8tune.results.report.charts.scale import Linear, padded
from int8tune.results.report.charts.svg import image, line, number, tag

RADIUS = 4.5


@dataclass(frozen=True, slots=True)
class Point:
    """One of what is compared; each value with the ends of its interval.

    Attributes:
        label: a short text beside it.
        title: what a pointer over it is told.
        is_front: whether no other is at least as good and as fast.
        is_reference: drawn hollow.
    """

    label: str
    title: str
    x: tuple[float, float, float]
    y: tuple[float, float, float]
    is_front: bool = False
    is_reference: bool = False


def pareto_chart(points: Sequence[Point], titles: tuple[str, str], width: float, height: float) -> Markup:
    """Points by two values, whose names are `titles`: across the less the better, up the more the better."""
    inside = frame(width, height, left=54)
    across = [end for point in points for end in point.x]
    up = [end for point in points for end in point.y]
    x = Linear(*padded(min(across), max(across)), inside.left, inside.right)
    y = Linear(*padded(min(up), max(up)), inside.bottom, inside.top)
    parts = [
        y_axis(inside, y, y.ticks(6), titles[1]),
        x_axis(inside, x, x.ticks(5 if inside.is_narrow else 9), titles[0]),
        _front([point for point in points if point.is_front], x, y),
    ]
    for point in points:
        kind = "ring" if point.is_reference else "dot" if point.is_front else "behind"
        parts += [
            line(x(point.x[1]), y(point.y[0]), x(point.x[2]), y(point.y[0]), "change"),
            line(x(point.x[0]), y(point.y[1]), x(point.x[0]), y(point.y[2]), "change"),
            tag(
                "g", tag("title", point.title), tag("circle", cx=x(point.x[0]), cy=y(point.y[0]), r=RADIUS, class_=kind)
            ),
        ]
    parts += place_labels([(point.label, x(point.x[0]), y(point.y[0]), RADIUS) for point in points], inside)
    return image(width, height, f"{titles[1]} of {len(points)} models, beside {titles[0]}", parts)


def _front(points: Sequence[Point], x: Linear, y: Linear) -> Markup:
    path = ""
    for point in sorted(points, key=lambda one: one.x[0]):
        across, up = number(x(point.x[0])), number(y(point.y[0]))
        path += f"H{across}V{up}" if path else f"M{across} {up}"
    return tag("path", d=path, class_="front")

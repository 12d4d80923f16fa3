"""The frame of a chart: its place, its axes and their titles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from int8tune.results.report.charts.scale import Linear, Logarithmic, tick_label
from int8tune.results.report.charts.svg import line, tag, text

Scale = Linear | Logarithmic
FONT = 12.0
NARROW = 420.0


@dataclass(frozen=True, slots=True)
class Frame:
    """The place within a chart where values are drawn, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def is_narrow(self) -> bool:
        """Whether it is a phone's."""
        return self.width < NARROW


def frame(width: float, height: float, left: float = 46, top: float = 24, bottom: float = 40) -> Frame:
    """The place within a chart of this size that leaves room for its axes."""
    return Frame(left, top, width - 12, height - bottom)


def x_axis(
    inside: Frame, scale: Scale, ticks: Sequence[float], title: str, label: Callable[[float], str] = tick_label
) -> Markup:
    """Ticks and values below, the axis's title under them."""
    parts = [tag("path", d=f"M{inside.left:.1f} {inside.bottom:.1f}H{inside.right:.1f}", class_="axis")]
    for value in ticks:
        parts.append(line(scale(value), inside.bottom, scale(value), inside.bottom + 4, "axis"))
        parts.append(text(label(value), scale(value), inside.bottom + 16, anchor="middle"))
    parts.append(text(title, inside.right, inside.bottom + 33, anchor="end", class_="title"))
    return tag("g", *parts)


def y_axis(
    inside: Frame, scale: Scale, ticks: Sequence[float], title: str, label: Callable[[float], str] = tick_label
) -> Markup:
    """Lines across and values at the left, the axis's title above."""
    parts: list[Markup] = []
    for value in ticks:
        parts.append(line(inside.left, scale(value), inside.right, scale(value), "grid"))
        parts.append(text(label(value), inside.left - 7, scale(value) + FONT / 3, anchor="end"))
    parts.append(text(title, 0, inside.top - 10, class_="title"))
    return tag("g", *parts)

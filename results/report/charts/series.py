"""Several lines over the same places, told apart by hue and, after four of them, by dashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from int8tune.results.report.charts.axes import frame, x_axis, y_axis
from int8tune.results.report.charts.scale import Linear, padded
from int8tune.results.report.charts.svg import image, number, tag

HUES, DASHES = 4, 4


def series_class(place: int) -> str:
    """How the line at this place is drawn."""
    return f"series hue{place % HUES} dash{place // HUES % DASHES}"


def series_chart(
    lines: Mapping[str, Sequence[float | None]], titles: tuple[str, str], width: float, height: float
) -> Markup:
    """A line for each of the names; where it has no value, it is broken."""
    inside = frame(width, height, left=54)
    values = [value for line in lines.values() for value in line if value is not None]
    count = max((len(line) for line in lines.values()), default=1)
    x = Linear(0.5, count + 0.5, inside.left, inside.right)
    y = Linear(*padded(min(values, default=0.0), max(values, default=1.0)), inside.bottom, inside.top)
    ticks = [value for value in x.ticks(6 if inside.is_narrow else 12) if value == int(value) and value >= 1]
    parts = [y_axis(inside, y, y.ticks(6), titles[1]), x_axis(inside, x, ticks, titles[0])]
    parts += [_line(line, place, x, y) for place, line in enumerate(lines.values())]
    return image(width, height, f"{titles[1]} over {count} places, of {', '.join(lines)}", parts)


def _line(values: Sequence[float | None], place: int, x: Linear, y: Linear) -> Markup:
    path, is_broken = "", True
    for position, value in enumerate(values, start=1):
        if value is not None:
            path += f"{'M' if is_broken else 'L'}{number(x(position))} {number(y(value))}"
        is_broken = value is None
    return tag("path", d=path, class_=series_class(place))

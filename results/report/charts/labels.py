"""Labels beside points, where they cover neither a point nor each other."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from int8tune.results.report.charts.axes import Frame
from int8tune.results.report.charts.svg import text, width_of

SIZE = 11.0
_Box = tuple[float, float, float, float]


def place_labels(points: Sequence[tuple[str, float, float, float]], inside: Frame) -> list[Markup]:
    """A label for each (text, x, y, radius) that has room at one of its sides; the first ones come first."""
    taken: list[_Box] = [(x - radius, y - radius, x + radius, y + radius) for _, x, y, radius in points]
    labels = []
    for content, x, y, radius in points:
        width, height = width_of(content, SIZE), SIZE * 0.8
        sides = (
            (x + radius + 3, y - height / 2),
            (x - radius - 3 - width, y - height / 2),
            (x - width / 2, y - radius - 3 - height),
            (x - width / 2, y + radius + 3),
        )
        for left, top in sides:
            box = (left, top, left + width, top + height)
            if left > inside.left and left + width < inside.right and not any(_meet(box, other) for other in taken):
                taken.append(box)
                labels.append(text(content, left, top + height, class_="dotlabel"))
                break
    return labels


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]

"""Boards over the time of a campaign: when each was off, and its canaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from int8tune.results.board_health import BoardHealth, BoardVerdict
from int8tune.results.report.charts.axes import Frame, frame, x_axis
from int8tune.results.report.charts.scale import Linear
from int8tune.results.report.charts.svg import PHONE, image, number, tag, text

LANE = 40.0
"""Height of a board's lane, its name above its bar."""
_BAR = 10.0
_NAME, _BAR_TOP = 13.0, 20.0
_BELOW = 40.0
_BINS = 90
_MINUTES_OVER_S = 300.0


def boards_chart(boards: Sequence[BoardHealth], width: float) -> Markup:
    """A lane for each board: a bar, red where the board was off; good canaries as ticks in it, bad ones below it."""
    total_s = max(*(board.total_s for board in boards), 1e-9)
    minutes = total_s > _MINUTES_OVER_S
    unit_s = 60.0 if minutes else 1.0
    height = LANE * len(boards) + _BELOW
    inside = frame(width, height, left=2, top=0, bottom=_BELOW)
    x = Linear(0, total_s / unit_s, inside.left, inside.right)
    lanes = [_lane(board, LANE * place, x, unit_s, inside) for place, board in enumerate(boards)]
    axis = x_axis(inside, x, x.ticks(5 if width < PHONE else 9), "minutes" if minutes else "seconds")
    label = "Boards over the campaign: " + ", ".join(f"{board.name} {board.verdict}" for board in boards)
    return image(width, height, label, [*lanes, axis])


def _lane(board: BoardHealth, top: float, x: Linear, unit_s: float, inside: Frame) -> Markup:
    bar_top = top + _BAR_TOP
    parts = [
        text(board.name, inside.left, top + _NAME, class_="title"),
        text(
            str(board.verdict),
            inside.right,
            top + _NAME,
            anchor="end",
            class_=None if board.verdict is BoardVerdict.WELL else "value",
        ),
        tag("rect", x=inside.left, y=bar_top, width=inside.width, height=_BAR, class_="lane"),
    ]
    for off in board.off:
        left = x(off.from_s / unit_s)
        right = inside.right if off.until_s is None else x(off.until_s / unit_s)
        parts.append(tag("rect", x=left, y=bar_top, width=max(right - left, 2.0), height=_BAR, class_="lane off"))
    good = (canary.at_s for canary in board.canaries if not canary.fault)
    bad = (canary.at_s for canary in board.canaries if canary.fault)
    parts += _ticks(good, x, unit_s, bar_top + 2, _BAR - 4, "canary")
    parts += _ticks(bad, x, unit_s, bar_top + _BAR, 5, "canary bad")
    return tag("g", *parts)


def _ticks(
    moments_s: Iterable[float], x: Linear, unit_s: float, top: float, height: float, class_: str
) -> list[Markup]:
    """Strokes at these moments, one where several are at about the same."""
    step = (x.end - x.start) / _BINS
    places = sorted({round((x(moment_s / unit_s) - x.start) / step) for moment_s in moments_s})
    path = "".join(f"M{number(x.start + place * step)} {number(top)}v{number(height)}" for place in places)
    return [tag("path", d=path, class_=class_)] if path else []

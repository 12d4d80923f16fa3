"""How a search went: the network's time over the time that passed, and one small chart for each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from int8tune.results.analysis.search_course import Attempt, Best, LayerCourse, SearchCourse
from int8tune.results.report.charts.axes import frame, x_axis, y_axis
from int8tune.results.report.charts.scale import Linear, padded
from int8tune.results.report.charts.svg import dots, image, line, number, steps, tag, text

MOST_STEPS = 240
MOST_DOTS = 64
SMALL_WIDTH, SMALL_HEIGHT = 208.0, 84.0
# A small chart shows trials up to so many times the best; the others would flatten it.
HIGHEST = 1.6


def network_chart(course: SearchCourse, unit: tuple[str, float], width: float, height: float) -> Markup:
    """The network's time so far, which ends at the time of its best schedules.

    Args:
        unit: its name, and what one of it is in the course's own.
    """
    name, scale = unit
    inside = frame(width, height, left=54)
    found = course.network
    values = [best.amount / scale for best in found]
    low, high = padded(min(values), max(values), 0.08)
    minutes = course.total_s > 300
    x = Linear(0, max(course.total_s, 1e-9) / (60 if minutes else 1), inside.left, inside.right)
    y = Linear(max(low, 0), high, inside.bottom, inside.top)
    places = [(x(best.at_s / (60 if minutes else 1)), y(best.amount / scale)) for best in thinned(found, MOST_STEPS)]
    parts = [
        y_axis(inside, y, y.ticks(5), name),
        x_axis(inside, x, x.ticks(5 if inside.is_narrow else 9), "minutes" if minutes else "seconds"),
        steps(places, inside.right, "curve"),
        text(f"{values[0]:.3f}", inside.left + 6, y(values[0]) - 6, class_="value"),
        text(f"{values[-1]:.3f}", inside.right, y(values[-1]) - 6, anchor="end", class_="value"),
    ]
    label = f"The network's time over the campaign: {values[0]:.3f} at first, {values[-1]:.3f} {name} in the end"
    return image(width, height, label, parts)


def thinned(values: Sequence[Best], most: int) -> Sequence[Best]:
    """So many of the steps at most; the first and the last are among them."""
    if len(values) <= most:
        return values
    step = (len(values) - 1) / (most - 1)
    return [values[round(place * step)] for place in range(most)]


def layer_chart(course: LayerCourse, default: float | None, label: str, in_words: Callable[[float], str]) -> Markup:
    """One layer's trials in order: dots, the best so far as a line, crosses at the top for what failed.

    The axis at the left goes from its best to what is a little over its default, and not to zero.
    """
    final = course.bests[-1].amount
    highest = min(max(default or final, final * 1.06) * 1.02, final * HIGHEST)
    known = [attempt.amount for attempt in course.attempts if attempt.amount is not None]
    lowest = max(min(known, default=final), final * 0.9)
    low, high = padded(min(lowest, final), highest, 0.1)
    left, right, top, bottom = 42.0, SMALL_WIDTH - 4, 8.0, SMALL_HEIGHT - 8
    x = Linear(0, max(len(course.attempts) - 1, 1), left + 3, right - 3)
    y = Linear(low, high, bottom, top)
    parts = [
        part
        for value in y.ticks(3)
        for part in (
            line(left, y(value), right, y(value), "grid"),
            text(in_words(value), left - 4, y(value) + 4, anchor="end", class_="small"),
        )
    ]
    parts += _trials(course.attempts, x, y)
    parts.append(_best_line(course, x, y, right))
    return image(SMALL_WIDTH, SMALL_HEIGHT, label, parts)


def _trials(attempts: Sequence[Attempt], x: Linear, y: Linear) -> list[Markup]:
    every = max(1, -(-len(attempts) // MOST_DOTS))
    shown = [(place, attempt) for place, attempt in enumerate(attempts) if place % every == 0]
    timed = [(place, one.amount) for place, one in shown if one.amount is not None]
    failed = [(x(place), y.end + 1) for place, one in shown if one.amount is None]
    inside = [(x(place), y(amount)) for place, amount in timed if y.low <= amount <= y.high]
    return [dots(inside, "trial"), *([_crosses(failed)] if failed else [])]


def _crosses(places: Sequence[tuple[float, float]]) -> Markup:
    path = "".join(f"M{number(x - 2)} {number(y - 2)}l4 4m0-4l-4 4" for x, y in places)
    return tag("path", d=path, class_="cross")


def _best_line(course: LayerCourse, x: Linear, y: Linear, right: float) -> Markup:
    """The best so far over the trials' places."""
    moments = [attempt.at_s for attempt in course.attempts]
    places = []
    for best in course.bests:
        place = next((at for at, moment in enumerate(moments) if moment >= best.at_s), len(moments) - 1)
        places.append((x(place), y(min(best.amount, y.high))))
    return steps(places, right, "curve")

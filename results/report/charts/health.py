"""How steady a device was: its probe over the time of a campaign, and what interrupted it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from int8tune.results.analysis.health import PlaceHealth, Reading
from int8tune.results.report.charts.axes import frame, x_axis, y_axis
from int8tune.results.report.charts.scale import Linear
from int8tune.results.report.charts.svg import image, line, number, tag, text
from int8tune.results.stats import median

BINS = 90
LEAST_SPAN = 0.05


def health_chart(health: PlaceHealth, total_s: float, width: float, height: float) -> Markup:
    """The probe's time beside its median: a line of medians within the range seen; below, interrupted repeats."""
    inside = frame(width, height, bottom=76)
    minutes = total_s > 300
    unit_s = 60.0 if minutes else 1.0
    x = Linear(0, max(total_s, 1e-9) / unit_s, inside.left, inside.right)
    groups = _groups(health.readings, total_s)
    span = max(LEAST_SPAN, *(abs(reading.relative - 1) for reading in health.readings))
    y = Linear(1 - min(span * 1.05, 0.99), 1 + span * 1.05, inside.bottom, inside.top)
    foot = frame(width, height)
    parts = [
        y_axis(
            inside, y, y.ticks(5), "probe, % of usual", lambda value: f"{(value - 1) * 100:+.4g}" if value != 1 else "0"
        ),
        x_axis(foot, x, x.ticks(5 if inside.is_narrow else 9), "minutes" if minutes else "seconds"),
        _range(groups, x, y, unit_s),
        _line(groups, x, y, unit_s),
        line(inside.left, y(1), inside.right, y(1), "axis"),
        text("interrupted", 0, foot.bottom - 24, class_="title"),
        *_interruptions(groups, x, foot.bottom, unit_s),
    ]
    return image(width, height, f"The probe of {health.name} over the campaign: spread {health.noise:.1%}", parts)


Group = tuple[float, Sequence[Reading]]


def _groups(readings: Sequence[Reading], total_s: float) -> list[Group]:
    """The readings of equal times, each with the middle of them, in seconds."""
    width_s = max(total_s, 1e-9) / BINS
    found: dict[int, list[Reading]] = {}
    for reading in readings:
        found.setdefault(min(int(reading.at_s / width_s), BINS - 1), []).append(reading)
    return [((place + 0.5) * width_s, group) for place, group in sorted(found.items())]


def _range(groups: Sequence[Group], x: Linear, y: Linear, unit_s: float) -> Markup:
    path = ""
    for at_s, group in groups:
        values = [y(reading.relative) for reading in group]
        path += f"M{number(x(at_s / unit_s))} {number(min(values))}V{number(max(values))}"
    return tag("path", d=path, class_="range")


def _line(groups: Sequence[Group], x: Linear, y: Linear, unit_s: float) -> Markup:
    points = [(x(at_s / unit_s), y(median([reading.relative for reading in group]))) for at_s, group in groups]
    return tag("path", d="M" + "L".join(f"{number(across)} {number(up)}" for across, up in points), class_="curve")


def _interruptions(groups: Sequence[Group], x: Linear, bottom: float, unit_s: float) -> list[Markup]:
    counts = [(at_s, sum(reading.interrupted for reading in group)) for at_s, group in groups]
    most = max((count for _, count in counts), default=0)
    path = "".join(
        f"M{number(x(at_s / unit_s))} {number(bottom)}v-{number(20 * count / most)}" for at_s, count in counts if count
    )
    return [tag("path", d=path, class_="interrupted")] if path else []

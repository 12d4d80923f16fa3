"""A network's time from campaign to campaign; each point leads to its report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from int8tune.results.comparison.compare import Change
from int8tune.results.history import History, PastCampaign
from int8tune.results.report.charts.axes import Frame, frame, x_axis, y_axis
from int8tune.results.report.charts.scale import Linear, padded
from int8tune.results.report.charts.svg import image, tag, text

RADIUS = 5.0
# Room for what of the last date is beyond its tick.
LAST_DATE = 26.0
_DAY_S = 86400.0
_CLASSES = {Change.FASTER: "better", Change.SLOWER: "worse"}


def history_chart(history: History, unit: tuple[str, float], width: float, height: float) -> Markup | str:
    """The times over the dates; nothing where no campaign has a time of the whole network.

    Args:
        unit: its name, and what one of it is in the history's own.
    """
    name, scale = unit
    known = [(started_s(each), each.time / scale, each) for each in history.campaigns if each.time]
    if not known:
        return ""
    inside = frame(width, height, left=56)
    low, high = padded(min(y for _, y, _ in known), max(y for _, y, _ in known), 0.25)
    first, last = _dates(min(x for x, _, _ in known), max(x for x, _, _ in known))
    x = Linear(first, last, inside.left + 2 * RADIUS, inside.right - LAST_DATE)
    y = Linear(max(low, 0.0), high, inside.bottom, inside.top)
    path = "".join(f"{'L' if place else 'M'}{x(at):.1f} {y(value):.1f}" for place, (at, value, _) in enumerate(known))
    ticks = [first + (last - first) * share for share in _shares(inside)]
    form = ("%m-%d" if inside.is_narrow else "%Y-%m-%d") if last - first > 2 * _DAY_S else "%m-%d %H:%M"
    drawn = [
        y_axis(inside, y, y.ticks(5), name),
        x_axis(inside, x, ticks, "started, UTC", lambda at: datetime.fromtimestamp(at, UTC).strftime(form)),
        tag("path", d=path, class_="curve"),
        _last_value(known, x, y),
    ]
    points = [_point(each, x(at), y(value), f"{value:,.3f} {name}") for at, value, each in known]
    label = f"{history.network}: {known[0][1]:,.3f} {name} in the first campaign, {known[-1][1]:,.3f} in the last"
    return image(width, height, label, [tag("g", *drawn, aria_hidden="true"), *points], role="group")


def started_s(campaign: PastCampaign) -> float:
    """When it was started, in seconds since 1970; 0 where its label is no time."""
    try:
        found = datetime.fromisoformat(campaign.summary.campaign.created_at)
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _last_value(known: Sequence[tuple[float, float, PastCampaign]], x: Linear, y: Linear) -> Markup:
    """Where the line does not come from."""
    at, value, _ = known[-1]
    is_below = len(known) > 1 and known[-2][1] > value
    return text(f"{value:,.3f}", x(at), y(value) + (18 if is_below else -10), anchor="end", class_="value")


def _point(campaign: PastCampaign, x: float, y: float, value: str) -> Markup:
    change = _CLASSES.get(campaign.since.change) if campaign.since else None
    title = f"{campaign.summary.campaign.name}: {value}"
    dot = tag("circle", tag("title", title), cx=x, cy=y, r=RADIUS, class_=" ".join(filter(None, ["point", change])))
    return tag("a", dot, href=campaign.page, aria_label=title) if campaign.page else dot


def _dates(first_s: float, last_s: float) -> tuple[float, float]:
    """The ends of the axis, which is an hour long at least."""
    missing_s = max(0.0, 3600 - (last_s - first_s))
    return first_s - missing_s / 2, last_s + missing_s / 2


def _shares(inside: Frame) -> tuple[float, ...]:
    return (0.0, 1.0) if inside.is_narrow else (0.0, 0.25, 0.5, 0.75, 1.0)

"""Campaigns and boards at one moment, as lines of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from datetime import datetime

from int8tune.results.label import layer_label
from int8tune.results.report.format import factor, kilocycles, microseconds, milliseconds
from int8tune.results.snapshot import NetworkCost, moment_of
from int8tune.tuner.cli.board_states import lasted, states_table
from int8tune.tuner.cli.live import clock
from int8tune.tuner.cli.output import aligned, safe
from int8tune.tuner.watching.overview import CampaignView, Failure, Overview, Phase

INDENT = "    "
FULL, REST = "\u2501", "\u2500"
_BAR = 20
_MILLISECOND_S = 1e-3
_GAP = "   "


def overview_lines(overview: Overview, columns: int, rows: int | None = None) -> list[str]:
    """All lines; where they are more than `rows`, campaigns that have ended are left out, the oldest first."""
    head = _head(overview, columns)
    tail = [*_boards(overview, columns), *_failures(overview.failures, columns)]
    blocks = [campaign_lines(campaign, overview.at, columns) for campaign in overview.campaigns]
    room = None if rows is None else rows - len(head) - len(tail) - 2
    shown = _fitting(blocks, room)
    left_out = overview.left_out + len(blocks) - len(shown)
    lines = [*head, "", *(line for block in shown for line in block)] if blocks else [*head, "", "no campaign yet"]
    if left_out:
        lines.append(f"and {left_out} more")
    return [safe(line)[:columns] for line in lines + tail]


def campaign_lines(view: CampaignView, now: float, columns: int) -> list[str]:
    """What it is, how far it is, and the network's time."""
    stored = view.snapshot.campaign if view.snapshot else None
    what = _GAP.join(filter(None, [view.name, f"{stored.target} on {stored.device}" if stored else ""]))
    state = _state(view, now)
    lines = [what + " " * max(len(_GAP), columns - len(what) - len(state)) + state]
    if len(lines[0]) > columns:
        lines = [view.name, f"{INDENT}{state}"]
    lines.append(INDENT + _progress(view, now, columns))
    if view.snapshot and view.snapshot.cost:
        lines += _wrapped(cost_in_words(view.snapshot.cost, view.snapshot.runs), columns)
    if view.status and view.status.error and view.phase(now) == "failed":
        lines += _wrapped(view.status.error, columns)
    return lines


def cost_in_words(cost: NetworkCost, runs: int) -> str:
    """The network's time so far beside the default's."""
    in_words: Callable[[float | None], str] = milliseconds if cost.default >= _MILLISECOND_S else microseconds
    unit = "ms" if cost.default >= _MILLISECOND_S else "us"
    if cost.is_estimate:
        in_words, unit = kilocycles, "kcyc est."
    gain, confirmed = factor(cost.speedup), factor(cost.confirmed_speedup)
    words = f"network {in_words(cost.default)} {unit} by default, {in_words(cost.so_far)} so far: {gain}x"
    sure = "" if gain == confirmed else f" ({confirmed}x confirmed)"
    part = "" if cost.runs == runs else f", {cost.runs}/{runs} runs"
    return f"{words}{sure}{part}"


def failure_lines(failures: Sequence[Failure]) -> list[tuple[str, ...]]:
    """A row for each: when, which campaign, how, which layer, and why."""
    return [
        (
            _time_of_day(moment_of(failure.trial)),
            failure.trial.campaign,
            failure.trial.outcome.value,
            layer_label(failure.trial.candidate.workload),
            failure.trial.error,
        )
        for failure in failures
    ]


def _head(overview: Overview, columns: int) -> list[str]:
    moment = datetime.fromtimestamp(overview.at).astimezone().isoformat(sep=" ", timespec="seconds")[:19]
    names = ", ".join(place.name for place in overview.places)
    room = columns - len(moment) - len(_GAP)
    lines = [f"{moment}{_GAP}{names if len(names) <= room else '...' + names[3 - room :]}"]
    for place in overview.places:
        if place.fault:
            lines += textwrap.wrap(place.fault, columns, subsequent_indent=INDENT)
    return lines


def _state(view: CampaignView, now: float) -> str:
    phase = view.phase(now)
    if phase == Phase.RUNNING:
        since = f" {lasted(now - view.status.started_at)}" if view.status and view.status.is_current else ""
        return f"{phase}{since}"
    return f"{phase} {lasted(now - view.changed_at)} ago" if view.changed_at else str(phase)


def _progress(view: CampaignView, now: float, columns: int) -> str:
    failed = view.snapshot.failed if view.snapshot else 0
    budget = view.budget
    if view.phase(now) != Phase.RUNNING:
        parts = [f"{view.trials:,} trials", *([f"{failed:,} failed"] if failed else [])]
        return _GAP.join(parts)
    pace, left_s, layers = view.per_minute(now), view.left_s(now), view.layers
    parts = [f"{view.trials:,}/{budget:,} trials" if budget else f"{view.trials:,} trials"]
    parts += [f"{layers[0]}/{layers[1]} layers"] if layers else []
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{pace:.0f}/min"] if pace else []
    parts += [f"{clock(left_s)} left"] if left_s is not None else []
    text = _GAP.join(parts)
    width = min(_BAR, columns - len(INDENT) - len(text) - len(_GAP))
    if width < 5 or not budget:
        return text
    done = int(width * min(1.0, view.trials / budget))
    return f"{FULL * done}{REST * (width - done)}{_GAP}{text}"


def _boards(overview: Overview, columns: int) -> list[str]:
    if not overview.boards:
        return []
    return ["", *states_table(overview.boards, overview.at, columns).splitlines()]


def _failures(failures: Sequence[Failure], columns: int) -> list[str]:
    if not failures:
        return []
    rows = failure_lines(failures)
    text = aligned([row[:-1] for row in rows]).splitlines()
    return ["", "last failures", *(_with_cause(line, row[-1], columns) for line, row in zip(text, rows, strict=True))]


def _with_cause(line: str, cause: str, columns: int) -> str:
    whole = f"{line}  {' '.join(cause.split())}"
    return whole if len(whole) <= columns else whole[: columns - 3] + "..."


def _fitting(blocks: Sequence[list[str]], room: int | None) -> list[list[str]]:
    shown: list[list[str]] = []
    for block in blocks:
        if room is not None and shown and sum(map(len, shown)) + len(block) > room:
            break
        shown.append(block)
    return shown


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, initial_indent=INDENT, subsequent_indent=INDENT)


def _time_of_day(moment: float | None) -> str:
    return "-" if moment is None else datetime.fromtimestamp(moment).strftime("%H:%M:%S")

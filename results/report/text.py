"""A summary as a table for terminals, and as values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from results.record import Outcome, Trial
from results.report.format import MISSING, factor, giga, interval, microseconds, milliseconds, percent
from results.report.words import MEANING
from results.summary import CampaignSummary, FailureGroup, LayerRow, TimedSchedule

# Title and width of each column; a negative width aligns left. With one space between them, 99 columns in all.
COLUMNS = (
    ("#", 3),
    ("layer", -30),
    ("runs", 4),
    ("default", 8),
    ("best", 8),
    ("GOP/s", 6),
    ("peak", 5),
    ("speedup [95 %]", -17),
    ("verdict", -10),
)


def render_table(summary: CampaignSummary) -> str:
    """The layers of a campaign in aligned plain text of at most 100 columns, with the totals below."""
    lines = [_head(summary), "", _line([title for title, _ in COLUMNS])]
    lines += [_line(_cells(number, row)) for number, row in enumerate(summary.layers, start=1)]
    lines += ["", *_foot(summary)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def as_dict(summary: CampaignSummary) -> dict[str, Any]:
    """The whole summary as JSON values; times in seconds, rates in operations per second, shares of 1."""
    campaign = asdict(summary.campaign)
    return {
        "campaign": campaign | {"layers": dict(summary.campaign.layers)},
        "peak_ops_per_s": summary.check.peak_ops_per_s if summary.check else None,
        "environments": [dict(environment) for environment in summary.environments],
        "layers": [_layer(row) for row in summary.layers],
        "failures": [_failure(group) for group in summary.failures],
        "totals": {
            **asdict(summary.totals),
            "outcomes": _outcomes(summary.totals.outcomes),
            "trials": summary.totals.trials,
            "trials_per_work_s": summary.totals.trials_per_work_s,
        },
    }


def _head(summary: CampaignSummary) -> str:
    campaign = summary.campaign
    peak = f"{giga(summary.check.peak_ops_per_s)} GOP/s" if summary.check else "not measured"
    return f"{campaign.name}: {campaign.network} on {campaign.device} ({campaign.target}), peak {peak}, times in us"


def _line(cells: Sequence[str]) -> str:
    return " ".join(_aligned(cell, width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def _aligned(cell: str, width: int) -> str:
    if width > 0:
        return cell.rjust(width)
    return cell.ljust(-width) if len(cell) <= -width else f"{cell[: -width - 2]}.."


def _cells(number: int, row: LayerRow) -> list[str]:
    best = row.best
    return [
        str(number),
        row.label,
        str(row.count),
        microseconds(row.default.median_s if row.default else None),
        microseconds(best.median_s if best else None),
        giga(best.ops_per_s if best else None),
        percent(best.peak_share if best else None),
        interval(row.speedup),
        row.verdict.value,
    ]


def _foot(summary: CampaignSummary) -> list[str]:
    totals = summary.totals
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in totals.outcomes.items())
    rate = f"{totals.trials_per_work_s:.2f}" if totals.trials_per_work_s is not None else MISSING
    compared = f"{totals.compared_layers} of {totals.layers} layer runs"
    verdicts = {row.verdict for row in summary.layers}
    return [
        f"network  {milliseconds(totals.default_s)} ms by default, {milliseconds(totals.best_s)} ms with the best: "
        f"{factor(totals.speedup)} times faster ({compared})",
        f"trials   {totals.trials}, {rate} per second of build and run time",
        f"         {outcomes or 'none'}",
        *(f"{verdict.value:<10} {meaning}" for verdict, meaning in MEANING.items() if verdict in verdicts),
    ]


def _layer(row: LayerRow) -> dict[str, Any]:
    return {
        "workload": row.workload,
        "label": row.label,
        "count": row.count,
        "macs": row.macs,
        "default": _schedule(row.default),
        "best": _schedule(row.best),
        "speedup": asdict(row.speedup) if row.speedup else None,
        "verdict": row.verdict.value,
        "outcomes": _outcomes(row.outcomes),
    }


def _schedule(timed: TimedSchedule | None) -> dict[str, Any] | None:
    if timed is None:
        return None
    values = asdict(timed)
    return values | {"candidate": {"id": timed.candidate.id, **values["candidate"]}}


def _failure(group: FailureGroup) -> dict[str, Any]:
    return {
        "outcome": group.outcome.value,
        "error_class": group.error_class,
        "count": group.count,
        "example": _example(group.example),
    }


def _example(trial: Trial) -> dict[str, Any]:
    return {
        "sequence": trial.sequence,
        "candidate": trial.candidate.id,
        "workload": trial.candidate.workload,
        "error": trial.error,
    }


def _outcomes(outcomes: Mapping[Outcome, int]) -> dict[str, int]:
    return {outcome.value: count for outcome, count in outcomes.items()}

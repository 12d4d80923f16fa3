"""A summary as a table for terminals, and as values for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from int8tune.results.record import CacheMode, Outcome, Trial
from int8tune.results.report.board_words import board_as_dict, board_in_words, boards_in_words, unwell
from int8tune.results.report.format import (
    MISSING,
    factor,
    giga,
    interval,
    kilocycles,
    microseconds,
    milliseconds,
    percent,
)
from int8tune.results.report.words import meanings
from int8tune.results.summary import CampaignSummary, FailureGroup, LayerRow, TimedSchedule

VERSION = 1
"""Version of the JSON form."""
# A table is as wide as this, or, where there is less room, as `NARROW` is.
WIDEST = 100
FOOT_INDENT = 9


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; a negative width aligns left."""

    title: str
    width: int
    cell: Callable[[LayerRow], str]


WIDE = (
    Column("layer", -29, lambda row: row.label),
    Column("runs", 4, lambda row: str(row.count)),
    Column("default", 7, lambda row: microseconds(row.default.median_s if row.default else None)),
    Column("best", 7, lambda row: microseconds(row.best.median_s if row.best else None)),
    Column("GOP/s", 6, lambda row: giga(row.best.ops_per_s if row.best else None)),
    Column("peak", 4, lambda row: percent(row.best.peak_share if row.best else None)),
    Column("speedup [95 %]", -17, lambda row: interval(row.speedup)),
    Column("verdict", -10, lambda row: row.verdict.value),
    Column("fail", 4, lambda row: str(row.trials - row.outcomes.get(Outcome.OK, 0))),
)
NARROW = (
    Column("layer", -27, lambda row: row.label.replace("dwconv2d", "dw").replace("conv2d", "conv")),
    *WIDE[1:4],
    Column("GOP/s", 5, WIDE[4].cell),
    WIDE[5],
    Column("gain", 5, lambda row: factor(row.speedup.estimate if row.speedup else None)),
    WIDE[7],
)


def _estimated(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a campaign that was estimated: cycles in place of times, and no peak was measured."""
    default, best, rate = "default", "best", "op/cyc"
    cells: dict[str, Column] = {
        default: Column(default, 7, lambda row: kilocycles(row.default.estimated_cycles if row.default else None)),
        best: Column(best, 7, lambda row: kilocycles(row.best.estimated_cycles if row.best else None)),
        "GOP/s": Column(rate, 6, lambda row: factor(row.best.ops_per_cycle if row.best else None)),
        "speedup [95 %]": Column("speedup", 7, lambda row: factor(row.speedup.estimate if row.speedup else None)),
    }
    return tuple(cells.get(column.title, column) for column in columns if column.title != "peak")


def render_table(summary: CampaignSummary, width: int = WIDEST) -> str:
    """The layers of a campaign in aligned plain text, with the totals below, in 100 columns or in 79."""
    chosen, digits = (WIDE, 3) if width >= WIDEST else (NARROW, 2)
    columns = _estimated(chosen) if summary.estimated_by else chosen
    titles = ["#".rjust(digits), *(_aligned(column.title, column.width) for column in columns)]
    lines = [*_wrapped(_head(summary), width), "", " ".join(titles)]
    for number, row in enumerate(summary.layers, start=1):
        cells = (_aligned(column.cell(row), column.width) for column in columns)
        lines.append(" ".join([str(number).rjust(digits), *cells]))
    lines += ["", *(part for line in _foot(summary) for part in _wrapped(line, width))]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def as_dict(summary: CampaignSummary) -> dict[str, Any]:
    """The whole summary as JSON values; times in seconds, rates in operations per second, shares of 1."""
    campaign = asdict(summary.campaign)
    return {
        "int8tune_report": VERSION,
        "campaign": campaign | {"layers": dict(summary.campaign.layers)},
        "estimated_by": summary.estimated_by or None,
        "peak_ops_per_s": summary.check.peak_ops_per_s if summary.check else None,
        "environments": [dict(environment) for environment in summary.environments],
        "layers": [_layer(row) for row in summary.layers],
        "failures": [_failure(group) for group in summary.failures],
        "advised": dict(summary.advised),
        "boards": [board_as_dict(board) for board in summary.boards],
        "totals": {
            **asdict(summary.totals),
            "outcomes": _outcomes(summary.totals.outcomes),
            "trials": summary.totals.trials,
            "trials_per_s": summary.totals.trials_per_s,
        },
    }


CACHES: Mapping[str, str] = {CacheMode.COLD: ", cold caches", CacheMode.NETWORK: ", caches as in a network"}


def _head(summary: CampaignSummary) -> str:
    campaign = summary.campaign
    name = campaign.name if campaign.name == campaign.network else f"{campaign.name}: {campaign.network}"
    if summary.estimated_by:
        return (
            f"{name} on {campaign.device} ({campaign.target}), exact there, but not measured: thousands of cycles as "
            f"estimated by {summary.estimated_by}"
        )
    peak = f"{giga(summary.check.peak_ops_per_s)} GOP/s" if summary.check else "not measured"
    caches = CACHES.get(summary.cache, "")
    return f"{name} on {campaign.device} ({campaign.target}), peak {peak}, times in us{caches}"


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, max(min(width, WIDEST), 40), subsequent_indent=" " * FOOT_INDENT, break_on_hyphens=False)


def _aligned(cell: str, width: int) -> str:
    if width > 0:
        return cell.rjust(width)
    return cell.ljust(-width) if len(cell) <= -width else f"{cell[: -width - 2]}.."


def _foot(summary: CampaignSummary) -> list[str]:
    totals = summary.totals
    outcomes = ", ".join(f"{count} {outcome.value}" for outcome, count in totals.outcomes.items())
    rate = f"{totals.trials_per_s:.2f}" if totals.trials_per_s is not None else MISSING
    compared = f"{totals.compared_layers} of {totals.layers} layer runs"
    verdicts = {row.verdict for row in summary.layers}
    return [
        f"network  {_sums(summary)}: {factor(totals.speedup)} times faster ({compared})",
        f"trials   {totals.trials}, {rate} per second",
        f"         {outcomes or 'none'}",
        *_advised(summary),
        *_boards(summary),
        *(f"{verdict.value:<10} {meaning}" for verdict, meaning in meanings(summary).items() if verdict in verdicts),
    ]


def _advised(summary: CampaignSummary) -> list[str]:
    """How many kernels are slow by what NVIDIA's compiler did to them."""
    told = ", ".join(f"{count} with {code}" for code, count in sorted(summary.advised.items()))
    return [f"compiler NVIDIA's says that kernels are slow: {told}"] if told else []


def _boards(summary: CampaignSummary) -> list[str]:
    """Which boards are unwell, and why each is."""
    if not summary.boards:
        return []
    lines = [f"boards   {boards_in_words(summary.boards)}"]
    return lines + [f"         {board.name}: {board_in_words(board)}" for board in unwell(summary.boards)]


def _sums(summary: CampaignSummary) -> str:
    totals = summary.totals
    if summary.estimated_by:
        default, best, unit = kilocycles(totals.default_cycles), kilocycles(totals.best_cycles), "thousand cycles"
    else:
        default, best, unit = milliseconds(totals.default_s), milliseconds(totals.best_s), "ms"
    return f"{default} {unit} by default, {best} {unit} with the best"


def _layer(row: LayerRow) -> dict[str, Any]:
    return {
        "workload": row.workload,
        "label": row.label,
        "count": row.count,
        "names": row.names,
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

"""A campaign's summary as Markdown, such as for a pull request: a headline and a table."""

from __future__ import annotations

from int8tune.results.record import Outcome
from int8tune.results.report.board_words import board_in_words, unwell
from int8tune.results.report.format import factor, giga, kilocycles, microseconds, milliseconds, percent
from int8tune.results.report.markdown import cell, table
from int8tune.results.report.words import meanings
from int8tune.results.summary import CampaignSummary, LayerRow, TimedSchedule


def render_summary_markdown(summary: CampaignSummary) -> str:
    """The headline and the layers; times in microseconds, or thousands of cycles where they are estimated."""
    campaign, totals = summary.campaign, summary.totals
    unit = "kcyc" if summary.estimated_by else "us"
    titles = (
        "layer",
        "runs",
        f"default, {unit}",
        f"best, {unit}",
        "GOP/s",
        "peak",
        "speedup",
        "95 %",
        "verdict",
        "fail",
    )
    rows = [_cells(row, is_estimated=bool(summary.estimated_by)) for row in summary.layers]
    said = {row.verdict for row in summary.layers}
    lines = [
        f"### {cell(campaign.network)}: {factor(totals.speedup)} times faster",
        "",
        f"{_sums(summary)}; {totals.compared_layers} of {totals.layers} layer runs compared, {totals.trials:,} trials.",
        "",
        *table(titles, rows, numbers=(*range(1, 7), 9)),
        "",
        *(f"- {verdict.value}: {text}" for verdict, text in meanings(summary).items() if verdict in said),
        *(f"- board {cell(board.name)}: {cell(board_in_words(board))}" for board in unwell(summary.boards)),
        f"- {cell(_where(summary))}",
    ]
    return "\n".join(lines) + "\n"


def _sums(summary: CampaignSummary) -> str:
    totals = summary.totals
    if summary.estimated_by:
        return f"{kilocycles(totals.default_cycles)} thousand cycles by default, {kilocycles(totals.best_cycles)} tuned"
    return f"{milliseconds(totals.default_s)} ms by default, {milliseconds(totals.best_s)} ms tuned"


def _where(summary: CampaignSummary) -> str:
    campaign = summary.campaign
    environment = summary.environments[0] if summary.environments else {}
    versions = [f"{name} {environment[name]}" for name in ("int8tune", "tvm", "llvm") if name in environment]
    how = f"estimated by {summary.estimated_by}" if summary.estimated_by else f"cache {summary.cache}"
    peak = f"peak {giga(summary.check.peak_ops_per_s)} GOP/s" if summary.check else ""
    cpu = environment.get("gpu") or environment.get("cpu", "")
    started = campaign.created_at[:16].replace("T", " ")
    words = [f"campaign {campaign.name}", started, campaign.device, cpu, campaign.target, peak, how, *versions]
    return ", ".join(filter(None, words))


def _cells(row: LayerRow, *, is_estimated: bool) -> tuple[str, ...]:
    speedup, best = row.speedup, row.best
    return (
        cell(row.label),
        str(row.count),
        _time(row.default, is_estimated=is_estimated),
        _time(best, is_estimated=is_estimated),
        giga(best.ops_per_s if best else None),
        percent(best.peak_share if best else None),
        factor(speedup.estimate if speedup else None),
        f"{factor(speedup.low)} to {factor(speedup.high)}" if speedup else "",
        row.verdict.value,
        str(row.trials - row.outcomes.get(Outcome.OK, 0)),
    )


def _time(timed: TimedSchedule | None, *, is_estimated: bool) -> str:
    if is_estimated:
        return kilocycles(timed.estimated_cycles if timed else None)
    return microseconds(timed.median_s if timed else None)

"""The layers of a campaign as rows: the same in files, in what a page carries, and in tables of pandas.

Times are in seconds, rates in operations per second, shares of 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from int8tune.results.analysis.campaign import CampaignAnalysis
from int8tune.results.comparison.compare import Comparison
from int8tune.results.report.comparison import comparison_rows
from int8tune.results.report.tables import Row, prefixed
from int8tune.results.stats import Speedup
from int8tune.results.summary import CampaignSummary, TimedSchedule

# What a report says of what changed: its columns, and those of a comparison.
_AGAINST = {
    "change": "change",
    "time": "a",
    "ratio": "ratio",
    "ratio_low": "ratio_low",
    "ratio_high": "ratio_high",
    "candidate_id": "a.candidate_id",
}


def report_rows(analysis: CampaignAnalysis, since: Comparison | None = None) -> list[Row]:
    """A row for each layer, in the order of the network, with what bounds it, and what it was before."""
    changes = {row["workload"]: row for row in comparison_rows(since)} if since else {}
    found = []
    for row, layer in zip(layer_rows(analysis.summary), analysis.summary.layers, strict=True):
        roof, rate = analysis.roofs.get(layer.workload), layer.best.ops_per_s if layer.best else None
        row |= {
            "share_of_network": analysis.network.share(layer),
            "bound_by": roof.bound_by if roof else None,
            "roof_share": rate / roof.ops_per_s if roof and rate else None,
        }
        before = changes.get(layer.workload, {})
        against = {name: before.get(column) for name, column in _AGAINST.items()} if since else {}
        found.append(row | prefixed("against", against))
    return found


def layer_rows(summary: CampaignSummary) -> Iterator[Row]:
    """A row for each layer of a campaign."""
    campaign = summary.campaign
    for layer in summary.layers:
        yield {
            "campaign": campaign.name,
            "network": campaign.network,
            "device": campaign.device,
            "target": campaign.target,
            "workload": layer.workload,
            "label": layer.label,
            "count": layer.count,
            "names": layer.names,
            "macs": layer.macs,
            "trials": layer.trials,
            "verdict": layer.verdict.value,
            **speedup_columns(layer.speedup),
            **_timed("default", layer.default),
            **_timed("best", layer.best),
            **{f"trials.{outcome.value}": count for outcome, count in layer.outcomes.items()},
        }


def speedup_columns(speedup: Speedup | None) -> Row:
    """A ratio and its interval."""
    names = ("speedup", "speedup_low", "speedup_high")
    return dict(zip(names, (speedup.estimate, speedup.low, speedup.high) if speedup else (None,) * 3, strict=True))


def _timed(prefix: str, timed: TimedSchedule | None) -> Row:
    names = ("median_s", "spread", "repeats", "ops_per_s", "peak_share", "estimated_cycles", "ops_per_cycle")
    found = {name: None if timed is None else getattr(timed, name) for name in (*names, "sequence")}
    candidate = timed.candidate if timed else None
    about = {
        "candidate_id": candidate.id if candidate else None,
        "template": candidate.template if candidate else None,
        "version": candidate.template_version if candidate else None,
        "config": dict(candidate.config) if candidate else None,
    }
    return prefixed(prefix, found | about)

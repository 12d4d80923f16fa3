"""Campaigns and schedules as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from int8tune.results.best import BestSchedule
from int8tune.results.label import layer_label
from int8tune.results.stats import Speedup
from int8tune.results.summary import CampaignSummary, TimedSchedule
from int8tune.tuner.api.frames import Row, prefixed


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
            **_speedup(layer.speedup),
            **_timed("default", layer.default),
            **_timed("best", layer.best),
            **{f"trials.{outcome.value}": count for outcome, count in layer.outcomes.items()},
        }


def schedule_row(best: BestSchedule) -> Row:
    """The row of a best schedule."""
    values = asdict(best)
    del values["candidate"], values["speedup"]
    candidate = best.candidate
    return {
        **values,
        "label": layer_label(best.workload),
        "is_default": best.is_default,
        **_speedup(best.speedup),
        "candidate_id": candidate.id,
        "template": candidate.template,
        "version": candidate.template_version,
        "config": dict(candidate.config),
    }


def _speedup(speedup: Speedup | None) -> Row:
    names = ("speedup", "speedup_low", "speedup_high")
    return dict(zip(names, (speedup.estimate, speedup.low, speedup.high) if speedup else (None,) * 3, strict=True))


def _timed(prefix: str, timed: TimedSchedule | None) -> Row:
    names = ("median_s", "spread", "repeats", "ops_per_s", "peak_share", "estimated_cycles", "ops_per_cycle")
    found = {name: None if timed is None else getattr(timed, name) for name in (*names, "sequence")}
    candidate = timed.candidate if timed else None
    about = {
        "candidate_id": candidate.id if candidate else None,
        "template": candidate.template if candidate else None,
        "config": dict(candidate.config) if candidate else None,
    }
    return prefixed(prefix, found | about)

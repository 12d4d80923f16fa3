"""Layers of a campaign as comma-separated values; times in seconds, rates in operations per second, shares of 1."""

from __future__ import annotations

import csv
import io
from typing import Any

from int8tune.results.analysis.campaign import CampaignAnalysis
from int8tune.results.summary import LayerRow, TimedSchedule

# What a spreadsheet would take as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def layers_as_csv(analysis: CampaignAnalysis) -> str:
    """One line for each layer, in the order of the network, below a line of names."""
    rows = [_line(analysis, number, row) for number, row in enumerate(analysis.summary.layers, start=1)]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["layer"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _line(analysis: CampaignAnalysis, number: int, row: LayerRow) -> dict[str, Any]:
    roof = analysis.roofs.get(row.workload)
    rate = row.best.ops_per_s if row.best else None
    speedup = row.speedup
    return {
        "layer": number,
        "label": spreadsheet_text(row.label),
        "workload": spreadsheet_text(row.workload),
        "names": spreadsheet_text(" ".join(row.names)),
        "runs": row.count,
        "macs": row.macs,
        "verdict": row.verdict.value,
        "speedup": speedup.estimate if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "share_of_network": analysis.network.share(row),
        "bound_by": roof.bound_by if roof else None,
        "roof_share": rate / roof.ops_per_s if roof and rate else None,
        "trials": row.trials,
        **_schedule("default", row.default),
        **_schedule("best", row.best),
    }


def _schedule(name: str, timed: TimedSchedule | None) -> dict[str, Any]:
    keys = ("median_s", "estimated_cycles", "ops_per_s", "peak_share", "sequence")
    found = {f"{name}_{key}": getattr(timed, key) if timed else None for key in keys}
    candidate = timed.candidate if timed else None
    config = ";".join(f"{knob}={value}" for knob, value in candidate.config.items()) if candidate else None
    return found | {
        f"{name}_candidate": candidate.id if candidate else None,
        f"{name}_template": spreadsheet_text(candidate.template) if candidate else None,
        f"{name}_config": None if config is None else spreadsheet_text(config),
    }


def spreadsheet_text(value: str) -> str:
    """A text as it is to be shown: no spreadsheet computes it."""
    return f"'{value}" if value.startswith(_FORMULA) else value

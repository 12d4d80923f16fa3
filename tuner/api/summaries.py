"""Schedules as rows."""

from __future__ import annotations

from dataclasses import asdict

from int8tune.results.best import BestSchedule
from int8tune.results.label import layer_label
from int8tune.results.report.layer_table import speedup_columns
from int8tune.results.report.tables import Row


def schedule_row(best: BestSchedule) -> Row:
    """The row of a best schedule."""
    values = asdict(best)
    del values["candidate"], values["speedup"]
    candidate = best.candidate
    return {
        **values,
        "label": layer_label(best.workload),
        "is_default": best.is_default,
        **speedup_columns(best.speedup),
        "candidate_id": candidate.id,
        "template": candidate.template,
        "version": candidate.template_version,
        "config": dict(candidate.config),
    }

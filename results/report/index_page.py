"""All campaigns of some records as one page, from which their reports are reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from int8tune.results.history import History, PastCampaign
from int8tune.results.report import format
from int8tune.results.report.charts.history import history_chart
from int8tune.results.report.document import render_document

DESK, PHONE = (920.0, 260.0), (360.0, 240.0)


def render_index(histories: Sequence[History], damaged: Sequence[str]) -> str:
    """The page; equal input gives equal text.

    Args:
        damaged: what could not be read, a line each.
    """
    campaigns = sum(len(history.campaigns) for history in histories)
    return render_document(
        "index.html.j2",
        histories=[_view(history) for history in histories],
        networks=len({history.network for history in histories}),
        campaigns=campaigns,
        damaged=damaged,
    )


def _view(history: History) -> dict[str, Any]:
    unit = ("thousand cycles", 1e3) if history.estimated_by else ("ms", 1e-3)
    has_curve = sum(each.time is not None for each in history.campaigns) > 1
    return {
        "network": history.network,
        "target": history.target,
        "device": history.device,
        "where": ", ".join(filter(None, [history.device, history.cpu, history.target, _how(history)])),
        "desk": history_chart(history, unit, *DESK) if has_curve else "",
        "phone": history_chart(history, unit, *PHONE) if has_curve else "",
        "unit": unit[0],
        "rows": [_row(each) for each in reversed(history.campaigns)],
    }


def _how(history: History) -> str:
    return f"estimated by {history.estimated_by}" if history.estimated_by else f"cache {history.cache}"


def _row(campaign: PastCampaign) -> dict[str, Any]:
    totals, since = campaign.summary.totals, campaign.since
    in_words = format.milliseconds if totals.best_s else format.kilocycles
    return {
        "started": format.moment(campaign.summary.campaign.created_at),
        "name": campaign.summary.campaign.name,
        "page": campaign.page,
        "default": in_words(totals.default_s or totals.default_cycles or None),
        "best": in_words(totals.best_s or totals.best_cycles or None),
        "speedup": format.factor(totals.speedup),
        "since": format.interval(since.ratio) if since else "",
        "change": since.change.value if since else "",
        "is_whole": campaign.time is not None,
        "layers": f"{totals.compared_layers} of {totals.layers}",
        "trials": f"{totals.trials:,}",
        "by": _by(campaign),
        "place": campaign.place,
    }


def _by(campaign: PastCampaign) -> str:
    run = campaign.run
    return ", ".join(filter(None, [run.host, run.version, run.commit[:10]])) if run else ""

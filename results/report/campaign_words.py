"""What a campaign's page says in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from int8tune.results.analysis.campaign import CampaignAnalysis
from int8tune.results.analysis.roofline import PEAK
from int8tune.results.record import Outcome
from int8tune.results.report import format
from int8tune.results.report.board_words import boards_in_words
from int8tune.results.report.campaign_views import TIMES, LayerView, Unit
from int8tune.results.report.text import CACHES

MISSING = "\N{EN DASH}"
# Spreads of the probe up to which a machine was quiet, and up to which it was fair.
QUIET, FAIR = 0.02, 0.05


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of the headline."""

    name: str
    figure: str
    about: str


def lead(analysis: CampaignAnalysis) -> str:
    """What the gain consists of, in a sentence or two."""
    network = analysis.network
    claimed = [gain.amount for gain in network.gains if gain.claimed]
    unclaimed = sum(not gain.claimed for gain in network.gains)
    total, layers = math.fsum(claimed), len(analysis.summary.layers)
    if not network.timed_runs:
        return "No layer has a verified schedule yet."
    if not total:
        return f"No layer of {layers} has a schedule that is faster than its default beyond doubt."
    text = f"{_count(len(claimed), 'layer')} of {layers} gained: one gave {format.percent(claimed[0] / total)}"
    text += " of all that was saved"
    if len(claimed) > 5:
        text += f", five gave {format.percent(math.fsum(claimed[:5]) / total)}"
    if unclaimed:
        text += f". {_count(unclaimed, 'layer')} more looked faster, which may be noise and is not claimed"
    return f"{text}."


def tiles(analysis: CampaignAnalysis, unit: Unit) -> list[Tile]:
    """The headline."""
    return [
        _time(analysis, unit),
        _speedup(analysis),
        _roof(analysis),
        _peer(analysis),
        _quiet(analysis),
        _failed(analysis),
    ]


def _time(analysis: CampaignAnalysis, unit: Unit) -> Tile:
    network = analysis.network
    if not network.timed_runs:
        return Tile("Network", MISSING, "no layer has a verified schedule")
    default = f", {unit.network_words(network.default)} {unit.network} by default" if network.compared_runs else ""
    runs = "all" if network.timed_runs == network.runs else f"{network.timed_runs} of"
    estimated = f" as estimated by {analysis.summary.estimated_by}" if analysis.summary.estimated_by else ""
    figure = f"{unit.network_words(network.timed)} {unit.network}"
    return Tile("Network", figure, f"sum of {runs} {network.runs} layer runs{estimated}{default}")


def _speedup(analysis: CampaignAnalysis) -> Tile:
    network = analysis.network
    if network.speedup is None:
        return Tile("Speed-up", MISSING, "no layer could be compared with its default")
    ends = f"[{format.factor(network.speedup.low)}, {format.factor(network.speedup.high)}]"
    runs = (
        "" if network.compared_runs == network.runs else f", over {network.compared_runs} of {network.runs} layer runs"
    )
    sure = "estimates have no interval" if analysis.summary.estimated_by else f"95 % interval {ends}"
    return Tile("Speed-up", f"{format.factor(network.speedup.estimate)}{TIMES}", f"over the defaults, {sure}{runs}")


def _roof(analysis: CampaignAnalysis) -> Tile:
    share = analysis.network.roof_share
    if share is None:
        return Tile("Device's roof", MISSING, "peak and bandwidths were not measured")
    return Tile("Device's roof", format.percent(share), "of what its peak and its memories allow for these layers")


def _peer(analysis: CampaignAnalysis) -> Tile:
    best = analysis.peers.best
    if best is None:
        return Tile("Best other library", MISSING, "not compared: no bench of this device and target is in the records")
    runs = f"{best.runs} of {analysis.network.runs} layer runs"
    if best.ratio >= 1:
        return Tile(
            "Best other library",
            f"{format.factor(best.ratio)}{TIMES}",
            f"faster than {best.name} {best.version}, over {runs}",
        )
    words = f"the time of {best.name} {best.version}, over {runs}: it is faster"
    return Tile("Best other library", f"{format.factor(1 / best.ratio)}{TIMES}", words)


def _quiet(analysis: CampaignAnalysis) -> Tile:
    if not analysis.health:
        return Tile("Machine", MISSING, "no probe was timed")
    worst = max(place.noise for place in analysis.health)
    word = "quiet" if worst <= QUIET else "fair" if worst <= FAIR else "noisy"
    interrupted = sum(place.interrupted for place in analysis.health)
    about = f"spread of the probe, a loop of known work; {_count(interrupted, 'repeat')} interrupted and made again"
    return Tile("Machine", f"{word}, {format.percent(worst)}", about)


def _failed(analysis: CampaignAnalysis) -> Tile:
    outcomes = analysis.summary.totals.outcomes
    failed = {outcome: count for outcome, count in outcomes.items() if outcome is not Outcome.OK}
    ways = ", ".join(f"{count:,} {outcome.value.replace('_', ' ')}" for outcome, count in failed.items())
    total = analysis.summary.totals.trials
    return Tile(
        "Failed trials", f"{sum(failed.values()):,} of {total:,}", ways or "every candidate was built, right and timed"
    )


def facts(analysis: CampaignAnalysis) -> list[tuple[str, str]]:
    """Where, when and by what a campaign was made, as far as it is known."""
    summary, campaign = analysis.summary, analysis.summary.campaign
    environment = summary.environments[-1] if summary.environments else {}
    latest = analysis.runs[-1] if analysis.runs else None
    version = latest.version if latest else environment.get("int8tune", "")
    host = f"{latest.host}, {latest.user}" if latest and latest.host else ""
    commit = (
        f", commit {latest.commit[:12]}{'-dirty' * latest.commit.endswith('-dirty')}"
        if latest and latest.commit
        else ""
    )
    pauses = f", without {_count(analysis.time.pauses, 'pause')}" if analysis.time.pauses else ""
    rate = analysis.time.trials_per_s
    found = [
        ("CPU", environment.get("cpu", "not recorded")),
        ("Boards", boards_in_words(summary.boards)),
        ("Target", campaign.target),
        ("Host and user", host),
        ("Version", f"{version}{commit}" if version else ""),
        ("Started", format.moment(campaign.created_at)),
        ("Duration", f"{format.seconds(analysis.time.wall_s)}{pauses}"),
        ("Trials", f"{summary.totals.trials:,}" + (f", {rate:.2f} a second" if rate is not None else "")),
        ("Caches", CACHES.get(summary.cache, ", warm caches").removeprefix(", ")),
        ("Search", f"{campaign.strategy}, seed {campaign.seed}, {campaign.trials_per_task} trials per layer"),
        (
            "Peak",
            f"{format.giga(summary.check.peak_ops_per_s)} GOP/s, noise {format.percent(summary.check.noise)}"
            if summary.check
            else "",
        ),
    ]
    return [(name, text) for name, text in found if text]


def bounds(views: Sequence[LayerView]) -> list[tuple[str, int, float, float]]:
    """What bounds the layers: the roof, how many, their part of the network's time, and what they reach of it."""
    found: dict[str, list[tuple[float, float]]] = {}
    for view in views:
        if view.roof is not None and view.roof_share is not None and view.share is not None:
            found.setdefault(view.roof.bound_by, []).append((view.share, view.share * view.roof_share))
    rows = []
    for name, pairs in found.items():
        share = math.fsum(share for share, _ in pairs)
        reached = math.fsum(part for _, part in pairs) / share if share else 0.0
        rows.append(("peak rate" if name == PEAK else name, len(pairs), share, reached))
    return sorted(rows, key=lambda row: -row[2])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

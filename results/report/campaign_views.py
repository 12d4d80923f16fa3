"""The rows and charts of a campaign's page, made of its analysis: what is drawn where, and no new numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from int8tune.results.analysis.campaign import CampaignAnalysis
from int8tune.results.analysis.roofline import PEAK, LayerRoof
from int8tune.results.analysis.search_course import amount_of
from int8tune.results.bench import BenchRow
from int8tune.results.record import Outcome
from int8tune.results.report import format
from int8tune.results.report.charts.bars import Part, bar, interval_bar
from int8tune.results.report.charts.boards import boards_chart
from int8tune.results.report.charts.course import layer_chart, network_chart
from int8tune.results.report.charts.health import health_chart
from int8tune.results.report.charts.roofline import Dot, roofline_chart
from int8tune.results.report.document import Figure
from int8tune.results.summary import LayerRow, Verdict

WIDE, NARROW = (860.0, 400.0), (358.0, 330.0)
LOW_WIDE, LOW_NARROW = (860.0, 250.0), (358.0, 240.0)
MOST_CUTS = 16
MOST_GAINS = 15
MOST_BOARDS = 16


@dataclass(frozen=True, slots=True)
class Unit:
    """What times are told in: those of layers, of the network, and of what layers take of it."""

    layer: str
    layer_words: Callable[[float | None], str]
    network: str
    network_words: Callable[[float | None], str]
    network_scale: float
    sums: str
    sums_words: Callable[[float | None], str]


TIMES = "\N{MULTIPLICATION SIGN}"
# Up to so many seconds, parts of a network's time are told in microseconds.
SHORT_S = 0.02
SHORT = Unit("µs", format.microseconds, "ms", format.milliseconds, 1e-3, "µs", format.microseconds)
LONG = Unit("µs", format.microseconds, "ms", format.milliseconds, 1e-3, "ms", format.milliseconds)
CYCLES = Unit("kilocycles", format.kilocycles, "kilocycles", format.kilocycles, 1e3, "kilocycles", format.kilocycles)


@dataclass(frozen=True, slots=True)
class LayerView:
    """A layer with its number and what the analysis says of it."""

    number: int
    row: LayerRow
    share: float | None
    roof: LayerRoof | None

    @property
    def default(self) -> float | None:
        """What one call takes by default, in seconds or cycles."""
        return amount_of(self.row.default) if self.row.default else None

    @property
    def best(self) -> float | None:
        return amount_of(self.row.best) if self.row.best else None

    @property
    def roof_share(self) -> float | None:
        rate = self.row.best.ops_per_s if self.row.best else None
        return rate / self.roof.ops_per_s if self.roof and rate is not None else None

    @property
    def bound(self) -> str:
        """Such as `bound by L2: 18% of peak is 92% of its roof`."""
        if self.roof is None or self.row.best is None or self.roof_share is None:
            return ""
        by = "its peak rate" if self.roof.bound_by == PEAK else self.roof.bound_by
        own = format.percent(self.roof_share)
        if self.roof.bound_by == PEAK:
            return f"bound by {by}: {own} of it"
        return f"bound by {by}: {format.percent(self.row.best.peak_share)} of peak is {own} of its roof"


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row of a list of bars: what it is of, with a note below, the bar, and cells of text beside it."""

    number: str
    name: str
    bar: Markup
    cells: tuple[str, ...]
    kind: str = ""
    note: str = ""


def unit_of(analysis: CampaignAnalysis) -> Unit:
    if analysis.summary.estimated_by:
        return CYCLES
    return SHORT if analysis.network.timed < SHORT_S else LONG


def layer_views(analysis: CampaignAnalysis) -> list[LayerView]:
    """The layers in the order of the network."""
    return [
        LayerView(number, row, analysis.network.share(row), analysis.roofs.get(row.workload))
        for number, row in enumerate(analysis.summary.layers, start=1)
    ]


def time_rows(views: Sequence[LayerView], unit: Unit) -> list[BarRow]:
    """Where the network's time goes: what each layer's runs take, the longest first, and what was saved of them."""
    timed = [(view, view.row.count * view.best) for view in views if view.best is not None]
    timed.sort(key=lambda pair: -pair[1])
    longest = (
        max((view.row.count * max(view.best or 0.0, view.default or 0.0) for view, _ in timed), default=1.0) or 1.0
    )
    rows = []
    for view, best in timed:
        default = view.row.count * view.default if view.default is not None else best
        parts = [Part(0, best / longest, "best")]
        if default > best and view.row.verdict is Verdict.FASTER:
            parts.append(Part(best / longest, default / longest, "saved"))
        runs = view.row.count
        cuts = [best / longest * place / runs for place in range(1, runs)] if runs <= MOST_CUTS else []
        cells = (f"{TIMES}{runs}" if runs > 1 else "", unit.sums_words(best), format.percent(view.share))
        rows.append(BarRow(str(view.number), view.row.label, bar(parts, cuts), cells))
    return rows


def gain_rows(analysis: CampaignAnalysis, views: Sequence[LayerView], unit: Unit) -> list[BarRow]:
    """A waterfall of what was saved, the largest gain first; what noise may have made is grey and in no sum."""
    by_workload = {view.row.workload: view for view in views}
    claimed = [gain for gain in analysis.network.gains if gain.claimed]
    unclaimed = [gain for gain in analysis.network.gains if not gain.claimed]
    total = math.fsum(gain.amount for gain in claimed)
    whole = max(total, total + max((gain.amount for gain in unclaimed), default=0.0)) or 1.0
    shown = claimed if len(claimed) <= MOST_GAINS + 1 else claimed[:MOST_GAINS]
    rows, done = [], 0.0
    for gain in shown:
        view, after = by_workload[gain.workload], done + gain.amount
        cells = (unit.sums_words(gain.amount), format.percent(after / total) if total else "")
        rows.append(BarRow(str(view.number), view.row.label, bar([Part(done / whole, after / whole, "best")]), cells))
        done = after
    if len(shown) < len(claimed):
        rest = math.fsum(gain.amount for gain in claimed[len(shown) :])
        piece = bar([Part(done / whole, (done + rest) / whole, "best")])
        rows.append(BarRow("", f"{len(claimed) - len(shown)} other layers", piece, (unit.sums_words(rest), "100%")))
    if claimed:
        rows.append(
            BarRow("", "saved in all", bar([Part(0, total / whole, "second")]), (unit.sums_words(total), ""), "total")
        )
    for gain in unclaimed[:MOST_GAINS]:
        view = by_workload[gain.workload]
        piece = bar([Part(total / whole, (total + gain.amount) / whole, "noise")])
        cells = (unit.sums_words(gain.amount), "not claimed")
        rows.append(BarRow(str(view.number), view.row.label, piece, cells, "noise"))
    return rows


def peer_rows(analysis: CampaignAnalysis, views: Sequence[LayerView]) -> list[BarRow]:
    """Each layer beside the fastest other library, on a logarithmic scale; the line is where neither is faster."""
    numbers = {view.row.workload: view.number for view in views}
    found = [(layer, layer.row) for layer in analysis.peers.layers if layer.row.ratio is not None]
    ends = [end for _, row in found if row.ratio for end in (row.ratio.low, row.ratio.high)]
    low, high = math.log(min([0.8, *ends])), math.log(max([1.25, *ends]))

    def place(ratio: float) -> float:
        return 0.02 + 0.96 * (math.log(ratio) - low) / (high - low)

    rows = []
    for layer, row in found:
        assert row.ratio is not None
        drawn = interval_bar(place(row.ratio.low), place(row.ratio.estimate), place(row.ratio.high), place(1.0))
        cells = (format.interval(row.ratio), _peer(row), row.verdict.value)
        rows.append(BarRow(str(numbers[layer.workload]), row.label, drawn, cells, "" if layer.is_best else "other"))
    return rows


def _peer(row: BenchRow) -> str:
    return row.best_peer.entrant.name if row.best_peer else ""


def place_rows(analysis: CampaignAnalysis) -> list[BarRow]:
    """What each device or board spent the campaign's time on."""
    wall_s = analysis.time.wall_s or 1.0
    rows = []
    for place in analysis.time.places:
        done, parts = 0.0, []
        for amount_s, kind in (
            (place.timing_s, "best"),
            (place.verify_s, "second"),
            (place.duels_s, "third"),
            (place.wait_s, "quiet"),
        ):
            parts.append(Part(done / wall_s, min((done + amount_s) / wall_s, 1.0), kind))
            done += amount_s
        amounts = (place.timing_s, place.verify_s, place.duels_s, place.wait_s)
        rows.append(BarRow("", place.name, bar(parts), (f"{place.trials:,}", *map(format.seconds, amounts))))
    return rows


def failure_rows(analysis: CampaignAnalysis) -> list[BarRow]:
    """How the trials of each template ended."""
    rows = []
    for one in analysis.failures.templates:
        share = one.failed / one.trials
        ways = [
            f"{count} {outcome.value.replace('_', ' ')}"
            for outcome, count in one.outcomes.items()
            if outcome is not Outcome.OK
        ]
        piece = bar([Part(0, share, "bad"), Part(share, 1, "quiet")] if one.failed else [Part(0, 1, "quiet")])
        cells = (f"{one.trials:,}", f"{one.failed:,}", format.percent(share) if one.failed else "0%")
        rows.append(BarRow("", one.template, piece, cells, note=", ".join(ways)))
    return rows


def roofline_figure(analysis: CampaignAnalysis, views: Sequence[LayerView]) -> Figure | None:
    """None where roofs, or the layers' sizes, are not known."""
    dots = [
        Dot(
            view.number,
            f"{view.number} {view.row.label}: {format.giga(view.row.best.ops_per_s)} GOP/s, {view.bound}",
            view.roof.intensity,
            view.row.default.ops_per_s if view.row.default else None,
            view.row.best.ops_per_s,
            view.share or 0.0,
        )
        for view in views
        if view.roof and view.row.best and view.row.best.ops_per_s is not None
    ]
    roofline = analysis.roofline
    if roofline is None or not dots:
        return None
    return Figure(roofline_chart(roofline, dots, *WIDE), roofline_chart(roofline, dots, *NARROW))


def course_figure(analysis: CampaignAnalysis, unit: Unit) -> Figure | None:
    """None where no layer has a best."""
    if not analysis.course.layers:
        return None
    scale = (unit.network, unit.network_scale)
    return Figure(network_chart(analysis.course, scale, *LOW_WIDE), network_chart(analysis.course, scale, *LOW_NARROW))


@dataclass(frozen=True, slots=True)
class Multiple:
    """The small chart of one layer's search."""

    view: LayerView
    chart: Markup


def multiples(analysis: CampaignAnalysis, views: Sequence[LayerView], unit: Unit) -> list[Multiple]:
    """One for each layer that has a best, in the order of the network."""
    courses = {course.workload: course for course in analysis.course.layers}
    found = []
    for view in views:
        course = courses.get(view.row.workload)
        if course is not None:
            label = f"Trials of layer {view.number}, and the best so far, in {unit.layer}"
            found.append(Multiple(view, layer_chart(course, view.default, label, unit.layer_words)))
    return found


def health_figures(analysis: CampaignAnalysis) -> list[tuple[str, Figure]]:
    """A chart for each device or board that timed a probe."""
    total_s = analysis.course.total_s
    return [
        (place.name, Figure(health_chart(place, total_s, *LOW_WIDE), health_chart(place, total_s, *LOW_NARROW)))
        for place in analysis.health
    ]


def boards_figure(analysis: CampaignAnalysis) -> Figure | None:
    """The boards over time, the worst first; None where there are none."""
    boards = analysis.summary.boards[:MOST_BOARDS]
    return Figure(boards_chart(boards, WIDE[0]), boards_chart(boards, NARROW[0])) if boards else None

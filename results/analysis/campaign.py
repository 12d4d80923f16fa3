"""All that a report of a campaign says, as one value; pages draw it, and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from int8tune.results.analysis.failures import FailureNotes, Failures
from int8tune.results.analysis.health import HealthNotes, PlaceHealth
from int8tune.results.analysis.network_time import NetworkTime, network_time
from int8tune.results.analysis.peers import Peers, peers_of
from int8tune.results.analysis.roofline import LayerRoof, LayerSize, Roofline, Traffic, layer_roof, roofline_of
from int8tune.results.analysis.search_course import CourseNotes, SearchCourse
from int8tune.results.analysis.tuning_time import TimeNotes, TuningTime, place_of
from int8tune.results.base import Store
from int8tune.results.best import BestSchedule, best_schedules
from int8tune.results.record import BoardEvent, CampaignRun, Duel, Trial, runs_of
from int8tune.results.summary import CampaignSummary, summarize
from int8tune.results.wall_clock import WallClock


@dataclass(frozen=True, slots=True)
class CampaignAnalysis:
    """A campaign in numbers, and what they mean.

    Attributes:
        roofline: None where the device was not checked, or cycles were estimated.
        roofs: by workload, of the layers whose size is known.
        best: as the best log has it.
        runs: of the program for it, as far as they were kept.
    """

    summary: CampaignSummary
    network: NetworkTime
    roofline: Roofline | None
    roofs: Mapping[str, LayerRoof]
    course: SearchCourse
    time: TuningTime
    health: tuple[PlaceHealth, ...]
    failures: Failures
    peers: Peers
    best: tuple[BestSchedule, ...]
    runs: tuple[CampaignRun, ...]


def analyze(
    store: Store,
    campaign_name: str,
    sizes: Mapping[str, LayerSize],
    min_gain: float = 0.01,
    watch: Callable[[Trial], None] = lambda _: None,
) -> CampaignAnalysis:
    """What a campaign found so far; its trials are read once.

    Args:
        sizes: of its layers, as far as they are known.
        watch: is told each trial of the campaign as it goes by.

    Raises:
        StoreError: no such campaign.
    """
    course, time, health, failures = CourseNotes(), TimeNotes(), HealthNotes(), FailureNotes()
    stamps = {event.happened_at for event in store.query(BoardEvent, campaign=campaign_name)}

    def note(trial: Trial) -> None:
        stamps.add(trial.started_at)
        for notes in (course, time, health, failures):
            notes.add(trial)
        watch(trial)

    macs = {key: size.macs for key, size in sizes.items()}
    summary = summarize(store, campaign_name, macs, min_gain, note)
    campaign = summary.campaign
    duels = {(place_of(duel), duel.started_at) for duel in store.query(Duel, campaign=campaign_name)}
    clock = WallClock(stamps | {campaign.created_at} | {stamp for _, stamp in duels})
    roofline = roofline_of(summary.check) if summary.check and not summary.estimated_by else None
    roofs = _roofs(roofline, summary, sizes)
    return CampaignAnalysis(
        summary=summary,
        network=network_time(summary.layers, roofs),
        roofline=roofline,
        roofs=roofs,
        course=course.course(summary.layers, clock),
        time=time.tuning_time(duels, clock),
        health=health.health(clock),
        failures=failures.failures(),
        peers=peers_of(store, campaign, summary.layers),
        best=tuple(best_schedules(store, campaign=campaign_name)),
        runs=tuple(runs_of(store.query(CampaignRun, campaign=campaign_name))),
    )


def _roofs(
    roofline: Roofline | None, summary: CampaignSummary, sizes: Mapping[str, LayerSize]
) -> Mapping[str, LayerRoof]:
    if roofline is None:
        return {}
    known = {row.workload: sizes[row.workload] for row in summary.layers if row.workload in sizes}
    weights = sum(summary.campaign.layers.get(key, 1) * size.weight_bytes for key, size in known.items())
    traffic = Traffic(summary.cache, weights)
    return {key: layer_roof(roofline, size, traffic) for key, size in known.items()}

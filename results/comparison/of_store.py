"""A campaign, or a bench, of a store as a side of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from int8tune.results.base import Store
from int8tune.results.comparison.side import Conditions, LayerTime, Side
from int8tune.results.contest import Contest, Rival, contests_of
from int8tune.results.drift import PROBES
from int8tune.results.errors import ComparisonError
from int8tune.results.label import layer_label
from int8tune.results.record import (
    ESTIMATED_BY,
    BenchResult,
    Campaign,
    CampaignRun,
    Duel,
    Entrant,
    Outcome,
    Trial,
    cache_mode,
    runs_of,
)
from int8tune.results.selection import deciding_trials
from int8tune.results.stats import median

PEAK_LOOP = "peak loop"
NOT_VERIFIED = "no candidate was verified"
_LISTED = 20


def side_of_store(store: Store, where: str, name: str | None) -> Side:
    """What a campaign found, or a bench; the only one of the store, or the named one.

    Raises:
        ComparisonError: it is not there, or none was named and there are several.
        StoreError: the store can't be read.
    """
    campaigns = {campaign.name: campaign for campaign in store.query(Campaign)}
    if name is None and len(campaigns) == 1:
        (name,) = campaigns
    if name in campaigns:
        return side_of_campaign(store, campaigns[name], where)
    benches: dict[str, list[BenchResult]] = {}
    for result in store.query(BenchResult):
        benches.setdefault(result.bench, []).append(result)
    if name is None and not campaigns and len(benches) == 1:
        (name,) = benches
    if name in benches:
        return side_of_bench(benches[name], f"bench {name} of {where}")
    raise ComparisonError(_not_chosen([*campaigns, *benches], where, name))


def _not_chosen(names: Sequence[str], where: str, name: str | None) -> str:
    if not names:
        return f"the records have no campaign: {where}"
    known = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if name is None:
        return f"choose a campaign, such as {where}::{names[0]}; the records have {known}"
    return f"no such campaign, the records have {known}: {name}"


def side_of_campaign(store: Store, campaign: Campaign, where: str, seen: SeenTrials | None = None) -> Side:
    """What a campaign found so far.

    Args:
        seen: all of its trials, where they were read for something else: then only those that decide are read again.
    """
    duels = list(store.query(Duel, campaign=campaign.name))
    if seen is None:
        seen = SeenTrials()
        trials = seen.all_of(store.query(Trial, campaign=campaign.name))
    else:
        trials = deciding_trials(store, duels, {"campaign": campaign.name})
    found = list(contests_of(duels, trials))
    own = (campaign.target, campaign.device)
    by_workload = {each.task.workload: each for each in found if (each.task.target, each.task.device) == own}
    layers: dict[str, LayerTime] = {}
    failed: dict[str, str] = {}
    gains: dict[str, float] = {}
    for workload in dict.fromkeys([*campaign.layers, *by_workload]):
        contest = by_workload.get(workload)
        best = contest.best(0.01) if contest else None
        if contest is None or best is None:
            failed[workload] = NOT_VERIFIED
            continue
        layers[workload] = _layer_time(campaign, contest, best)
        gains.update(_gains(contest))
    environment = seen.environment
    threads = campaign.target.rpartition("-t")[2]
    return Side(
        source=f"campaign {campaign.name} of {where}",
        name=campaign.name,
        network=campaign.network,
        conditions=Conditions(
            device=campaign.device,
            cpu=environment.get("cpu", ""),
            target=campaign.target,
            threads=threads if threads.isdigit() else "1",
            cache=cache_mode(environment),
        ),
        layers=layers,
        failed=failed,
        controls=seen.controls,
        gains=gains,
        probe_s=tuple(seen.probe_s),
        environment={**environment, **_run_of(store, campaign)},
        estimated_by=environment.get(ESTIMATED_BY, ""),
        started_at=campaign.created_at,
    )


def _run_of(store: Store, campaign: Campaign) -> Mapping[str, str]:
    """Where the campaign's last run was started, and from which sources; empty where nobody wrote that down."""
    runs = runs_of(store.query(CampaignRun, campaign=campaign.name))
    found = {"host": runs[-1].host, "commit": runs[-1].commit} if runs else {}
    return {name: value for name, value in found.items() if value}


@dataclass(slots=True)
class SeenTrials:
    """What is learned for a side while the trials of a campaign go by."""

    environment: Mapping[str, str] = field(default_factory=dict)
    controls: dict[str, float] = field(default_factory=dict)
    probe_s: list[float] = field(default_factory=list)

    def all_of(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        for trial in trials:
            self.add(trial)
            yield trial

    def add(self, trial: Trial) -> None:
        if not self.environment:
            self.environment = trial.environment
        measured = trial.measurement
        # A twin's measurement was taken once.
        if measured is None or trial.reused_from:
            return
        if trial.binary:
            self.controls[_kernel(trial)] = median(measured.times_s)
        probes_s = [measured.observed.get(name, math.nan) for name in PROBES]
        if all(0 < probe_s < math.inf for probe_s in probes_s):
            self.probe_s.append(sum(probes_s) / len(probes_s))


def _layer_time(campaign: Campaign, contest: Contest, best: Rival) -> LayerTime:
    workload = contest.task.workload
    estimate = best.trial.estimate
    default = contest.default
    is_paired = bool(best.default_times_s) and bool(default.binary)
    return LayerTime(
        key=workload,
        label=layer_label(workload),
        time=estimate.cycles if estimate else median(best.times_s),
        count=campaign.layers.get(workload),
        names=tuple(campaign.names.get(workload, ())),
        times_s=best.times_s,
        references={_kernel(default): best.default_times_s} if is_paired else {},
        candidate=best.trial.candidate,
        kernel=_kernel(best.trial) if best.trial.binary else "",
    )


def _gains(contest: Contest) -> Iterator[tuple[str, float]]:
    """What duels say of binaries that the other side may have timed against the same default."""
    for rival in contest.rivals:
        if rival.speedup is not None and rival.trial.binary and contest.default.binary and rival.times_s:
            yield f"{_kernel(contest.default)} {_kernel(rival.trial)}", rival.speedup.estimate


def _kernel(trial: Trial) -> str:
    return f"{trial.candidate.id} {trial.binary}"


def side_of_bench(results: Sequence[BenchResult], source: str) -> Side:
    """How this library did in a bench."""
    first = results[0]
    timed = [result for result in results if result.ours.outcome is Outcome.OK]
    return Side(
        source=source,
        name=first.bench,
        network="",
        conditions=Conditions(
            device=first.device,
            cpu=first.environment.get("gpu") or first.environment.get("cpu", ""),
            target=first.target,
            threads=str(first.threads),
            cache=cache_mode(first.environment),
        ),
        layers={result.workload: _bench_time(result) for result in timed},
        failed={each.workload: each.ours.error for each in results if each.ours.outcome is not Outcome.OK},
        environment=first.environment,
        started_at=first.started_at,
    )


def _bench_time(result: BenchResult) -> LayerTime:
    references = {_library(peer): peer.times_s for peer in result.peers if peer.times_s}
    if result.peak_ops_per_s:
        references[PEAK_LOOP] = tuple(1 / peak for peak in result.peak_ops_per_s)
    return LayerTime(
        key=result.workload,
        label=layer_label(result.workload),
        time=median(result.ours.times_s),
        times_s=result.ours.times_s,
        references=references,
        candidate=result.candidate,
    )


def _library(entrant: Entrant) -> str:
    return f"{entrant.name} {entrant.version}"

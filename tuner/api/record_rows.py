"""Records as rows with all that is known: a trial with its candidate, campaign, environment, device and duels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from int8tune.results.base import Store
from int8tune.results.label import layer_label
from int8tune.results.record import BenchResult, BoardEvent, Campaign, CampaignRun, DeviceCheck, Duel, Trial, runs_of
from int8tune.results.report.tables import Row, prefixed
from int8tune.results.stats import median
from int8tune.tuner.lab.recorded_layer import canonical
from int8tune.tuner.lab.recording import settled_times_s


def campaign_rows(store: Store, campaign: str | None = None) -> Iterator[Row]:
    """A row for each campaign."""
    for found in store.query(Campaign, campaign=campaign):
        yield {
            "campaign": found.name,
            "network": found.network,
            "device": found.device,
            "target": found.target,
            "strategy": found.strategy,
            "seed": found.seed,
            "trials_per_task": found.trials_per_task,
            "layers": len(found.layers),
            "runs": sum(found.layers.values()),
            "created_at": found.created_at,
        }


def run_rows(store: Store, campaign: str | None = None) -> Iterator[Row]:
    """A row for each run of the program for a campaign: host, user, command, version and commit, times and ending."""
    yield from map(asdict, runs_of(store.query(CampaignRun, campaign=campaign)))


def board_rows(store: Store, campaign: str | None = None) -> Iterator[Row]:
    """A row for each canary of a board, and each time that one went off: board, kind, canary_s, cause, happened_at."""
    for event in store.query(BoardEvent, campaign=campaign):
        yield asdict(event) | {"kind": event.kind.value}


def trial_rows(store: Store, campaign: str | None = None) -> Iterator[Row]:
    """A row for each trial, campaign by campaign.

    `time_s` is the median of the times, less what the machine was slower then; `times_s` are as they were measured.
    `duels.times_s` has a list for each duel of the candidate, `duels.other_times_s` what the other one took beside it.
    """
    checks = {(check.device, check.target): check for check in store.query(DeviceCheck)}
    for owner in list(store.query(Campaign, campaign=campaign)):
        trials = list(store.query(Trial, campaign=owner.name))
        duels = list(store.query(Duel, campaign=owner.name))
        times_s = settled_times_s(trials, duels)
        by_candidate = _by_candidate(duels)
        check = _of_check(checks.get((owner.device, owner.target)))
        for trial in trials:
            fought = _of_duels(by_candidate.get(trial.candidate.id, []))
            settled = {"time_s": times_s[trial.candidate.id]}
            environment = prefixed("environment", trial.environment)
            yield (
                _of_trial(trial)
                | settled
                | _of_measurement(trial)
                | _of_campaign(owner, trial)
                | fought
                | check
                | (environment)
            )


def duel_rows(store: Store, campaign: str | None = None) -> Iterator[Row]:
    """A row for each pair of times of each duel."""
    for duel in store.query(Duel, campaign=campaign):
        about = {
            "campaign": duel.campaign,
            "workload": duel.workload,
            "target": duel.target,
            "device": duel.device,
            "a": duel.a,
            "b": duel.b,
            "started_at": duel.started_at,
            **prefixed("environment", duel.environment),
        }
        for pair, (a_s, b_s) in enumerate(zip(duel.a_times_s, duel.b_times_s, strict=True)):
            yield about | {"pair": pair, "a_time_s": a_s, "b_time_s": b_s}


def device_rows(store: Store) -> Iterator[Row]:
    """A row for each check of a device."""
    for check in store.query(DeviceCheck):
        yield {
            "device": check.device,
            "target": check.target,
            "peak_ops_per_s": check.peak_ops_per_s,
            "noise": check.noise,
            "started_at": check.started_at,
            **prefixed("bandwidth_bytes_per_s", check.bandwidth_bytes_per_s),
            **prefixed("environment", check.environment),
        }


def bench_rows(store: Store) -> Iterator[Row]:
    """A row for each library on each layer of each comparison."""
    for result in store.query(BenchResult):
        for entrant in result.entrants:
            yield {
                "bench": result.bench,
                "workload": result.workload,
                "target": result.target,
                "device": result.device,
                "threads": result.threads,
                "template": result.candidate.template,
                "version": result.candidate.template_version,
                "config": canonical(result.candidate.config),
                "is_tuned": result.is_tuned,
                "library": entrant.name,
                "library_version": entrant.version,
                "library_workload": entrant.workload,
                "outcome": entrant.outcome.value,
                "times_s": entrant.times_s,
                "overhead_times_s": entrant.overhead_times_s,
                "error": entrant.error,
                "peak_ops_per_s": result.peak_ops_per_s,
                "started_at": result.started_at,
                **prefixed("environment", result.environment),
            }


def _of_trial(trial: Trial) -> Row:
    candidate = trial.candidate
    return {
        "target": candidate.target,
        "workload": candidate.workload,
        "template": candidate.template,
        "version": candidate.template_version,
        "config": canonical(candidate.config),
        "outcome": trial.outcome.value,
        "candidate_id": candidate.id,
        "sequence": trial.sequence,
        "device": trial.device,
        "label": layer_label(candidate.workload),
        "build_s": trial.build_s,
        "run_s": trial.run_s,
        "binary": trial.binary,
        "reused_from": trial.reused_from,
        "error_class": trial.error_class,
        "error": trial.error,
        "attempts": trial.attempts,
        "started_at": trial.started_at,
        **prefixed("config", candidate.config),
    }


def _of_measurement(trial: Trial) -> Row:
    measured = trial.measurement
    return {
        "median_s": median(measured.times_s) if measured else None,
        "times_s": measured.times_s if measured else None,
        "calls_per_repeat": measured.calls_per_repeat if measured else None,
        "estimated_cycles": trial.estimate.cycles if trial.estimate else None,
        **prefixed("observed", measured.observed if measured else {}),
    }


def _of_campaign(campaign: Campaign, trial: Trial) -> Row:
    workload = trial.candidate.workload
    return {
        "campaign": campaign.name,
        "network": campaign.network,
        "strategy": campaign.strategy,
        "seed": campaign.seed,
        "trials_per_task": campaign.trials_per_task,
        "campaign_created_at": campaign.created_at,
        "count": campaign.layers.get(workload),
        "names": tuple(campaign.names.get(workload, ())),
    }


def _by_candidate(duels: Sequence[Duel]) -> Mapping[str, Sequence[tuple[str, tuple[float, ...], tuple[float, ...]]]]:
    """The duels of each candidate: with whom, and both sides' times, its own first."""
    found: dict[str, list[Any]] = defaultdict(list)
    for duel in duels:
        found[duel.a].append((duel.b, duel.a_times_s, duel.b_times_s))
        found[duel.b].append((duel.a, duel.b_times_s, duel.a_times_s))
    return found


def _of_duels(duels: Sequence[tuple[str, tuple[float, ...], tuple[float, ...]]]) -> Row:
    others, own_s, other_s = zip(*duels, strict=True) if duels else ((), (), ())
    return prefixed("duels", {"count": len(duels), "other": others, "times_s": own_s, "other_times_s": other_s})


def _of_check(check: DeviceCheck | None) -> Row:
    known = {
        "peak_ops_per_s": check.peak_ops_per_s if check else None,
        "noise": check.noise if check else None,
        "checked_at": check.started_at if check else None,
    }
    bandwidth = prefixed("device.bandwidth_bytes_per_s", check.bandwidth_bytes_per_s if check else {})
    return prefixed("device", known) | bandwidth

"""What the tasks of a campaign learn from each other, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from campaigns import campaign_loop, network_of, trials_of
from results_samples import campaign, ok

from results.memory import MemoryStore
from results.record import CacheMode, Candidate, Trial
from schedules.registry import template_for
from schedules.target import Target
from schedules.workload import parse_workload
from tuner.campaign.plan import make_plan
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.task import BATCH
from tuner.campaign.teaching import Teacher, trials_before

KEYS = ("conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8", "conv2d-u8s8-1x6x9x24-k1x1x48-s1-p0-float.c-u8")


def trials_on(key: str, target: Target, count: int = 12) -> list[Trial]:
    workload = parse_workload(key)
    template = template_for(workload, target)
    configs = list(template.space(workload, target))[:count]
    return [
        ok(index, 1e-5 * (1 + index), chosen=Candidate(key, target.name, template.name, template.version, config))
        for index, config in enumerate(configs)
    ]


def test_nobody_knows_anything_at_first(generic: Target) -> None:
    assert Teacher(generic.name).prior("generic.direct") is None


def test_a_round_teaches_the_next_one(generic: Target) -> None:
    teacher = Teacher(generic.name)
    trials = trials_on(KEYS[0], generic)
    teacher.begin_round(trials)
    first = teacher.prior("generic.direct")
    assert first is not None
    assert first.layers == 1
    assert teacher.prior("generic.direct") is first
    assert teacher.prior("generic.depthwise") is None
    teacher.begin_round([*trials, *trials_on(KEYS[1], generic)])
    second = teacher.prior("generic.direct")
    assert second is not None
    assert second.layers == 2


def test_earlier_campaigns_teach_before_the_first_trial(generic: Target) -> None:
    prior = Teacher(generic.name, trials_on(KEYS[0], generic)).prior("generic.direct")
    assert prior is not None


def test_only_trials_of_this_device_target_and_cache_mode_from_before_the_campaign_count() -> None:
    """A trial that is recorded later must not change what a resumed campaign proposes."""
    store = MemoryStore()
    this = replace(campaign("this"), created_at="2026-03-02T00:00:00+00:00")
    store.append([campaign("before"), campaign("elsewhere"), this])
    early = ok(0, name="before")
    late = replace(ok(2, name="before"), started_at="2026-03-02T00:00:00.001+00:00")
    other_device = replace(ok(0, name="elsewhere"), device="board")
    other_target = ok(1, name="elsewhere", chosen=replace(ok(1).candidate, target="generic-znver5"))
    own = replace(ok(0, name="this"), started_at="2026-03-01T00:00:00+00:00")
    cold = replace(ok(1, name="before"), environment={"cache": "cold"})
    store.append([early, late, other_device, other_target, own, cold])
    assert trials_before(store, "this", CacheMode.WARM) == [early]
    assert trials_before(store, "this", CacheMode.COLD) == [cold]


@pytest.mark.timeout(120)
def test_no_task_is_a_round_ahead(generic: Target, tmp_path: Path) -> None:
    """The second batches begin when all first ones are measured, and the same trials are proposed in a second run."""
    spec = CampaignSpec("rounds", network_of(*KEYS), trials_per_task=BATCH + 3)
    runs = []
    for attempt in range(2):
        store = MemoryStore()
        folder = tmp_path / str(attempt)
        folder.mkdir()
        tasks = make_plan(spec.network, generic)
        with campaign_loop(spec, tasks, store, folder) as loop:
            loop.run()
        trials = sorted(trials_of(store, spec), key=lambda trial: trial.started_at)
        first = {task.index + len(tasks) * position for task in tasks for position in range(BATCH)}
        assert {trial.sequence for trial in trials[: len(first)]} == first
        assert len(trials) == len(tasks) * (BATCH + 3)
        runs.append({trial.sequence: trial.candidate.id for trial in trials if trial.sequence in first})
    assert runs[0] == runs[1]

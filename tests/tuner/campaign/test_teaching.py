"""What the tasks of a campaign learn from each other, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import CacheMode, Candidate, Trial
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.plan import make_plan
from int8tune.tuner.campaign.search import make_search
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign.task import BATCH
from int8tune.tuner.campaign.teaching import Teacher, trials_before
from int8tune.tuner.cost_model.features import FeatureEncoder
from tests.support.program.campaigns import campaign_loop, network_of, trials_of
from tests.support.program.results_samples import MODEL, campaign, estimated, ok

pytestmark = pytest.mark.alone

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
    assert Teacher().prior("generic.direct", generic) is None


def test_a_round_teaches_the_next_one(generic: Target) -> None:
    teacher = Teacher()
    trials = trials_on(KEYS[0], generic)
    teacher.begin_round(trials)
    first = teacher.prior("generic.direct", generic)
    assert first is not None
    assert first.layers == 1
    assert teacher.prior("generic.direct", generic) is first
    assert teacher.prior("generic.depthwise", generic) is None
    teacher.begin_round([*trials, *trials_on(KEYS[1], generic)])
    second = teacher.prior("generic.direct", generic)
    assert second is not None
    assert second.layers == 2


def test_earlier_campaigns_teach_before_the_first_trial(generic: Target) -> None:
    prior = Teacher(lambda: trials_on(KEYS[0], generic)).prior("generic.direct", generic)
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
    guess = estimated(2, name="elsewhere")
    store.append([early, late, other_device, other_target, own, cold, guess])
    assert trials_before(store, "this", CacheMode.WARM) == [early]
    assert trials_before(store, "this", CacheMode.COLD) == [cold]
    assert trials_before(store, "this", CacheMode.WARM, MODEL) == [guess]


def test_nobody_reads_earlier_trials_who_does_not_ask(generic: Target) -> None:
    asked = []

    def earlier() -> list[Trial]:
        asked.append(True)
        return trials_on(KEYS[0], generic)

    teacher = Teacher(earlier)
    teacher.begin_round(trials_on(KEYS[1], generic))
    assert asked == []
    for template in ("generic.direct", "generic.depthwise", "generic.direct"):
        teacher.prior(template, generic)
    assert asked == [True]


def test_each_trial_is_encoded_once(generic: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []
    matrix = FeatureEncoder.matrix
    monkeypatch.setattr(FeatureEncoder, "matrix", lambda self, rows: encoded.extend(rows) or matrix(self, rows))
    teacher = Teacher(lambda: trials_on(KEYS[0], generic))
    own = trials_on(KEYS[1], generic)
    for count in (4, 8, 12):
        teacher.begin_round(own[:count])
        assert teacher.prior("generic.direct", generic) is not None
    assert len(encoded) == 24


def test_a_model_is_learned_anew_when_there_is_enough_news(generic: Target) -> None:
    teacher = Teacher(lambda: trials_on(KEYS[0], generic), enough_news=0.25)
    own = trials_on(KEYS[1], generic)
    first = teacher.prior("generic.direct", generic)
    teacher.begin_round(own[:4])
    assert teacher.prior("generic.direct", generic) is first
    teacher.begin_round(own[:5])
    assert teacher.prior("generic.direct", generic) is not first


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_a_search_that_is_repeated_from_its_records_has_nothing_left(generic: Target, tmp_path: Path) -> None:
    """Whatever was measured, in whichever order: the records lead to the same turns."""
    spec = CampaignSpec("turns", network_of(*KEYS), trials_per_task=BATCH + 3, min_gain=0.0)
    store, tasks = MemoryStore(), make_plan(spec.network, generic)
    with campaign_loop(spec, tasks, store, tmp_path) as loop:
        assert loop.run() is Ending.FINISHED
    trials = trials_of(store, spec)
    assert len(trials) == len(tasks) * (BATCH + 3)
    assert make_search(spec, tasks, store).nothing_left()
    more = make_search(replace(spec, trials_per_task=2 * BATCH), tasks, store)
    assert not more.nothing_left()
    known = {trial.sequence for trial in trials}
    assert not known & {slot.sequence for slot in more.next_slots()}

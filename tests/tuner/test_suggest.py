"""Schedules for layers that nobody tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Candidate, Trial
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.suggest import Source, suggest
from tests.support.program.results_samples import campaign, estimated, ok
from tests.support.run.probes import any_target

TARGET = any_target("x86-avx512vnni")
OTHERS = ("conv2d-u8s8-1x7x7x64-k1x1x48-s1-p0-float.c-u8", "conv2d-u8s8-1x9x9x32-k1x1x64-s1-p0-float.c-u8")
LAYER = "conv2d-u8s8-1x8x8x48-k1x1x128-s1-p0-float.c-u8"


def space_of(key: str) -> ConfigSpace:
    return template_for(parse_workload(key), TARGET).space(parse_workload(key), TARGET)


def trials_on(keys: Sequence[str], time_s: Callable[[Config], float]) -> list[Trial]:
    """All configs of some layers in one campaign."""
    trials: list[Trial] = []
    for key in keys:
        template = template_for(parse_workload(key), TARGET)
        for config in space_of(key):
            candidate = Candidate(key, TARGET.name, template.name, template.version, config)
            trials.append(ok(len(trials), time_s(config), chosen=candidate))
    return trials


def store_with(trials: Sequence[Trial]) -> MemoryStore:
    store = MemoryStore()
    store.append([campaign("c1"), *trials])
    return store


def prefers_one_register(config: Config) -> float:
    """What no default would be."""
    return 1e-5 * int(config["tile_registers"]) ** 2


def test_without_records_it_is_the_default() -> None:
    suggestion = suggest(store_with([]), parse_workload(LAYER), TARGET, "local")
    assert (suggestion.source, suggestion.layers) == (Source.DEFAULT, 0)
    assert suggestion.candidate.config == space_of(LAYER).default


@pytest.mark.thorough
def test_other_layers_have_a_say_where_the_default_is_bad() -> None:
    assert int(space_of(LAYER).default["tile_registers"]) > 1
    store = store_with(trials_on(OTHERS, prefers_one_register))
    suggestion = suggest(store, parse_workload(LAYER), TARGET, "local")
    assert (suggestion.source, suggestion.layers) == (Source.OTHER_LAYERS, 2)
    assert suggestion.candidate.config["tile_registers"] == 1
    assert space_of(LAYER).fault(suggestion.candidate.config) is None


def test_the_default_stays_where_others_say_that_it_hardly_matters() -> None:
    store = store_with(trials_on(OTHERS, lambda config: 1e-5 * (1 + 0.02 * int(config["tile_registers"]))))
    assert suggest(store, parse_workload(LAYER), TARGET, "local").source is Source.DEFAULT


@pytest.mark.parametrize("changes", [{"device": "board"}, {"target": "x86-avx2"}])
def test_other_devices_and_targets_have_no_say(changes: dict[str, str]) -> None:
    trials = trials_on(OTHERS, prefers_one_register)
    if "target" in changes:
        trials = [replace(trial, candidate=replace(trial.candidate, **changes)) for trial in trials]
    else:
        trials = [replace(trial, **changes) for trial in trials]
    assert suggest(store_with(trials), parse_workload(LAYER), TARGET, "local").source is Source.DEFAULT


def test_estimates_have_a_say_where_nothing_was_measured() -> None:
    guesses = [
        estimated(trial.sequence, prefers_one_register(trial.candidate.config) * 1e9, chosen=trial.candidate)
        for trial in trials_on(OTHERS, prefers_one_register)
    ]
    assert suggest(store_with(guesses), parse_workload(LAYER), TARGET, "local").source is Source.OTHER_LAYERS
    measured = trials_on(OTHERS, lambda config: 1e-5 * (1 + 0.02 * int(config["tile_registers"])))
    store = store_with(guesses)
    store.append([campaign("c2"), *(replace(trial, campaign="c2") for trial in measured)])
    assert suggest(store, parse_workload(LAYER), TARGET, "local").source is Source.DEFAULT


def test_a_tuned_layer_keeps_its_own_schedule() -> None:
    own = [trial for trial in trials_on([LAYER], prefers_one_register) if trial.candidate.config["unroll"] == 1]
    store = store_with([replace(trial, sequence=index) for index, trial in enumerate(own)])
    suggestion = suggest(store, parse_workload(LAYER), TARGET, "local")
    assert suggestion.source is Source.RECORDS

"""Schedules ranked inside the network: which ones take part, and that the fastest set stays."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.schedule_choice import Choice, Schedules, Source
from int8tune.results.memory import MemoryStore
from int8tune.results.record import Candidate, Trial
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.models.ranking import MIXTURE, MOST_RIVALS, candidates, rank
from tests.support.models.onnx_models import MODELS, quantized, separable
from tests.support.program.results_samples import campaign, failed, ok
from tests.support.run.probes import host_target

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
pytestmark = pytest.mark.alone


def records(target: Target, choice: Choice, key: str, version: int) -> list[Trial]:
    """One trial per config of a layer, each slower than the one before; the first failed."""
    configs = list(choice.template.space(parse_workload(key), target))[:8]
    chosen = [Candidate(key, target.name, choice.template.name, version, config) for config in configs]
    trials = [replace(ok(index, 1e-6 * (index + 1), chosen=each), binary=each.id) for index, each in enumerate(chosen)]
    return [failed(0, chosen=chosen[0]), *trials[1:]]


def test_the_default_and_the_fastest_programs_take_part(tmp_path: Path) -> None:
    target = host_target("generic")
    graph = read_onnx(quantized(MODELS["concat"](), tmp_path, "u8", "s8", True), "net")
    workload = quantized_layers(graph)[0].workload
    default = Schedules(target).choose(workload)
    store = MemoryStore()
    store.append([campaign()])
    trials = records(target, default, workload.key, default.template.version)
    twin = replace(trials[2], binary=trials[1].binary)
    store.append([*trials[:2], twin, *trials[3:]])
    found = candidates(store, graph, target)
    assert set(found) == {layer.workload for layer in quantized_layers(graph)}
    first, *rivals = found[workload]
    assert first == default
    assert len(rivals) == MOST_RIVALS
    wanted = [trial.candidate.config for trial in (trials[1], *trials[3:])]
    assert [choice.config for choice in rivals] == [each for each in wanted if each != default.config][:MOST_RIVALS]
    assert all(len(choices) == 1 for key, choices in found.items() if key != workload)


def test_schedules_of_another_version_take_no_part(tmp_path: Path) -> None:
    target = host_target("generic")
    graph = read_onnx(quantized(MODELS["concat"](), tmp_path, "u8", "s8", True), "net")
    workload = quantized_layers(graph)[0].workload
    default = Schedules(target).choose(workload)
    store = MemoryStore()
    store.append([campaign(), *records(target, default, workload.key, default.template.version + 1)[1:]])
    assert candidates(store, graph, target)[workload] == [default]


def test_schedules_of_templates_that_are_gone_take_no_part(tmp_path: Path) -> None:
    target = host_target("generic")
    graph = read_onnx(quantized(MODELS["concat"](), tmp_path, "u8", "s8", True), "net")
    workload = quantized_layers(graph)[0].workload
    default = Schedules(target).choose(workload)
    gone = Candidate(workload.key, target.name, "generic.gone", 1, default.config)
    store = MemoryStore()
    store.append([campaign(), ok(0, 1e-6, chosen=gone)])
    assert candidates(store, graph, target)[workload] == [default]


@pytest.mark.thorough
def test_the_fastest_set_stays(native: Target, tmp_path: Path) -> None:
    # Calls of many microseconds: a profile adds some tenths of one to each.
    graph = read_onnx(quantized(separable(150, 150), tmp_path, "u8", "s8", True), "net")
    choices = {}
    for layer in quantized_layers(graph):
        default = Schedules(native).choose(layer.workload)
        space = default.template.space(layer.workload, native)
        other = next((config for config in space if config != dict(space.default)), dict(space.default))
        choices[layer.workload] = [default, Choice(default.template, dict(other), Source.NETWORK)]
    shape = graph.values[graph.inputs[0]].shape
    sample = np.zeros((shape[0], shape[3], *shape[1:3]), np.float32)
    cores = sorted(os.sched_getaffinity(0))[:1]
    ranking = rank(graph, native, choices, cores, [sample], tmp_path)
    assert list(ranking.times_s) == ["defaults", "choice 1", "the best of each"]
    assert ranking.times_s[ranking.best.name] == min(ranking.times_s.values())
    assert 0.5 < ranking.predicted_s / ranking.times_s[MIXTURE] < 2
    for workload, options in choices.items():
        assert ranking.best.chosen.choose(workload).config in [choice.config for choice in options]

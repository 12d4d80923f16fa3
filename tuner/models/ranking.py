"""Schedules ranked inside the network: between their real neighbours, with what those leave in the caches.

A schedule that is fastest in a loop of its own need not be that here. So the network is compiled with every layer's
default, with every layer's best, and with what came next; all are profiled in turn, and each layer gets the schedule
whose calls took the least time. The network made of these is timed beside the others, and the fastest one stays: no
set of schedules is kept that makes the network slower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from int8tune.compiler.about import About
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.graph import Graph
from int8tune.compiler.program import Array
from int8tune.compiler.quantized_layers import quantized_layers
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.schedule_choice import Choice, Chosen, Schedules, Source, usable
from int8tune.results.base import Store
from int8tune.results.drift import fastest_first
from int8tune.results.record import Trial, as_in_networks
from int8tune.results.stats import median
from int8tune.results.stores import DEFAULT_FOLDER, is_url
from int8tune.rpc.request import Timing
from int8tune.rpc.session.timing import time_in_turn
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.bench.contestant import Contestant, Contestants
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.errors import BenchError
from int8tune.tuner.folders import STORE_FILE
from int8tune.tuner.models.arrays import read_arrays, write_arrays
from int8tune.tuner.models.compiling import compile_apart
from int8tune.tuner.models.drawn_samples import drawn_samples
from int8tune.tuner.models.race import WORKER
from int8tune.tuner.models.runtimes import OWN
from int8tune.tuner.publish import open_records
from int8tune.tuner.work_folder import work_folder

# Beside the default: the fastest schedules of each layer.
MOST_RIVALS = 3
ROUNDS, RUNS = 3, 20
TIMING = Timing(repeats=20, min_repeat_s=0.02)
DEFAULTS, MIXTURE = "defaults", "the best of each"


@dataclass(frozen=True, slots=True)
class Variant:
    """The network with one choice for every layer."""

    name: str
    chosen: Chosen
    about: About
    library: Path


@dataclass(frozen=True, slots=True)
class Ranking:
    """What came out.

    Attributes:
        best: the fastest variant.
        times_s: median seconds of a run by variant, in the order in which they were made.
        predicted_s: of `MIXTURE`: the time of `DEFAULTS` less what the profiles say that each layer saves.
    """

    best: Variant
    times_s: Mapping[str, float]
    predicted_s: float


def candidates(store: Store | None, graph: Graph, target: Target) -> dict[Workload, list[Choice]]:
    """For each layer its default, then the fastest exact schedules in the records."""
    found = {}
    for layer in quantized_layers(graph):
        default = Schedules(target).choose(layer.workload)
        rivals = [] if store is None else _fastest(store, layer.workload, target)
        others = [choice for choice in rivals if choice != replace(default, source=Source.NETWORK)]
        found[layer.workload] = [default, *others[:MOST_RIVALS]]
    return found


def rank_on_this_machine(graph: Graph, target: Target, results: str | Path, report: Report = ignore) -> Ranking:
    """Rank the schedules in the records of a folder, or at a URL, on the cores that measure.

    Raises:
        StoreError: the records can't be read.
        BenchError: a variant failed.
    """
    cores, building = measuring_and_build_cores(target.threads)
    sample = [array[0] for array in drawn_samples(with_file_layouts(graph), 1, 0)]
    with ExitStack() as stack:
        elsewhere = is_url(results)
        files = DEFAULT_FOLDER if elsewhere else Path(results)
        store = stack.enter_context(open_records(results)) if elsewhere or (files / STORE_FILE).exists() else None
        folder = stack.enter_context(work_folder(files, "ranking"))
        stack.enter_context(bound_to(building))
        return rank(graph, target, candidates(store, graph, target), cores, sample, folder, report)


def rank(
    graph: Graph,
    target: Target,
    choices: Mapping[Workload, Sequence[Choice]],
    cores: Sequence[int],
    sample: Sequence[Array],
    folder: Path,
    report: Report = ignore,
) -> Ranking:
    """Compile the variants into the folder, profile them, and race the best mixture with them.

    Args:
        choices: for each layer, its default first.
        cores: of as many threads as the target has.
        sample: an array for each input of the model.

    Raises:
        BenchError: a variant failed.
    """
    depth = max(map(len, choices.values()), default=1)
    variants = []
    for place in range(depth):
        chosen = Chosen({workload: each[min(place, len(each) - 1)] for workload, each in choices.items()})
        variants.append(_variant(graph, target, chosen, f"choice {place}" if place else DEFAULTS, folder, report))
    write_arrays(folder / "samples.npz", [array[None] for array in sample])
    with Contestants(WORKER) as contestants:
        seats = [contestants.add(cores, OWN.name) for _ in variants]
        report("profiling", 0, 1)
        times_s = [
            _profile(seat, variant, folder)
            for _ in range(ROUNDS)
            for seat, variant in zip(seats, variants, strict=True)
        ]
        totals_s = _totals(variants, [times_s[index :: len(variants)] for index in range(len(variants))])
        best = {workload: min(by_variant, key=by_variant.__getitem__) for workload, by_variant in totals_s.items()}
        mixture = Chosen({workload: variants[index].chosen.choose(workload) for workload, index in best.items()})
        variants.append(_variant(graph, target, mixture, MIXTURE, folder, report))
        seats.append(contestants.add(cores, OWN.name))
        _load(seats[-1], variants[-1], folder, {})
        report("timing", 0, 1)
        raced, _ = time_in_turn(seats, TIMING)
    medians = {variant.name: median(values) for variant, values in zip(variants, raced, strict=True)}
    fastest = min(variants, key=lambda variant: medians[variant.name])
    saved_s = sum(totals_s[workload][0] - totals_s[workload][index] for workload, index in best.items())
    return Ranking(fastest, medians, medians[DEFAULTS] - saved_s)


def _fastest(store: Store, workload: Workload, target: Target) -> list[Choice]:
    """The fastest exact trials of a layer, each program once, that this version can still make."""
    trials = [
        trial
        for trial in as_in_networks(store.query(Trial, workload=workload.key, target=target.name))
        if trial.measurement is not None
    ]
    programs: dict[str, Trial] = {}
    for trial in sorted(trials, key=fastest_first):
        programs.setdefault(trial.binary, trial)
    choices = (usable(trial.candidate, workload, target, Source.NETWORK) for trial in programs.values())
    return [choice for choice in choices if choice is not None]


def _variant(graph: Graph, target: Target, chosen: Chosen, name: str, folder: Path, report: Report) -> Variant:
    def report_of_it(doing: str, done: int, total: int) -> None:
        report(f"{name}: {doing}", done, total)

    library = folder / f"{name.replace(' ', '-')}.so"
    compiled = compile_apart(graph, target, chosen, library, report=report_of_it)
    return Variant(name, chosen, compiled.about, library)


def _profile(seat: Contestant, variant: Variant, folder: Path) -> Array:
    """Median seconds of each call of a kernel [calls]."""
    times = folder / "times.npz"
    _load(seat, variant, folder, {"profile": RUNS, "times": str(times)})
    medians: Array = np.median(read_arrays(times)[0], axis=1)
    return medians


def _load(seat: Contestant, variant: Variant, folder: Path, more: Mapping[str, object]) -> None:
    files = {"samples": str(folder / "samples.npz"), "outputs": str(folder / "outputs.npz")}
    if seat.load({"model": str(variant.library), **files, **more}) is None:
        raise BenchError(f"{variant.name} failed: {seat.failure}")


def _totals(variants: Sequence[Variant], times_s: Sequence[Sequence[Array]]) -> dict[Workload, dict[int, float]]:
    """Seconds of all calls of a layer in each variant, by the medians of the rounds."""
    totals_s: dict[Workload, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for index, (variant, rounds) in enumerate(zip(variants, times_s, strict=True)):
        calls = [call for call in variant.about.calls if call["kernel"]]
        for call, time_s in zip(calls, np.median(rounds, axis=0), strict=True):
            if call["schedule"]:
                totals_s[parse_workload(call["computes"])][index] += float(time_s)
    return totals_s

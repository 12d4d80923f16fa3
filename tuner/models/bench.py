"""A compiled model and other runtimes with the same model, timed in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.pytest_benchmark import Timed
from int8tune.rpc.request import Timing
from int8tune.tuner.bench.contestant import disturbance
from int8tune.tuner.bench.peers.registry import missing_distributions
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.errors import BenchSpecError, NoPeersError
from int8tune.tuner.models.accuracy import Difference, differences
from int8tune.tuner.models.checks import Check, model_of, seats_of
from int8tune.tuner.models.race import Entry, Result, race
from int8tune.tuner.models.runtimes import ON_REQUEST, PEERS, REFERENCES, UNQUANTIZED, Runtime

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ModelBench:
    """What came out of a model's bench.

    Attributes:
        results: this library's first.
        differences: of this library's outputs from those of the model's own runtime; None if that is not installed.
        disturbance: what makes the times doubtful; empty where nothing does.
    """

    model: str
    threads: int
    results: tuple[Result, ...]
    differences: tuple[Difference, ...] | None
    disturbance: str = ""

    def timed(self) -> list[Timed]:
        """A benchmark for each runtime that ran it."""
        return [
            Timed(
                name=f"{result.entry.label}[{self.model}]",
                group=self.model,
                times_s=result.times_s,
                about={"library": result.entry.label, "version": result.version, "threads": self.threads},
            )
            for result in self.results
            if result.times_s
        ]


def bench_model(check: Check, peers: Sequence[Runtime], unquantized: Path | None, timing: Timing) -> ModelBench:
    """Time a model in every runtime that reads its file; with `unquantized`, that model too.

    Raises:
        ModelError: the model can't be compiled.
        NoPeersError: no runtime that reads the file is installed.
        BenchError: the compiled model failed.
    """
    graph, entries = model_of(check.model, check.given), _entries(check.model, peers, unquantized)
    reference = REFERENCES[check.model.suffix.lower()]
    judges = [] if missing_distributions(reference.requires) else [Entry(reference.name, reference, check.model)]
    _, building = measuring_and_build_cores(check.threads)
    with bound_to(building), seats_of(check, graph, [*judges, *entries]) as (own, *others):
        compared = None
        for judge in others[: len(judges)]:
            if not own.contestant.failure and not judge.contestant.failure:
                compared = tuple(differences(graph, own.outputs, judge.outputs))
            judge.contestant.close()
        racing = [own, *others[len(judges) :]]
        results = race(racing, timing)
    disturbed = disturbance([turn for seat in racing for turn in seat.contestant.turns])
    return ModelBench(graph.name, check.threads, tuple(results), compared, disturbed)


def _entries(model: Path, peers: Sequence[Runtime], unquantized: Path | None) -> list[Entry]:
    """The runtimes that read the files."""
    entries = [Entry(peer.name, peer, model) for peer in peers if model.suffix.lower() in peer.suffixes]
    for peer in peers:
        if unquantized is not None and unquantized.suffix.lower() in peer.suffixes:
            runtime = UNQUANTIZED.get(peer.name, peer)
            entries.append(Entry(f"{peer.name}, fp32", runtime, unquantized, takes_numbers=True))
    if not entries:
        raise NoPeersError(f"no runtime that reads {model.suffix} is installed")
    return entries


def runtimes_named(names: Sequence[str] | None) -> tuple[Runtime, ...]:
    """The runtimes to compare with that are installed: those of these names, or all that need not be asked for.

    Raises:
        BenchSpecError: there is no runtime of a name.
        NoPeersError: none is installed.
    """
    known = {peer.name: peer for peer in (*PEERS, *ON_REQUEST)}
    for name in names or ():
        if name not in known:
            raise BenchSpecError(f"unknown runtime `{name[:_SHOWN]}`, known: {', '.join(known)}")
    wanted = [peer for peer in known.values() if (peer in PEERS if names is None else peer.name in names)]
    found = tuple(peer for peer in wanted if not missing_distributions(peer.requires))
    if not found:
        raise NoPeersError(f"none of the runtimes to compare with is installed: {', '.join(p.name for p in wanted)}")
    return found

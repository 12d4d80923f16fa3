"""`int8tune lab --against metaschedule`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.tuner.cli.options import Format
from int8tune.tuner.cli.output import emit, emit_json, say
from int8tune.tuner.cli.stopping import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from int8tune.results.bench import LayerFacts
    from int8tune.results.search import RaceLayer
    from int8tune.rpc.inventory.boards import Board
    from int8tune.tuner.metaschedule.spec import RaceSpec

_SHOWN = 60


def make_race(
    names: Sequence[str], against: str, trials: int, target: str | None, batch: int = 1, board: Board | None = None
) -> RaceSpec:
    """What was asked for.

    Args:
        board: a GPU of this machine; None: its CPU.

    Raises:
        BenchSpecError: nobody knows the other tuner, no layer was named, or a number is out of its range.
    """
    from int8tune.tuner.bench.layers import choose_layers
    from int8tune.tuner.errors import BenchSpecError
    from int8tune.tuner.metaschedule.spec import PEER_NAME, RaceSpec

    if against != PEER_NAME:
        raise BenchSpecError(f"unknown tuner `{against[:_SHOWN]}`, known: {PEER_NAME}")
    if not names:
        raise BenchSpecError("--against needs the layers to race on, such as resnet18 or a workload key")
    return RaceSpec(choose_layers(names, batch=batch), trials, profile=target, board=board)


def race(spec: RaceSpec, results: Path, form: Format) -> int:
    """Race, and print what came of it; the exit code. Layers that were done before a stop are shown, too."""
    from int8tune.results.report.search import render_search, search_as_dict
    from int8tune.results.search import summarize_search
    from int8tune.tuner.bench.gpu.layers import GpuLayerClass
    from int8tune.tuner.bench.layers import LayerClass
    from int8tune.tuner.cli.stopping import StopRequest
    from int8tune.tuner.metaschedule.race import run_race

    facts = _facts(spec)
    progress = _Progress(facts)
    with StopRequest() as stop:
        name = run_race(spec, results, progress, stop)
        classes = tuple(LayerClass) if spec.board is None else tuple(GpuLayerClass)
        summary = summarize_search(progress.race_layers, facts, classes)
        if form is Format.JSON:
            emit_json({"race": name} | search_as_dict(summary))
        elif progress.race_layers:
            emit(render_search(summary))
    return INTERRUPTED if stop.requested else 0


def _facts(spec: RaceSpec) -> Mapping[str, LayerFacts]:
    from int8tune.results.bench import LayerFacts
    from int8tune.tuner.bench.gpu.layers import gpu_class_of
    from int8tune.tuner.bench.layers import class_of

    own = class_of if spec.board is None else gpu_class_of
    return {workload.key: LayerFacts(workload.macs, own(workload)) for workload in spec.layers}


class _Progress:
    """Says what came out of each layer, and keeps it."""

    def __init__(self, facts: Mapping[str, LayerFacts]) -> None:
        self.race_layers: list[RaceLayer] = []
        self._facts = facts

    def __call__(self, race_layer: RaceLayer) -> None:
        from int8tune.results.bench import bench_row
        from int8tune.results.report.format import interval

        self.race_layers.append(race_layer)
        row = bench_row(race_layer.result, self._facts[race_layer.result.workload])
        words = [f"{len(self.race_layers)}/{len(self._facts)}", row.label, row.verdict.value]
        words += [interval(row.ratio)] if row.ratio else []
        words += [f"{entrant.name}: {entrant.error}" for entrant in race_layer.result.entrants if entrant.error]
        say("  ".join(words))

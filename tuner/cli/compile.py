"""`int8tune compile`"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli.options import (
    DEFAULT_RESULTS,
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    ResultsOption,
    ShapeOption,
    TargetOption,
    ThreadsOption,
    UntilOption,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say, size

if TYPE_CHECKING:
    from int8tune.compiler.graph import Graph
    from int8tune.compiler.schedule_choice import Chooser
    from int8tune.schedules.target import Target
    from int8tune.tuner.api.compiling import CompiledFile

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A quantized model (.tflite, .onnx).")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The shared library to write.")]
LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="A best log with schedules, in place of the records."),
]
RankOption = Annotated[
    bool,
    typer.Option("--rank", help="Time each layer's fastest schedules inside the network, and keep the fastest set."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show every call, and which layers it computes.")]


def compile_(
    model: ModelArgument,
    output: OutputOption,
    results: ResultsOption = DEFAULT_RESULTS,
    log: LogOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = 1,
    ranked: RankOption = False,
    verbose: VerboseOption = False,
    bind: BindOption = None,
    shape: ShapeOption = None,
    until: UntilOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Compile a quantized model into a shared library.

    It needs TVM's runtime alone. Its layers get the best schedules in the records, or their templates' defaults; with
    --rank, those that are fastest beside their neighbours. It computes what the model's own runtime does: TFLite's
    reference kernels, or ONNX Runtime. Operators of ONNX that no integer kernel computes run in float, and are named.

    An ONNX model whose inputs have open extents is compiled for the --shape of each; --shape x=1x128,1x256 makes one
    library for both. With --until NAME it ends at a value in place of its outputs, such as before a NonMaxSuppression.

    Compiled kernels are kept in the user's cache for later compilations; INT8TUNE_NO_CACHE=1 does without that.

    Example: int8tune compile mobilenet_v2.tflite -o mobilenet_v2.so
    """
    from int8tune.tuner.api.compiling import compile_graphs, read_models
    from int8tune.tuner.cli.waiting import waiting
    from int8tune.tuner.models.given import bindings, shapes_of
    from int8tune.tuner.models.schedules import device_target, schedules_for

    if ranked and log is not None:
        raise typer.BadParameter("--rank takes schedules from the records, --log from a file: give one of them")
    graphs = read_models(model, bindings(bind), shapes_of(shape), until)
    if ranked and len(graphs) > 1:
        raise typer.BadParameter(f"--rank times one shape of the inputs: {len(graphs)}")
    chosen = device_target(target, threads)
    schedules = _ranked(graphs[0], chosen, results) if ranked else schedules_for(chosen, results, log)
    with waiting("starting") as report:
        made = compile_graphs(graphs, chosen, schedules, output, report)
    about = made.about
    if form is Format.JSON:
        calls = [{name: call[name] for name in ("layers", "computes", "schedule", "output")} for call in about.calls]
        parts = {"exact": about.exact, "floats": dict(about.floats), "int8_share": about.int8_share}
        emit_json(
            {
                "model": about.model,
                "target": about.target,
                "library": str(output),
                **parts,
                "kernels": asdict(made.kernels),
                "calls": calls,
            }
        )
        return
    if verbose:
        emit(aligned([("computes", "schedule", "layers"), *map(_cells, about.calls)], numbers=()))
    _say_summary(made)


def _ranked(graph: Graph, target: Target, results: str | Path) -> Chooser:
    from int8tune.results.report.format import milliseconds
    from int8tune.tuner.cli.waiting import waiting
    from int8tune.tuner.models.ranking import MIXTURE, rank_on_this_machine

    with waiting("starting") as report:
        ranking = rank_on_this_machine(graph, target, results, report)
    for name, time_s in ranking.times_s.items():
        predicted = f", predicted {milliseconds(ranking.predicted_s)} ms" if name == MIXTURE else ""
        say(f"{milliseconds(time_s):>8} ms  {name}{predicted}{', which stays' if name == ranking.best.name else ''}")
    return ranking.best.chosen


def _say_summary(made: CompiledFile) -> None:
    about = made.about
    sources = ", ".join(f"{count} by {source}" for source, count in made.sources.items())
    layers = f"{sum(made.sources.values())} layers ({sources})" if sources else "no layers"
    say(f"{about.model}: {layers}, {made.others} other operators, for {about.target}")
    if about.floats:
        from int8tune.compiler.obstacles import exactness

        kinds = ", ".join(f"{count:,} {name}" for name, count in about.floats.items())
        say(f"{about.model}: {exactness(about.exact, about.floats, about.int8_share)}: {kinds}")
    if about.sizes:
        shapes = [
            " and ".join("x".join(map(str, form["shape"])) for form in each.inputs) for each in (about, *about.sizes)
        ]
        say(f"{about.model}: for inputs of {'; '.join(shapes)}, the first of which is told of above")
    say(f"kernels  {made.kernels.compiled:,} compiled, {made.kernels.reused:,} from the cache of earlier compilations")
    say(f"written  {made.library} ({size(made.library.stat().st_size)})")


def _cells(call: Mapping[str, Any]) -> tuple[str, str, str]:
    schedule = f"{call['schedule']['template']}, {call['schedule']['source']}" if call["schedule"] else ""
    return call["computes"], schedule, "; ".join(call["layers"])

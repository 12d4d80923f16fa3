"""`int8tune bench`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DEFAULT_RESULTS,
    BatchOption,
    BenchmarkJsonOption,
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    RecordsFolderOption,
    ShapeOption,
    TargetOption,
    UntilOption,
    whole_number,
)
from int8tune.tuner.cli.output import emit, emit_json, say
from int8tune.tuner.cli.stopping import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from int8tune.results.bench import LayerFacts
    from int8tune.results.record import BenchResult
    from int8tune.tuner.bench.run import BenchSpec

EXAMPLE_CLASS = "depthwise"

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NETWORK|KEY]...",
        autocompletion=completing.networks,
        help="Networks, models, layer tables or keys.",
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAMES",
        autocompletion=completing.peers,
        help="Libraries, separated by commas; all if left out.",
    ),
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", parser=whole_number, help="Threads of each library.")
]
RunsOption = Annotated[int, typer.Option("--runs", metavar="N", parser=whole_number, help="Turns of each library.")]
RunMsOption = Annotated[
    int, typer.Option("--run-ms", metavar="MS", parser=whole_number, help="Milliseconds of a turn.")
]
WithoutAmxOption = Annotated[
    bool, typer.Option("--without-amx", help="Let no library use AMX, as on a CPU that has none.")
]
LayersOption = Annotated[bool, typer.Option("--layers", help="Compare a model's layers, not the whole.")]
FloatOption = Annotated[
    Path | None,
    typer.Option("--float", metavar="FILE", help="The float model, to be timed beside it."),
]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="CLASS", help=f"Layers of one class, such as {EXAMPLE_CLASS} or first."),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="BOARD",
        autocompletion=completing.boards,
        help="A GPU for layers, another board for models.",
    ),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="NAME",
        autocompletion=completing.templates,
        help="Run this template's fastest trial or default.",
    ),
]


def bench(
    names: NamesArgument = None,
    results: RecordsFolderOption = DEFAULT_RESULTS,
    target: TargetOption = None,
    against: AgainstOption = None,
    threads: ThreadsOption = 1,
    runs: RunsOption = 20,
    run_ms: RunMsOption = 20,
    only: OnlyOption = None,
    without_amx: WithoutAmxOption = False,
    layers_only: LayersOption = False,
    unquantized: FloatOption = None,
    batch: BatchOption = 1,
    bind: BindOption = None,
    shape: ShapeOption = None,
    until: UntilOption = None,
    template: TemplateOption = None,
    device: DeviceOption = None,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    benchmark_json: BenchmarkJsonOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Compare models or layers with other libraries.

    Those are ONNX Runtime, OpenVINO, oneDNN and LiteRT; on a GPU (--device), cuBLASLt and PyTorch. Models are
    compared whole; with --layers, and of all else (six networks, if nothing is named), layers are. Each library has
    its own process and takes turns with the others, beside a loop that measures the peak. Ours runs recorded bests.
    Results are recorded.

    Example: int8tune bench resnet50 --only first --against onednn,openvino
    """
    from int8tune.results.atomic import require_folder
    from int8tune.rpc.inventory.file import read_inventory
    from int8tune.rpc.request import Timing
    from int8tune.tuner.api.bench import cpu_spec, gpu_spec, is_of_models, require_no_amx
    from int8tune.tuner.api.bench_boards import runs_models
    from int8tune.tuner.bench.gpu.site import require_gpu
    from int8tune.tuner.cli.bench_model import show_models, show_on_board
    from int8tune.tuner.models.given import bindings, given_of, shapes_of

    if benchmark_json is not None:
        require_folder(benchmark_json)
    given = given_of(bindings(bind), shapes_of(shape), until)
    timing, libraries = Timing(runs, run_ms / 1e3), None if against is None else against.split(",")
    if device is not None:
        if threads != 1 or without_amx or unquantized:
            raise typer.BadParameter("--threads, --without-amx and --float are for a CPU: leave --device out")
        board = read_inventory(inventory).board(device)
        if runs_models(board) and is_of_models(names or [], only=only, layers=layers_only):
            if benchmark_json is not None:
                raise typer.BadParameter("--benchmark-json is for this machine: boards have --format json")
            models = [Path(name) for name in names or []]
            show_on_board(models, board, results, libraries, timing, given, form)
            return 0
        require_gpu(board)
        spec = gpu_spec(names or [], only, batch, libraries, timing, target, board, template, _note, given)
        return _bench(spec, results, form, benchmark_json)
    if without_amx:
        require_no_amx()
    if is_of_models(names or [], only=only, layers=layers_only):
        models = [Path(name) for name in names or []]
        shown = show_models(models, unquantized, results, target, threads, libraries, timing, given, form)
        if benchmark_json is not None:
            shown.write_benchmarks(benchmark_json)
        return 0
    spec = cpu_spec(names or [], only, batch, libraries, threads, timing, target, template, _note, given)
    return _bench(spec, results, form, benchmark_json)


def _note(text: str) -> None:
    say(f"note: {text}")


def _bench(spec: BenchSpec, results: Path, form: Format, benchmark_json: Path | None) -> int:
    from int8tune.results.report.bench import bench_as_dict
    from int8tune.tuner.api.bench import bench_layers, facts_of
    from int8tune.tuner.cli.stopping import StopRequest

    with StopRequest() as stop:
        found = bench_layers(spec, results, _Progress(facts_of(spec)), stop, _note)
        if found.left_out:
            layers = "layer is" if len(found.left_out) == 1 else "layers are"
            which = f"{spec.template} does not take" if spec.template else "no template takes"
            _note(f"{len(found.left_out)} {layers} left out, {which} such: {found.left_out[0].key}")
        if benchmark_json is not None:
            found.write_benchmarks(benchmark_json)
        if form is Format.JSON:
            emit_json({"bench": found.name} | bench_as_dict(found.summary))
        elif found.summary.rows:
            emit(str(found))
    return INTERRUPTED if stop.requested else 0


class _Progress:
    """Says what came out of each layer."""

    def __init__(self, facts: Mapping[str, LayerFacts]) -> None:
        self._facts = facts
        self._done = 0

    def __call__(self, result: BenchResult) -> None:
        from int8tune.results.bench import bench_row
        from int8tune.results.report.format import interval

        self._done += 1
        row = bench_row(result, self._facts[result.workload])
        best = row.best_peer.entrant.name if row.best_peer else ""
        words = [row.label, row.verdict.value, *([f"{interval(row.ratio)} against {best}"] if row.ratio else [])]
        say("  ".join([f"{self._done}/{len(self._facts)}", *words]))

"""`int8tune bench`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DEFAULT_RESULTS,
    BatchOption,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    ResultsOption,
    TargetOption,
    whole_number,
)
from int8tune.tuner.cli.output import emit, emit_json, say
from int8tune.tuner.cli.stopping import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from int8tune.results.bench import LayerFacts
    from int8tune.results.record import BenchResult
    from int8tune.rpc.inventory.boards import Board
    from int8tune.rpc.request import Timing
    from int8tune.schedules.workload import Workload
    from int8tune.tuner.bench.gpu.peers.base import GpuPeer
    from int8tune.tuner.bench.peers.base import Peer
    from int8tune.tuner.bench.run import BenchSpec

INSTALL = "pip install 'int8tune[peers]'"
INSTALL_FOR_GPU = "pip install 'int8tune[gpu-peers]'"
EXAMPLE_CLASS = "depthwise"

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NETWORK|KEY]...", help="Networks, models, layer tables, workload keys; six networks if left out."
    ),
]
AgainstOption = Annotated[
    str | None, typer.Option("--against", metavar="NAMES", help="Libraries, separated by commas; all if left out.")
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", parser=whole_number, help="Threads of each library, on as many cores.")
]
RunsOption = Annotated[
    int, typer.Option("--runs", metavar="N", parser=whole_number, help="How often each library takes its turn.")
]
RunMsOption = Annotated[
    int, typer.Option("--run-ms", metavar="MS", parser=whole_number, help="How long a turn takes, in milliseconds.")
]
WithoutAmxOption = Annotated[
    bool, typer.Option("--without-amx", help="Let no library use AMX, as on a CPU that has none.")
]
LayersOption = Annotated[bool, typer.Option("--layers", help="Compare a model's layers, not the whole.")]
FloatOption = Annotated[
    Path | None,
    typer.Option("--float", metavar="FILE", help="The model before it was quantized, to be timed beside it."),
]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="CLASS", help=f"Layers of one class, such as {EXAMPLE_CLASS} or first."),
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="BOARD", help="A GPU of this machine, by its name in the inventory."),
]
TemplateOption = Annotated[
    str | None,
    typer.Option("--template", metavar="NAME", help="Run this template's fastest trial or default, not the best one."),
]


def bench(
    names: NamesArgument = None,
    results: ResultsOption = DEFAULT_RESULTS,
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
    template: TemplateOption = None,
    device: DeviceOption = None,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Compare models or layers with other libraries.

    Those are ONNX Runtime, OpenVINO, oneDNN and LiteRT; on a GPU (--device), cuBLASLt and PyTorch. Models (.tflite,
    .onnx) are compared whole, with the runtimes that read them; with --layers, and of all else, layers are.

    Each library runs in a process of its own and takes turns with the others, beside a loop that measures the peak.
    This one runs the best schedules in the records, or its defaults. The results are added to the records.

    Example: int8tune bench resnet50 --only first --against onednn,openvino
    """
    from int8tune.compiler.network_file import is_model
    from int8tune.rpc.local.tile_registers import deny_tile_registers
    from int8tune.rpc.request import Timing
    from int8tune.tuner.bench.layers import choose_layers, class_named
    from int8tune.tuner.bench.run import BenchSpec
    from int8tune.tuner.cli.bench_model import bench_models
    from int8tune.tuner.errors import BenchSpecError

    if device is not None:
        if threads != 1 or without_amx or unquantized:
            raise typer.BadParameter("--threads, --without-amx and --float are for CPUs, --device for a GPU")
        board = gpu_of(inventory, device)
        spec = _spec_on_gpu(names or [], only, batch, against, Timing(runs, run_ms / 1e3), target, board, template)
        return _bench(spec, results, form)
    if without_amx and not deny_tile_registers():
        raise BenchSpecError("--without-amx needs Linux on x86-64, and leave to filter system calls (seccomp)")
    timing = Timing(runs, run_ms / 1e3)
    if names and not layers_only and only is None and all(map(is_model, names)):
        bench_models([Path(name) for name in names], unquantized, results, target, threads, against, timing, form)
        return 0
    layers = choose_layers(names or [], None if only is None else class_named(only), batch)
    spec = BenchSpec(layers, _peers(against), threads, timing, target, template=_known(template))
    return _bench(spec, results, form)


def gpu_of(inventory: Path, name: str) -> Board:
    """The board of the inventory.

    Raises:
        BenchSpecError: it is no GPU of this machine.
        InventoryError: the inventory can't be read.
        UnknownBoardError: it has no such board.
    """
    from int8tune.rpc.inventory.file import read_inventory
    from int8tune.tuner.bench.gpu.site import require_gpu

    board = read_inventory(inventory).board(name)
    require_gpu(board)
    return board


def _spec_on_gpu(
    names: list[str],
    only: str | None,
    batch: int,
    against: str | None,
    timing: Timing,
    profile: str | None,
    board: Board,
    template: str | None,
) -> BenchSpec:
    from int8tune.tuner.bench.gpu.layers import GpuLayerClass, gpu_class_of
    from int8tune.tuner.bench.layers import choose_layers, class_named
    from int8tune.tuner.bench.run import BenchSpec

    chosen = None if only is None else class_named(only, GpuLayerClass)
    layers = choose_layers(names, chosen, batch, gpu_class_of)
    own, worker = _known(template), "int8tune.tuner.bench.gpu.worker"
    return BenchSpec(layers, _gpu_peers(against), 1, timing, profile, worker, board, own)


def _known(template: str | None) -> str | None:
    """Raises: UnknownTemplateError: there is no such template."""
    from int8tune.schedules.registry import template_named

    return template_named(template).name if template else None


def _bench(spec: BenchSpec, results: Path, form: Format) -> int:
    from int8tune.results.bench import bench_results, summarize_bench
    from int8tune.results.report.bench import bench_as_dict, render_bench
    from int8tune.tuner.bench.run import run_bench
    from int8tune.tuner.cli.stopping import StopRequest
    from int8tune.tuner.publish import open_records

    facts = _facts(spec)
    with StopRequest() as stop:
        left_out: list[Workload] = []
        leave_out = left_out.append if spec.board or spec.template else None
        name = run_bench(spec, results, _Progress(facts), stop, leave_out)
        with open_records(results) as store:
            summary = summarize_bench(bench_results(store, name), facts, _classes(spec))
        if left_out:
            layers = "layer is" if len(left_out) == 1 else "layers are"
            which = f"{spec.template} does not take" if spec.template else "no template takes"
            say(f"note: {len(left_out)} {layers} left out, {which} such: {left_out[0].key}")
        if form is Format.JSON:
            emit_json({"bench": name} | bench_as_dict(summary))
        elif summary.rows:
            emit(render_bench(summary))
    return INTERRUPTED if stop.requested else 0


def _peers(against: str | None) -> tuple[Peer, ...]:
    """The libraries to compare with that are installed.

    Raises:
        BenchSpecError: nobody knows one of the names.
        NoPeersError: none is installed.
    """
    from int8tune.tuner.bench.peers.registry import PEERS, missing_distributions, peers_named
    from int8tune.tuner.errors import NoPeersError

    wanted = PEERS if against is None else peers_named(against.split(","))
    missing = {peer.name: missing_distributions(peer.requires) for peer in wanted}
    found = tuple(peer for peer in wanted if not missing[peer.name])
    if not found:
        raise NoPeersError(f"none of the libraries to compare with is installed: {', '.join(missing)}")
    _say_missing(missing, INSTALL)
    return found


def _gpu_peers(against: str | None) -> tuple[GpuPeer, ...]:
    """The libraries to compare with on a GPU that are installed; without one, this library is timed beside the peak.

    Raises:
        BenchSpecError: nobody knows one of the names.
    """
    from int8tune.tuner.bench.gpu.peers.registry import GPU_PEERS
    from int8tune.tuner.bench.peers.registry import peers_named

    wanted = GPU_PEERS if against is None else peers_named(against.split(","), GPU_PEERS)
    missing = {peer.name: () if peer.is_installed() else peer.requires for peer in wanted}
    _say_missing(missing, INSTALL_FOR_GPU)
    return tuple(peer for peer in wanted if not missing[peer.name])


def _say_missing(missing: Mapping[str, Sequence[str]], install: str) -> None:
    for name, distributions in missing.items():
        if distributions:
            say(f"note: {name} is left out, not installed: {', '.join(distributions)}; {install}")


def _classes(spec: BenchSpec) -> tuple[str, ...]:
    from int8tune.tuner.bench.gpu.layers import GpuLayerClass
    from int8tune.tuner.bench.layers import LayerClass

    return tuple(LayerClass) if spec.board is None else tuple(GpuLayerClass)


def _facts(spec: BenchSpec) -> Mapping[str, LayerFacts]:
    from int8tune.results.bench import LayerFacts
    from int8tune.tuner.bench.gpu.layers import gpu_class_of
    from int8tune.tuner.bench.layers import class_of

    named: Callable[[Workload], str] = class_of if spec.board is None else gpu_class_of
    return {workload.key: LayerFacts(workload.macs, named(workload)) for workload in spec.layers}


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

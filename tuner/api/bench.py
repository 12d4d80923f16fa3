"""Layers and models beside other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.network_file import is_model
from int8tune.results.bench import BenchSummary, LayerFacts, bench_results, summarize_bench
from int8tune.results.pytest_benchmark import of_layers, write_benchmarks
from int8tune.results.record import BenchResult
from int8tune.results.report.bench import render_bench
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.inventory.file import read_inventory
from int8tune.rpc.local.capabilities import cpu_name
from int8tune.rpc.local.tile_registers import deny_tile_registers
from int8tune.rpc.request import Timing
from int8tune.schedules.registry import template_named
from int8tune.schedules.workload import Workload
from int8tune.tuner.api.bench_boards import BoardBenches, bench_on_board, runs_models
from int8tune.tuner.api.bench_rows import layer_bench_rows, model_bench_rows
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY, DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.interrupts import Interrupts
from int8tune.tuner.bench.gpu.layers import GpuLayerClass, gpu_class_of
from int8tune.tuner.bench.gpu.peers.base import GpuPeer
from int8tune.tuner.bench.gpu.peers.registry import GPU_PEERS
from int8tune.tuner.bench.gpu.site import require_gpu
from int8tune.tuner.bench.layers import LayerClass, choose_layers, class_named, class_of
from int8tune.tuner.bench.peers.base import Peer
from int8tune.tuner.bench.peers.registry import all_peers, missing_distributions, peers_named
from int8tune.tuner.bench.run import BenchSpec, require_ranges, run_bench
from int8tune.tuner.errors import BenchSpecError, NoPeersError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.bench import ModelBench, bench_model, runtimes_named
from int8tune.tuner.models.checks import Check
from int8tune.tuner.models.given import BindLike, ShapeLike, given_of
from int8tune.tuner.publish import open_records

if TYPE_CHECKING:
    import pandas

INSTALL = "pip install 'int8tune[peers]'"
INSTALL_FOR_GPU = "pip install 'int8tune[gpu-peers]'"
SAMPLES = 4
Notice = Callable[[str], None]
"""Is told what a person should know, such as a library that is not installed."""


@dataclass(frozen=True, slots=True, repr=False)
class LayerBench:
    """Layers beside other libraries.

    Attributes:
        name: under which the records have it.
        summary: rows, classes and the whole.
        left_out: layers that no template takes, or not the one that was asked for.
        interrupted: whether it was stopped before the last layer.
        notes: what a person should know, such as a library that is not installed.
    """

    name: str
    summary: BenchSummary
    left_out: tuple[Workload, ...]
    interrupted: bool
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each library on each layer, with its raw times."""
        return frame_of(list(layer_bench_rows(self.name, self.summary)))

    def write_benchmarks(self, out: str | Path) -> None:
        """Write the times as pytest-benchmark's JSON, a benchmark for each library on each layer.

        Raises:
            ExportError: no layer was timed, or the file can't be written.
        """
        results = [row.result for row in self.summary.rows]
        cpu = next((result.environment["cpu"] for result in results if "cpu" in result.environment), "")
        write_benchmarks(Path(out), of_layers(results), cpu)

    def __str__(self) -> str:
        """The table that the command line shows."""
        return render_bench(self.summary) if self.summary.rows else "no layer was compared"

    def __repr__(self) -> str:
        names = ", ".join(library.name for library in self.summary.libraries)
        return f"<Bench {self.name}: {listed(len(self.summary.rows), 'layer')}, {names}>"


@dataclass(frozen=True, slots=True, repr=False)
class ModelBenches:
    """Whole models beside other runtimes."""

    models: tuple[ModelBench, ...]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each runtime of each model, with its raw times."""
        return frame_of([row for model in self.models for row in model_bench_rows(model)])

    def write_benchmarks(self, out: str | Path) -> None:
        """Write the times as pytest-benchmark's JSON, a benchmark for each runtime of each model.

        Raises:
            ExportError: no model was timed, or the file can't be written.
        """
        write_benchmarks(Path(out), [timed for model in self.models for timed in model.timed()], cpu_name())

    def __repr__(self) -> str:
        return f"<Bench of {', '.join(model.model for model in self.models)}>"


def bench(
    names: str | Path | Sequence[str | Path] = (),
    *,
    against: str | Sequence[str] | None = None,
    results: str | Path = DEFAULT_RESULTS,
    target: str | None = None,
    threads: int = 1,
    runs: int = 20,
    run_s: float = 0.02,
    only: str | None = None,
    without_amx: bool = False,
    layers: bool = False,
    unquantized: str | Path | None = None,
    batch: int = 1,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
    template: str | None = None,
    device: str | None = None,
    inventory: str | Path = DEFAULT_INVENTORY,
    listener: Callable[[BenchResult], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> LayerBench | ModelBenches | BoardBenches:
    """Compare models or layers with other libraries, each in a process of its own, in turn on the same cores.

    Models are compared whole; with `layers`, and of all else, layers are, and the results are added to the records.
    Ctrl-C ends the comparison of layers after the layer under way.

    Args:
        names: networks, models, layer tables, workload keys; six networks if empty.
        against: names of libraries; all that are installed if None.
        results: the folder of the records, whose schedules are taken.
        target: a profile; the best of this CPU, or of the GPU, if None.
        threads: of each library, on as many cores.
        runs: how often each library takes its turn.
        run_s: how long a turn takes.
        only: layers of one class, such as `depthwise`.
        without_amx: let no library use AMX, as on a CPU that has none; this process can't use it any more, either.
        layers: compare a model's layers, not the whole.
        unquantized: the model before it was quantized, to be timed beside it.
        batch: inputs at once, for each that a layer has.
        bind: values of the models' inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: the shapes of their inputs, by name, where the files leave extents open.
        until: values at which a model ends, in place of its own outputs.
        template: run this template's fastest trial or default, not the best one.
        device: a board of the inventory: a GPU of this machine, for layers; any other for whole models, which are
            compared with the reference there and timed with recorded schedules and defaults.
        inventory: the file with the boards.
        listener: is told of each layer.
        stop: asked between layers whether to end.

    Raises:
        BenchSpecError: a value is out of its range, or a name unknown.
        SpecError, GivenError, SamplesError: values or shapes of inputs can't be used.
        NoPeersError: nothing to compare with is installed.
        BenchError, DeviceStartError: it can't start here, or can't go on.
        StoreError: the records can't be read or written.
    """
    if device is not None and (threads != 1 or without_amx or unquantized):
        raise BenchSpecError("threads, without_amx and unquantized are for this machine's CPU: leave device out")
    asked = [str(name) for name in ([names] if isinstance(names, str | Path) else names)]
    libraries = against.split(",") if isinstance(against, str) else against
    timing, folder, given = Timing(runs, run_s), Path(results), given_of(bind, shape, until)
    notes: list[str] = []
    if device is None and without_amx:
        require_no_amx()
    if device is None and is_of_models(asked, only=only, layers=layers):
        unquantized_path = None if unquantized is None else Path(unquantized)
        return ModelBenches(
            tuple(
                bench_models(
                    list(map(Path, asked)), unquantized_path, folder, target, threads, libraries, timing, given
                )
            )
        )
    if device is not None:
        board = read_inventory(Path(inventory)).board(device)
        if runs_models(board) and is_of_models(asked, only=only, layers=layers):
            return BoardBenches(tuple(bench_on_board(list(map(Path, asked)), board, folder, libraries, timing, given)))
        require_gpu(board)
        spec = gpu_spec(asked, only, batch, libraries, timing, target, board, template, notes.append, given)
    else:
        spec = cpu_spec(asked, only, batch, libraries, threads, timing, target, template, notes.append, given)
    with Interrupts(stop) as asked_to_stop:
        found = bench_layers(spec, folder, listener or (lambda _: None), asked_to_stop, notes.append)
        stopped = len(found.summary.rows) + len(found.left_out) < len(spec.layers)
    return LayerBench(found.name, found.summary, found.left_out, stopped, tuple(notes))


def is_of_models(names: Sequence[str], *, only: str | None, layers: bool) -> bool:
    """Whether whole models are compared."""
    return bool(names) and not layers and only is None and all(map(is_model, names))


def require_no_amx() -> None:
    """Take AMX from this process and those that it starts.

    Raises:
        BenchSpecError: that can't be done here.
    """
    if not deny_tile_registers():
        raise BenchSpecError("--without-amx needs Linux on x86-64, and leave to filter system calls (seccomp)")


def gpu_of(inventory: Path, name: str) -> Board:
    """The board of the inventory.

    Raises:
        BenchSpecError: it is no GPU of this machine.
        InventoryError: the inventory can't be read.
        UnknownBoardError: it has no such board.
    """
    board = read_inventory(inventory).board(name)
    require_gpu(board)
    return board


def cpu_spec(
    names: Sequence[str],
    only: str | None,
    batch: int,
    against: Sequence[str] | None,
    threads: int,
    timing: Timing,
    profile: str | None,
    template: str | None,
    notice: Notice,
    given: Given = NOTHING_GIVEN,
) -> BenchSpec:
    """A comparison of layers on this machine's CPU.

    Raises:
        BenchSpecError, NoPeersError, UnknownTemplateError, UnknownNetworkError: as `bench`.
    """
    layers = choose_layers(names, None if only is None else class_named(only), batch, given=given)
    return BenchSpec(layers, _peers(against, notice), threads, timing, profile, template=_known(template))


def gpu_spec(
    names: Sequence[str],
    only: str | None,
    batch: int,
    against: Sequence[str] | None,
    timing: Timing,
    profile: str | None,
    board: Board,
    template: str | None,
    notice: Notice,
    given: Given = NOTHING_GIVEN,
) -> BenchSpec:
    """A comparison of layers on a GPU of this machine.

    Raises:
        BenchSpecError, UnknownTemplateError, UnknownNetworkError: as `bench`.
    """
    chosen = None if only is None else class_named(only, GpuLayerClass)
    layers = choose_layers(names, chosen, batch, gpu_class_of, given)
    own, worker = _known(template), "int8tune.tuner.bench.gpu.worker"
    return BenchSpec(layers, _gpu_peers(against, notice), 1, timing, profile, worker, board, own)


def bench_layers(
    spec: BenchSpec,
    results: Path,
    listener: Callable[[BenchResult], None],
    stop_requested: Callable[[], bool],
    notice: Notice,
) -> LayerBench:
    """Compare layers, and sum up what came of it; those that were done before a stop, too.

    Args:
        notice: is told what makes the times doubtful.
    """
    require_tuning()
    left_out: list[Workload] = []
    leave_out = left_out.append if spec.board or spec.template else None
    name = run_bench(spec, results, listener, stop_requested, leave_out, notice)
    classes: tuple[str, ...] = tuple(LayerClass) if spec.board is None else tuple(GpuLayerClass)
    with open_records(results) as store:
        summary = summarize_bench(bench_results(store, name), facts_of(spec), classes)
    return LayerBench(name, summary, tuple(left_out), interrupted=False)


def facts_of(spec: BenchSpec) -> Mapping[str, LayerFacts]:
    """What records don't say of the layers of a bench."""
    named: Callable[[Workload], str] = class_of if spec.board is None else gpu_class_of
    return {workload.key: LayerFacts(workload.macs, named(workload)) for workload in spec.layers}


def bench_models(
    models: Sequence[Path],
    unquantized: Path | None,
    results: Path,
    target: str | None,
    threads: int,
    against: Sequence[str] | None,
    timing: Timing,
    given: Given = NOTHING_GIVEN,
) -> Iterator[ModelBench]:
    """Compare whole models with other runtimes, one model after the other.

    Raises:
        BenchSpecError: a number is out of its range.
    """
    require_tuning()
    require_ranges(threads, timing)
    peers = runtimes_named(against)
    for model in models:
        check = Check(model, results, None, target, threads, None, SAMPLES, 0, given)
        yield bench_model(check, peers, unquantized, timing)


def _known(template: str | None) -> str | None:
    """Raises: UnknownTemplateError: there is no such template."""
    return template_named(template).name if template else None


def _peers(against: Sequence[str] | None, notice: Notice) -> tuple[Peer, ...]:
    """The libraries to compare with that are installed.

    Raises:
        BenchSpecError: nobody knows one of the names.
        NoPeersError: none is installed.
    """
    wanted = all_peers() if against is None else peers_named(against, all_peers())
    missing = {peer.name: missing_distributions(peer.requires) for peer in wanted}
    found = tuple(peer for peer in wanted if not missing[peer.name])
    if not found:
        raise NoPeersError(f"none of the libraries to compare with is installed: {', '.join(missing)}")
    _tell_missing(missing, INSTALL, notice)
    return found


def _gpu_peers(against: Sequence[str] | None, notice: Notice) -> tuple[GpuPeer, ...]:
    """The libraries to compare with on a GPU that are installed; without one, this library is timed beside the peak.

    Raises:
        BenchSpecError: nobody knows one of the names.
    """
    wanted = GPU_PEERS if against is None else peers_named(against, GPU_PEERS)
    missing = {peer.name: () if peer.is_installed() else peer.requires for peer in wanted}
    _tell_missing(missing, INSTALL_FOR_GPU, notice)
    return tuple(peer for peer in wanted if not missing[peer.name])


def _tell_missing(missing: Mapping[str, Sequence[str]], install: str, notice: Notice) -> None:
    for name, distributions in missing.items():
        if distributions:
            notice(f"{name} is left out, not installed: {', '.join(distributions)}; {install}")

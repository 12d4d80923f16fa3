"""A bench from end to end: contestants put together and taken down again, and layers compared in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from int8tune.results.record import BenchResult, Candidate, Entrant
from int8tune.results.stats import MIN_PAIRS, median
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.request import Timing
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.contestant import Contestants
from int8tune.tuner.bench.gpu.peers.matrices import product_operands
from int8tune.tuner.bench.gpu.site import open_gpu_site
from int8tune.tuner.bench.match import PeakLoop, Player, Seated, play, seat_own, seat_peer, with_overhead
from int8tune.tuner.bench.operands import layer_operands
from int8tune.tuner.bench.own import OWN_NAME, NotPreparedError, choose
from int8tune.tuner.bench.peers.base import PeerForm
from int8tune.tuner.bench.site import Site, open_site
from int8tune.tuner.cores import bound_to
from int8tune.tuner.errors import BenchSpecError
from int8tune.tuner.work_folder import work_folder

# Of what a bench may be asked for: the least and the most.
THREADS, RUNS, RUN_S = (1, 1024), (MIN_PAIRS, 1000), (0.001, 10.0)
# Of a layer's time; and how long the smallest layer runs when it is measured again.
MUCH_OVERHEAD, OVERHEAD_REPEAT_S = 0.1, 0.002


@dataclass(frozen=True, slots=True)
class BenchSpec:
    """What is compared, and how.

    Attributes:
        peers: those that are installed.
        threads: of each library, on as many cores.
        timing: rounds, and how long each library computes in each of them.
        profile: of the target; the best for this CPU, or for the GPU, if None.
        worker: the module that is run as a contestant's process.
        board: a GPU of this machine; None: its CPU.
        template: whose schedules this library runs; None: the best ones.
    """

    layers: tuple[Workload, ...]
    peers: tuple[PeerForm, ...]
    threads: int
    timing: Timing
    profile: str | None = None
    worker: str = "int8tune.tuner.bench.worker"
    board: Board | None = None
    template: str | None = None

    def __post_init__(self) -> None:
        """Raise BenchSpecError where a number is out of its range."""
        require_ranges(self.threads, self.timing)


def require_ranges(threads: int, timing: Timing) -> None:
    """Raise BenchSpecError where a number is out of its range."""
    numbers = (
        ("threads", threads, THREADS),
        ("runs", timing.repeats, RUNS),
        ("seconds of a run", timing.min_repeat_s, RUN_S),
    )
    for name, value, (least, most) in numbers:
        if not least <= value <= most:
            raise BenchSpecError(f"{name} must be {least:g} to {most:g}: {value:g}")


@dataclass(frozen=True, slots=True)
class Bench:
    """Compares layers, one at a time.

    Attributes:
        name: under which results are recorded.
        players: this library, then the others; what their calls cost is learned on the way.
        template: as in a `BenchSpec`.
    """

    name: str
    timing: Timing
    site: Site
    players: list[Player]
    peak: PeakLoop
    template: str | None = None

    def compare(self, workload: Workload, folder: Path) -> BenchResult:
        """Compare the libraries on a layer, and record it. The folder must be empty, and new in the life of the bench.

        Raises:
            BenchError: the peak loop failed.
            WorkloadError: no template takes the layer.
        """
        started_at = _now("seconds")
        choice = choose(self.site.store, workload, self.site.target, self.site.name, self.template)
        own, *peers = self.players
        seated = [self._seat_own(own, workload, choice.candidate, folder)]
        seated += [seat_peer(player, workload, folder) for player in peers]
        entrants, peaks = play(seated, self.peak, self.timing)
        entrants = tuple(self._with_least_overhead(index, entrant, folder) for index, entrant in enumerate(entrants))
        return self.site.record(self.name, choice, entrants, peaks, started_at)

    def _with_least_overhead(self, index: int, entrant: Entrant, folder: Path) -> Entrant:
        """Measure again what calls cost where that is much of a time: others may have had the core the first time."""
        player, known_s = self.players[index], entrant.overhead_times_s
        if not known_s or not entrant.times_s or median(known_s) < MUCH_OVERHEAD * median(entrant.times_s):
            return entrant
        again = with_overhead(player, folder, replace(self.timing, min_repeat_s=OVERHEAD_REPEAT_S))
        if median(again.overhead_times_s) >= median(known_s):
            return entrant
        self.players[index] = again
        return replace(entrant, overhead_times_s=again.overhead_times_s)

    def _seat_own(self, player: Player, workload: Workload, candidate: Candidate, folder: Path) -> Seated:
        try:
            program = self.site.preparation.program(workload, candidate, layer_operands(workload), folder)
        except NotPreparedError as error:
            return Seated(player, workload.key, error.outcome, str(error))
        return seat_own(player, workload, program)


def run_bench(
    spec: BenchSpec,
    results: Path,
    listen: Callable[[BenchResult], None],
    stop_requested: Callable[[], bool],
    leave_out: Callable[[Workload], None] | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> str:
    """Compare layers on this machine, one after the other; the name under which `results/records.db` has them.

    Args:
        leave_out: is told of layers that no template takes; without it, the first of them ends the bench.
        notice: is told at the end what makes the times doubtful.

    Raises:
        BenchError: it can't start here, or can't go on.
        DeviceStartError: the GPU can't be used.
        StoreError: the records can't be read or written.
        WorkloadError: no template takes a layer.
    """
    with ExitStack() as stack:
        site = stack.enter_context(_site(spec, results))
        stack.enter_context(bound_to(site.building))
        contestants = stack.enter_context(Contestants(spec.worker, site.gpu))
        bench = Bench(
            name=_now("microseconds"),
            timing=spec.timing,
            site=site,
            players=_players(spec, contestants, site),
            peak=PeakLoop(contestants.add(site.measuring), site.probes.peak_program, site.probes.peak.work),
            template=spec.template,
        )
        _compare_all(bench, spec.layers, listen, stop_requested, leave_out)
        if text := contestants.disturbance():
            notice(text)
        return bench.name


def _site(spec: BenchSpec, results: Path) -> AbstractContextManager[Site]:
    if spec.board is not None:
        return open_gpu_site(spec.board, results, "bench", spec.profile, spec.template)
    return open_site(results, "bench", spec.profile, spec.threads)


def _players(spec: BenchSpec, contestants: Contestants, site: Site) -> list[Player]:
    players = [Player(contestants.add(site.measuring), OWN_NAME)]
    for peer in spec.peers:
        player = Player(contestants.add(site.measuring, peer.name), peer.name, peer)
        if site.gpu is None:
            players.append(with_overhead(player, site.folder, spec.timing))
        else:  # calls are nodes of a graph there, which costs as much for every library
            players.append(replace(player, operands=product_operands))
    return players


def _compare_all(
    bench: Bench,
    layers: Sequence[Workload],
    listen: Callable[[BenchResult], None],
    stop_requested: Callable[[], bool],
    leave_out: Callable[[Workload], None] | None,
) -> None:
    for index, workload in enumerate(layers):
        if stop_requested():
            return
        # Each in a folder of another name: a library is loaded by its path, and an old one would be found again.
        with work_folder(bench.site.folder, f"layer-{index}") as own:
            try:
                listen(bench.compare(workload, own))
            except WorkloadError:
                if leave_out is None:
                    raise
                leave_out(workload)


def _now(precision: str) -> str:
    return datetime.now(UTC).isoformat(timespec=precision)

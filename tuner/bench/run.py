"""A bench from end to end: device, builds, contestants and records put together and taken down again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from results.base import Store
from results.record import BenchResult, Candidate
from results.stats import MIN_PAIRS
from results.store import SqliteStore
from rpc.local import LocalTransport
from rpc.request import Timing
from schedules.target import Target, target_for
from schedules.workload import Workload
from tuner.bench.contestant import Contestants
from tuner.bench.match import PeakLoop, Player, Seated, play, seat_own, seat_peer, with_overhead
from tuner.bench.operands import layer_operands
from tuner.bench.own import NotPreparedError, Preparation, choose
from tuner.bench.peers.base import Peer
from tuner.build.linker import find_linker
from tuner.build.pool import BuildPool
from tuner.campaign.run import DEVICE_NAME, environment_of
from tuner.cores import bound_to, measuring_and_build_cores
from tuner.device_check import build_probes
from tuner.errors import BenchSpecError
from tuner.folders import STORE_FILE, make_folder, work_folder

OWN_NAME = "int8tune"
# Of what a bench may be asked for: the least and the most.
THREADS, RUNS, RUN_S = (1, 1024), (MIN_PAIRS, 1000), (0.001, 10.0)


@dataclass(frozen=True, slots=True)
class BenchSpec:
    """What is compared, and how.

    Attributes:
        peers: those that are installed.
        threads: of each library, on as many cores.
        timing: rounds, and how long each library computes in each of them.
        profile: of the target; the best for this CPU if None.
        worker: the module that is run as a contestant's process.
    """

    layers: tuple[Workload, ...]
    peers: tuple[Peer, ...]
    threads: int
    timing: Timing
    profile: str | None = None
    worker: str = "tuner.bench.worker"

    def __post_init__(self) -> None:
        """Raise BenchSpecError where a number is out of its range."""
        numbers = (
            ("threads", self.threads, THREADS),
            ("runs", self.timing.repeats, RUNS),
            ("seconds of a run", self.timing.min_repeat_s, RUN_S),
        )
        for name, value, (least, most) in numbers:
            if not least <= value <= most:
                raise BenchSpecError(f"{name} must be {least:g} to {most:g}: {value:g}")


@dataclass(frozen=True, slots=True)
class Bench:
    """Compares layers, one at a time.

    Attributes:
        name: under which results are recorded.
        players: this library, then the others.
    """

    name: str
    timing: Timing
    threads: int
    store: Store
    target: Target
    environment: Mapping[str, str]
    preparation: Preparation
    players: Sequence[Player]
    peak: PeakLoop

    def compare(self, workload: Workload, folder: Path) -> BenchResult:
        """Compare the libraries on a layer, and record it. The folder must be empty, and new in the life of the bench.

        Raises:
            BenchError: the peak loop failed.
            WorkloadError: no template takes the layer.
        """
        started_at = _now("seconds")
        choice = choose(self.store, workload, self.target, DEVICE_NAME)
        own, *peers = self.players
        seated = [self._seat_own(own, workload, choice.candidate, folder)]
        seated += [seat_peer(player, workload, folder) for player in peers]
        entrants, peaks = play(seated, self.peak, self.timing)
        result = BenchResult(
            bench=self.name,
            candidate=choice.candidate,
            is_tuned=choice.is_tuned,
            device=DEVICE_NAME,
            threads=self.threads,
            ours=entrants[0],
            peers=entrants[1:],
            peak_ops_per_s=peaks,
            environment=self.environment,
            started_at=started_at,
        )
        self.store.append([result])
        return result

    def _seat_own(self, player: Player, workload: Workload, candidate: Candidate, folder: Path) -> Seated:
        try:
            program = self.preparation.program(workload, candidate, layer_operands(workload), folder)
        except NotPreparedError as error:
            return Seated(player, workload.key, error.outcome, str(error))
        return seat_own(player, workload, program)


def run_bench(
    spec: BenchSpec, results: Path, listen: Callable[[BenchResult], None], stop_requested: Callable[[], bool]
) -> str:
    """Compare layers on this machine, one after the other; the name under which `results/records.db` has them.

    Raises:
        BenchError: it can't start here, or can't go on.
        StoreError: the records can't be read or written.
    """
    find_linker()
    measuring, building = measuring_and_build_cores(spec.threads)
    with ExitStack() as stack:
        transport = stack.enter_context(LocalTransport(measuring))
        device = transport.start()
        target = target_for(device.features, device.llvm_cpu, device.llvm_triple, spec.profile, spec.threads)
        stack.enter_context(bound_to(building))
        store = stack.enter_context(SqliteStore(make_folder(results) / STORE_FILE))
        folder = stack.enter_context(work_folder(results, "bench"))
        pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log"))
        probe = build_probes(pool, target, folder, {})
        contestants = stack.enter_context(Contestants(spec.worker))
        bench = Bench(
            name=_now("microseconds"),
            timing=spec.timing,
            threads=spec.threads,
            store=store,
            target=target,
            environment=environment_of(device, target),
            preparation=Preparation(pool, transport, target),
            players=_players(spec, contestants, measuring, folder),
            peak=PeakLoop(contestants.add(measuring), probe.peak_program, probe.peak.work),
        )
        _compare_all(bench, spec.layers, folder, listen, stop_requested)
        return bench.name


def _players(spec: BenchSpec, contestants: Contestants, cores: Sequence[int], folder: Path) -> list[Player]:
    players = [Player(contestants.add(cores), OWN_NAME)]
    for peer in spec.peers:
        player = Player(contestants.add(cores, peer.name), peer.name, peer)
        players.append(with_overhead(player, folder, spec.timing))
    return players


def _compare_all(
    bench: Bench,
    layers: Sequence[Workload],
    folder: Path,
    listen: Callable[[BenchResult], None],
    stop_requested: Callable[[], bool],
) -> None:
    for index, workload in enumerate(layers):
        if stop_requested():
            return
        # Each in a folder of another name: a library is loaded by its path, and an old one would be found again.
        with work_folder(folder, f"layer-{index}") as own:
            listen(bench.compare(workload, own))


def _now(precision: str) -> str:
    return datetime.now(UTC).isoformat(timespec=precision)

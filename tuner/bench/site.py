"""Where this library is compared with others: a device, builds and records, put together and taken down again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.base import Store
from int8tune.results.record import BenchResult, Entrant
from int8tune.results.store import SqliteStore
from int8tune.rpc.request import Capabilities
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.bench.gpu_rates import gpu_rates
from int8tune.tuner.bench.own import Choice, Preparation
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.run import environment_of
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.device_check import Probes, build_probes
from int8tune.tuner.folders import STORE_FILE, make_folder
from int8tune.tuner.local_target import DEVICE_NAME
from int8tune.tuner.work_folder import work_folder


@dataclass(frozen=True, slots=True)
class Site:
    """This machine, ready to compare layers.

    Attributes:
        name: of the device, as records have it.
        measuring, building: cores.
        folder: takes files, and is gone in the end.
        probes: the loop that measures the peak.
        gpu: the number of the GPU that layers run on; None: they run on the measuring cores.
    """

    name: str
    measuring: tuple[int, ...]
    building: tuple[int, ...]
    transport: Transport
    device: Capabilities
    target: Target
    store: Store
    folder: Path
    preparation: Preparation
    probes: Probes
    gpu: int | None = None

    def record(
        self,
        bench: str,
        choice: Choice,
        entrants: Sequence[Entrant],
        peak_ops_per_s: tuple[float, ...],
        started_at: str,
    ) -> BenchResult:
        """Write down under a name how this library, the first entrant, and others did."""
        result = BenchResult(
            bench=bench,
            candidate=choice.candidate,
            is_tuned=choice.is_tuned,
            device=self.name,
            threads=self.target.threads,
            ours=entrants[0],
            peers=tuple(entrants[1:]),
            peak_ops_per_s=peak_ops_per_s,
            environment=environment_of(self.device, self.target) | gpu_rates(self.device),
            started_at=started_at,
        )
        self.store.append([result])
        return result


@contextmanager
def open_site(results: Path, purpose: str, profile: str | None, threads: int = 1) -> Iterator[Site]:
    """A site whose records are in `results/records.db`.

    Raises:
        BenchError: it can't start here.
        StoreError: the records can't be read or written.
    """
    find_linker()
    measuring, building = measuring_and_build_cores(threads)
    with ExitStack() as stack:
        transport = stack.enter_context(LocalTransport(measuring))
        device = transport.start()
        target = target_for(device.features, device.llvm_cpu, device.llvm_triple, profile, threads)
        store = stack.enter_context(SqliteStore(make_folder(results) / STORE_FILE))
        folder = stack.enter_context(work_folder(results, purpose))
        with bound_to(building):
            pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log"))
            probes = build_probes(pool, target, folder, {})
        preparation = Preparation(pool, transport, target)
        yield Site(DEVICE_NAME, measuring, building, transport, device, target, store, folder, preparation, probes)

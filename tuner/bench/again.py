"""The best schedules of two sides of a comparison, timed in turn on this machine, each verified as any candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from int8tune.compiler.best_log import candidate_faults
from int8tune.compiler.network import Layer, Network
from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.comparison.side import LayerTime, Side
from int8tune.results.record import CacheMode, Candidate, Outcome
from int8tune.results.stats import MIN_PAIRS
from int8tune.rpc.request import Capabilities, Cold, Program, Request, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import PROFILES, Target, target_for
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.bench.operands import layer_operands
from int8tune.tuner.bench.own import NotPreparedError, Preparation
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.measuring import SESSION_LIMIT_S, calls_limit_s, cold_of
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.errors import BenchSpecError

SESSIONS = 5
"""How many sessions each layer has: what differs from one to the next is no property of a schedule."""
TIMING = Timing(repeats=2 * MIN_PAIRS, min_repeat_s=0.002)


@dataclass(frozen=True, slots=True)
class Retimed:
    """A layer's two schedules, timed in turn.

    Attributes:
        sessions: of each, seconds of A's and of B's, in pairs; empty if one of them failed.
        error: why there are no times; empty where there are.
    """

    sessions: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = ()
    error: str = ""


def time_again(
    a: Side, b: Side, listen: Callable[[str, Retimed], None], stop_requested: Callable[[], bool]
) -> tuple[Mapping[str, Retimed], str]:
    """Time what both sides have, layer by layer; by key what came of it, and the name of this machine's CPU.

    Args:
        listen: is told of each layer.

    Raises:
        BenchSpecError: nothing of it can be run on this machine.
        DeviceStartError: the device did not start.
        BuildPoolError: nothing can be built.
    """
    keys = [key for key, layer in a.layers.items() if layer.candidate and key in b.layers and b.layers[key].candidate]
    if not keys:
        raise BenchSpecError("--again needs schedules on both sides, such as those of records or best logs")
    find_linker()
    found: dict[str, Retimed] = {}
    with _site(a, b, keys) as site:
        for number, key in enumerate(keys):
            if stop_requested():
                break
            found[key] = site.retimed(a.layers[key], b.layers[key], number)
            listen(key, found[key])
        return found, site.cpu


@dataclass(frozen=True, slots=True)
class _Site:
    """This machine, ready to time pairs of schedules."""

    transport: Transport
    pool: BuildPool
    device: Capabilities
    cold: Cold | None
    folder: Path

    @property
    def cpu(self) -> str:
        return self.device.cpu

    def retimed(self, a: LayerTime, b: LayerTime, number: int) -> Retimed:
        """One layer. Its folder has a name of its own: a library is loaded by its path."""
        assert a.candidate is not None
        assert b.candidate is not None
        folder = self.folder / f"layer-{number}"
        folder.mkdir()
        try:
            workload = parse_workload(a.key)
            programs = self._programs(workload, (a.candidate, b.candidate), folder)
            return Retimed(tuple(self._session(workload, programs) for _ in range(SESSIONS)))
        except NotPreparedError as error:
            return Retimed(error=" ".join(str(error).split()))

    def _programs(
        self, workload: Workload, candidates: tuple[Candidate, Candidate], folder: Path
    ) -> tuple[Program, ...]:
        """The verified programs of both sides; of equal candidates, each has its own, so that they are timed alike.

        Raises:
            NotPreparedError: this version or machine can't make one of them, or it is not exact.
        """
        faults = [fault for candidate in candidates for fault in candidate_faults(candidate)]
        if faults:
            raise NotPreparedError(Outcome.REJECTED, faults[0])
        at = {
            each.target: Preparation(self.pool, self.transport, _target_named(each.target, self.device))
            for each in candidates
        }
        suite = at[candidates[0].target].write_suite(workload, layer_operands(workload), folder)
        programs = []
        for name, candidate in zip(("a", "b"), candidates, strict=True):
            (folder / name).mkdir()
            built = at[candidate.target].build(workload, candidate, suite, folder / name)
            programs.append(at[candidate.target].verified(workload, built))
        return tuple(programs)

    def _session(
        self, workload: Workload, programs: tuple[Program, ...]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        limit_s = SESSION_LIMIT_S + len(programs) * calls_limit_s(workload, None)
        reply = self.transport.run(Request(programs, replace(TIMING, cold=self.cold), limit_s))
        if reply.outcome is not Outcome.OK:
            raise NotPreparedError(reply.outcome, reply.error)
        return reply.times_s[0], reply.times_s[1]


@contextmanager
def _site(a: Side, b: Side, keys: Sequence[str]) -> Iterator[_Site]:
    threads = max(_threads(side) for side in (a, b))
    measuring, building = measuring_and_build_cores(threads)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="int8tune-")))
        transport = stack.enter_context(LocalTransport(measuring))
        device = transport.start()
        for target in {layer.candidate.target for side in (a, b) for layer in _of(side, keys) if layer.candidate}:
            _target_named(target, device)
        stack.enter_context(bound_to(building))
        pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log"))
        yield _Site(transport, pool, device, cold_of(_mode(a, b), device, _network(a, b, keys)), folder)


def _of(side: Side, keys: Sequence[str]) -> Iterator[LayerTime]:
    return (side.layers[key] for key in keys)


def _threads(side: Side) -> int:
    """The threads of a side's kernels; one that does not say has one."""
    return int(side.conditions.threads) if side.conditions.threads.isdigit() else 1


def _mode(a: Side, b: Side) -> CacheMode:
    """In which caches both were timed, or one of them; in those of a network where neither says."""
    said = a.conditions.cache or b.conditions.cache
    return CacheMode(said) if said in tuple(CacheMode) else CacheMode.NETWORK


def _network(a: Side, b: Side, keys: Sequence[str]) -> Network:
    """The layers that are timed, as often as a network runs them: they say how much memory its weights take."""
    layers = [
        Layer((key,), a.layers[key].count or b.layers[key].count or 1, parse_workload(key))
        for key in keys
        if a.layers[key].candidate
    ]
    return Network("compared", "", None, tuple(layers))


def _target_named(name: str, device: Capabilities) -> Target:
    """The target of this machine that has a name in records.

    Raises:
        BenchSpecError: none has.
    """
    threads = name.rpartition("-t")[2]
    count = int(threads) if threads.isdigit() else 1
    able = [profile for profile in PROFILES if profile.needs <= device.features]
    targets = [target_for(device.features, device.llvm_cpu, device.llvm_triple, each.name, count) for each in able]
    found = next((target for target in targets if target.name == name), None)
    if found is None:
        known = ", ".join(target.name for target in targets)
        raise BenchSpecError(f"this machine can't run schedules for {name[:80]}, it runs those for {known}")
    return found

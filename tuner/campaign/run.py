"""A campaign from end to end: device, store, builds and loop put together and taken down again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.base import Store
from int8tune.results.record import ESTIMATED_BY, CacheMode, Campaign, DeviceCheck, Trial, cache_mode
from int8tune.results.stores import claim, open_store
from int8tune.rpc.mca.estimate import model_name
from int8tune.rpc.request import Capabilities, Cold, Program
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.builder.base import Pool
from int8tune.tuner.builder.cluster import ClusterPool
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.campaign.candidate_builder import CandidateBuilder
from int8tune.tuner.campaign.events import Listener
from int8tune.tuner.campaign.loop import CampaignLoop, Ending
from int8tune.tuner.campaign.loop_context import LoopContext, Purpose
from int8tune.tuner.campaign.measuring import Device, Measuring, Occasion, cold_of
from int8tune.tuner.campaign.plan import Task, make_plan
from int8tune.tuner.campaign.search import make_search
from int8tune.tuner.campaign.spec import CampaignSpec, require_same
from int8tune.tuner.campaign.this_run import kept_run
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.device_check import build_probes, check_device, read_sizes
from int8tune.tuner.errors import CampaignDiffersError, SpecError
from int8tune.tuner.folders import journal_path, make_folder, require_room
from int8tune.tuner.local_target import DEVICE_NAME
from int8tune.tuner.verify import SUITE_NAME
from int8tune.tuner.work_folder import work_folder

# Records, the suites of three open tasks and the programs of their contenders, of layers of a usual size.
LEAST_ROOM_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class MeasuringSite:
    """Where a campaign measures and builds.

    Attributes:
        device: its name in the records.
        transport: of the device, or of one of several that are alike; None where it can't be reached.
        measuring: makes what trials are sent to, of the probe, of what calls do not share, and of what it is for.
        building: cores that build whatever happens.
        guest: the core that builds, too, while nothing is measured there.
        memory_limit_bytes: of a session, if that is little.
        estimate_cpu: whose cycles candidates are estimated to take where times are no measurements; else empty.
        no_duels: defaults and contenders that are not to be timed in turn.
    """

    device: str
    transport: Transport | None
    capabilities: Capabilities
    target: Target
    measuring: Callable[[Program, Cold | None, Occasion], Measuring[Purpose]]
    building: Sequence[int]
    guest: int
    memory_limit_bytes: int | None = None
    estimate_cpu: str = ""
    no_duels: frozenset[tuple[str, str]] = frozenset()

    @property
    def estimated_by(self) -> str:
        """The model's name in the records; empty where times are measured.

        Raises:
            EstimateError: llvm-mca or llvm-objdump is not installed.
        """
        return model_name(self.estimate_cpu) if self.estimate_cpu else ""


@dataclass(frozen=True, slots=True)
class CampaignRunResult:
    """What came of a run of a campaign, besides the records."""

    ending: Ending
    tasks: tuple[Task, ...]
    target: Target
    nothing_left: bool


def environment_of(capabilities: Capabilities, target: Target) -> dict[str, str]:
    """What records say of where they were made."""
    return {
        **capabilities.environment,
        "int8tune": version("int8tune"),
        "llvm_target": " ".join(f"{key}={_text(value)}" for key, value in sorted(target.tvm.items())),
        "verification": SUITE_NAME,
    }


def _text(option: str | Sequence[str]) -> str:
    return option if isinstance(option, str) else ",".join(option)


def run_campaign(
    spec: CampaignSpec,
    profile: str | None,
    threads: int,
    transport: Transport,
    results: Path,
    listener: Listener,
    stop_requested: Callable[[], bool],
    build_cluster: str | None = None,
    records: str | None = None,
) -> CampaignRunResult:
    """Run or resume a campaign on the local device; its records go into `results/records.db`.

    Args:
        build_cluster: address of the scheduler of a Dask cluster that builds; this machine does if there is none.
        records: a URL of the store, where that is not in the folder.

    Raises:
        BuildPoolError: nothing is there to build with.
        CampaignError: it can't start here, differs from what is stored under its name, or lost its device.
        StoreError: the records can't be read or written.
    """
    find_linker()
    with ExitStack() as stack:
        stack.callback(transport.close)
        capabilities = transport.start()
        measuring, building = measuring_and_build_cores(threads)
        stack.enter_context(bound_to(building))
        target = target_for(capabilities.features, capabilities.llvm_cpu, capabilities.llvm_triple, profile, threads)

        def device(probe: Program, cold: Cold | None, _: Occasion) -> Measuring[Purpose]:
            return Device(transport, probe, cold=cold)

        site = MeasuringSite(DEVICE_NAME, transport, capabilities, target, device, building, measuring[-1])
        return run_on(site, spec, results, listener, stop_requested, build_cluster, records)


def run_on(
    site: MeasuringSite,
    spec: CampaignSpec,
    results: Path,
    listener: Listener,
    stop_requested: Callable[[], bool],
    build_cluster: str | None = None,
    records: str | None = None,
) -> CampaignRunResult:
    """Run or resume a campaign on what was started, which the caller closes. `records` is as of `run_campaign`.

    Raises:
        BuildPoolError: nothing is there to build with.
        CampaignError: it can't start here, differs from what is stored under its name, or lost its device.
        EstimateError: there are no times, and LLVM's tools are not here.
        SpecError: there are no times, and a mode of caches was asked for.
        StoreError: the records can't be read or written.
    """
    if site.estimate_cpu and spec.cache not in (None, CacheMode.WARM):
        raise SpecError(f"`{site.device}` has no times, and estimates know no caches: leave --cache out")
    with ExitStack() as stack:
        target = site.target
        tasks = make_plan(spec.network, target)
        environment = environment_of(site.capabilities, target)
        if site.estimated_by:
            environment[ESTIMATED_BY] = site.estimated_by
        folder = make_folder(results)
        store = open_store(records or folder, files=folder)
        stack.callback(store.close)
        claim(store, spec.name)
        mode = cache_mode_of(spec, site, store)
        spec, environment["cache"] = replace(spec, cache=mode), mode.value
        _enter(store, spec, site.device, target, environment)
        away = site.transport is None
        search = make_search(
            spec,
            tasks,
            store,
            site.estimated_by,
            in_rounds=away,
            no_duels=site.no_duels,
            notice=listener.notice,
        )
        if search.nothing_left():
            journal_path(results, spec.name).unlink(missing_ok=True)
            return CampaignRunResult(Ending.FINISHED, tasks, target, nothing_left=True)
        folder = stack.enter_context(work_folder(results, spec.name))
        require_room(folder, LEAST_ROOM_BYTES, "a campaign")
        ended = stack.enter_context(kept_run(store, spec.name))
        log = folder / "build-server.log"
        pool: Pool = ClusterPool(build_cluster) if build_cluster else BuildPool(site.building, site.guest, log)
        stack.enter_context(pool)
        probe, peak_work = _probe(site, pool, store, folder, environment)
        cold = cold_of(mode, site.capabilities, spec.network, site.memory_limit_bytes)
        device = site.measuring(probe, cold, Occasion(spec.name, results, listener.notice, store.append, peak_work))
        stack.callback(device.close)
        builds = CandidateBuilder(pool, folder, estimate_cpu=site.estimate_cpu, probe=probe)
        context = LoopContext(store, builds, device, site.device, environment, listener, stop_requested)
        loop = CampaignLoop(spec, search, context)
        listener.progress(loop.progress())
        ending = loop.run()
        ended(ending.value)
        if ending is Ending.FINISHED:
            journal_path(results, spec.name).unlink(missing_ok=True)
        return CampaignRunResult(ending, tasks, target, nothing_left=False)


def cache_mode_of(spec: CampaignSpec, site: MeasuringSite, store: Store) -> CacheMode:
    """The mode that was asked for; without that the one in which the campaign was begun, or the device's usual one."""
    if spec.cache is not None:
        return spec.cache
    if first := next(store.query(Trial, campaign=spec.name), None):
        return CacheMode(cache_mode(first.environment))
    return CacheMode.WARM if site.estimate_cpu or site.target.gpu else CacheMode.NETWORK


def _enter(store: Store, spec: CampaignSpec, device: str, target: Target, environment: Mapping[str, str]) -> None:
    """Write a new campaign down, or check that a stored one is the same on the same CPU."""
    asked = spec.as_record(device, target)
    stored = next(store.query(Campaign, campaign=spec.name), None)
    if stored is None:
        store.append([asked])
        return
    require_same(asked, stored)
    first = next(store.query(Trial, campaign=spec.name), None)
    recorded = first.environment if first else environment
    require_same_cpu(spec.name, recorded, environment)
    if (before := recorded.get(ESTIMATED_BY)) != (now := environment.get(ESTIMATED_BY)):
        words = [f"estimated by {model}" if model else "measured" for model in (before, now)]
        raise CampaignDiffersError(f"campaign `{spec.name}` was {words[0]}, now it would be {words[1]}")
    if (mode := cache_mode(recorded)) != (now := environment["cache"]):
        raise CampaignDiffersError(f"campaign `{spec.name}` was started with cache {mode}, now it is: {now}")


def require_same_cpu(campaign: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Compare two environments; of a device that was never reached, none is known.

    Raises:
        CampaignDiffersError: they name different CPUs.
    """
    if "cpu" in before and "cpu" in now and before["cpu"] != now["cpu"]:
        raise CampaignDiffersError(
            f"campaign `{campaign}` was measured on {before['cpu']}, this device is: {now['cpu']}"
        )


def _probe(
    site: MeasuringSite, pool: Pool, store: Store, folder: Path, environment: Mapping[str, str]
) -> tuple[Program, int]:
    """The peak loop, as the probe of every trial; its work, where the device is still to be checked.

    A device that was not checked is, if it can be reached and its times are measured.
    """
    known = bool(site.estimate_cpu) or any(store.query(DeviceCheck, device=site.device, target=site.target.name))
    checks_now = not known and site.transport is not None
    sizes = read_sizes(site.capabilities, site.memory_limit_bytes) if checks_now else {}
    probes = build_probes(pool, site.target, folder, sizes)
    if not known and site.transport is not None:
        caches = site.capabilities.cache_bytes
        store.append([check_device(site.transport, probes, site.device, site.target, environment, caches)])
    return probes.peak_program, 0 if known or checks_now else probes.peak.work

"""A race from end to end: device, builds and records put together and taken down again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from results.search import Leg
from results.store import SqliteStore
from rpc.local import LocalTransport
from rpc.request import Capabilities
from schedules.target import Target, target_for
from schedules.x86.amx import PROFILE as AMX_PROFILE
from tuner.bench.own import Preparation
from tuner.build.linker import find_linker
from tuner.build.pool import BuildPool
from tuner.campaign.run import environment_of
from tuner.cores import bound_to, measuring_and_build_cores
from tuner.device_check import build_probes
from tuner.folders import STORE_FILE, make_folder, work_folder
from tuner.metaschedule.leg import Track, run_leg
from tuner.metaschedule.process import require_metaschedule
from tuner.metaschedule.spec import RaceSpec

# MetaSchedule has no intrinsic for AMX; every such CPU has the instructions of this profile, too.
WITHOUT_TILES = "x86-avx512vnni"


def run_race(spec: RaceSpec, results: Path, listen: Callable[[Leg], None], stop_requested: Callable[[], bool]) -> str:
    """Race on layers, one after the other; the name under which `results/records.db` has what was found.

    MetaSchedule's databases are kept in the folder of this name in `results`, one for each layer.

    Raises:
        NoMetaScheduleError: it is not installed.
        BenchError: the race can't start here, or can't go on.
        CampaignError: a campaign can't.
        StoreError: the records can't be read or written.
    """
    require_metaschedule()
    find_linker()
    measuring, building = measuring_and_build_cores()
    with ExitStack() as stack:
        transport = stack.enter_context(LocalTransport(measuring))
        device = transport.start()
        target = target_for(device.features, device.llvm_cpu, device.llvm_triple, spec.profile)
        store = stack.enter_context(SqliteStore(make_folder(results) / STORE_FILE))
        folder = stack.enter_context(work_folder(results, "race"))
        with bound_to(building):
            pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log"))
            probes = build_probes(pool, target, folder, {})
        track = Track(
            name=datetime.now(UTC).strftime("race-%Y%m%dT%H%M%S.%f"),
            spec=spec,
            results=results,
            store=store,
            target=target,
            peer_target=_peer_target(target, device),
            measuring=measuring,
            building=building,
            environment=environment_of(device, target),
            transport=transport,
            preparation=Preparation(pool, transport, target),
            peak=probes.peak,
            stop_requested=stop_requested,
        )
        for index, workload in enumerate(spec.layers):
            # Each in a folder of another name: a library is loaded by its path, and an old one would be found again.
            with work_folder(folder, f"layer-{index}") as own:
                leg = None if stop_requested() else run_leg(track, index, workload, own)
            if leg is None:
                break
            listen(leg)
        return track.name


def _peer_target(target: Target, device: Capabilities) -> Target:
    """What MetaSchedule compiles for: this library's target, without tile registers."""
    if target.profile != AMX_PROFILE:
        return target
    return target_for(device.features, device.llvm_cpu, device.llvm_triple, WITHOUT_TILES)

"""A race from end to end: its site put together and taken down again, and layers raced on in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from int8tune.results.search import RaceLayer
from int8tune.rpc.request import Capabilities
from int8tune.schedules.target import Target, target_for
from int8tune.schedules.x86.amx import PROFILE as AMX_PROFILE
from int8tune.tuner.bench.gpu.site import open_gpu_site
from int8tune.tuner.bench.site import Site, open_site
from int8tune.tuner.metaschedule.process import require_metaschedule
from int8tune.tuner.metaschedule.race_layer import Track, run_layer
from int8tune.tuner.metaschedule.spec import RaceSpec
from int8tune.tuner.work_folder import work_folder

# MetaSchedule has no intrinsic for AMX; every such CPU has the instructions of this profile, too.
WITHOUT_TILES = "x86-avx512vnni"


def run_race(
    spec: RaceSpec, results: Path, listen: Callable[[RaceLayer], None], stop_requested: Callable[[], bool]
) -> str:
    """Race on layers, one after the other; the name under which `results/records.db` has what was found.

    MetaSchedule's databases are kept in the folder of this name in `results`, one for each layer.

    Raises:
        NoMetaScheduleError: it is not installed.
        BenchError: the race can't start here, or can't go on.
        CampaignError: a campaign can't.
        DeviceStartError: the GPU can't be used.
        StoreError: the records can't be read or written.
    """
    require_metaschedule()
    with _site(spec, results) as site:
        track = Track(
            name=datetime.now(UTC).strftime("race-%Y%m%dT%H%M%S.%f"),
            spec=spec,
            results=results,
            site=site,
            peer_target=_peer_target(site.target, site.device),
            stop_requested=stop_requested,
        )
        for index, workload in enumerate(spec.layers):
            # Each in a folder of another name: a library is loaded by its path, and an old one would be found again.
            with work_folder(site.folder, f"layer-{index}") as own:
                race_layer = None if stop_requested() else run_layer(track, index, workload, own)
            if race_layer is None:
                break
            listen(race_layer)
        return track.name


def _site(spec: RaceSpec, results: Path) -> AbstractContextManager[Site]:
    if spec.board is not None:
        return open_gpu_site(spec.board, results, "race", spec.profile)
    return open_site(results, "race", spec.profile)


def _peer_target(target: Target, device: Capabilities) -> Target:
    """What MetaSchedule compiles for: this library's target, without tile registers."""
    if target.profile != AMX_PROFILE:
        return target
    return target_for(device.features, device.llvm_cpu, device.llvm_triple, WITHOUT_TILES)

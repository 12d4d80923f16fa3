"""What commands on models have in common: the target of this machine, and schedules from records or a best log."""

from __future__ import annotations

from pathlib import Path

from int8tune.compiler.best_log import schedule_faults
from int8tune.compiler.schedule_choice import Schedules
from int8tune.results.best import BestSchedule, best_schedules
from int8tune.results.best_log import read_best_log
from int8tune.results.stores import is_url
from int8tune.rpc.local.capabilities import read_capabilities
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.errors import TooManyThreadsError
from int8tune.tuner.folders import STORE_FILE
from int8tune.tuner.publish import open_records


def device_target(profile: str | None, threads: int) -> Target:
    """The target of this machine.

    Raises:
        UnknownTargetError: nobody registered the profile, or this CPU can't run it.
        TooManyThreadsError: this process may not use so many cores.
    """
    device = read_capabilities()
    if not 1 <= threads <= len(device.cores):
        raise TooManyThreadsError(f"threads must be 1 to {len(device.cores)}, the cores of this process: {threads}")
    return target_for(device.features, device.llvm_cpu, device.llvm_triple, profile, threads)


def schedules_for(target: Target, results: str | Path, log: Path | None) -> Schedules:
    """The schedules of a best log, or of the records in a folder, which need not be there; others are defaults.

    Raises:
        BestLogError: the log has faults.
        StoreError: the records can't be read.
    """
    return Schedules(target, recorded(target, results) if log is None else read_best_log(log, schedule_faults))


def recorded(target: Target, results: str | Path) -> list[BestSchedule]:
    """The best schedules in the records of a folder, or at a URL, that this version can still make."""
    if not is_url(results) and not (Path(results) / STORE_FILE).exists():
        return []
    with open_records(results) as store:
        found = best_schedules(store, target=target.name)
    return [best for best in found if not schedule_faults(best)]

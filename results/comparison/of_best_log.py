"""A best log as a side of a comparison: medians alone, as it has no repeats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from int8tune.results.best import BestSchedule
from int8tune.results.best_log import read_best_log
from int8tune.results.comparison.side import Conditions, LayerTime, Side
from int8tune.results.errors import ComparisonError
from int8tune.results.label import layer_label


def side_of_best_log(path: Path) -> Side:
    """What a best log says.

    Raises:
        BestLogError: it has faults.
        ComparisonError: it is of several devices or targets, or has measured and estimated schedules, or none.
    """
    schedules = read_best_log(path)
    if not schedules:
        raise ComparisonError(f"the best log has no schedule: {path}")
    device = _only("devices", [best.device for best in schedules], path)
    target = _only("targets", [best.target for best in schedules], path)
    kinds = ["measured" if best.median_s is not None else "estimated" for best in schedules]
    is_estimated = _only("kinds of times", kinds, path) == "estimated"
    threads = target.rpartition("-t")[2]
    return Side(
        source=f"best log {path}",
        name=path.name,
        network="",
        conditions=Conditions(device=device, target=target, threads=threads if threads.isdigit() else "1"),
        layers={best.workload: _layer_time(best) for best in schedules},
        estimated_by="a model of the CPU" if is_estimated else "",
    )


def _only(what: str, values: Sequence[str], path: Path) -> str:
    found = sorted(set(values))
    if len(found) > 1:
        raise ComparisonError(f"the best log has schedules of several {what} ({', '.join(found[:8])}): {path}")
    return found[0]


def _layer_time(best: BestSchedule) -> LayerTime:
    time = best.estimated_cycles if best.median_s is None else best.median_s
    assert time is not None
    return LayerTime(key=best.workload, label=layer_label(best.workload), time=time, candidate=best.candidate)

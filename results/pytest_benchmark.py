"""Times as pytest-benchmark keeps them, so that `pytest-benchmark compare FILE...` and its histograms work on them.

Its JSON has no specification; the fields are those that version 5 writes, and each statistic is defined as there.
"""

from __future__ import annotations

import json
import platform
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from int8tune.results.atomic import write_atomic
from int8tune.results.comparison.compare import Comparison
from int8tune.results.comparison.side import LayerTime, Side
from int8tune.results.errors import ExportError
from int8tune.results.label import layer_label
from int8tune.results.provenance import source_commit
from int8tune.results.record import BenchResult, Entrant, cache_mode

# The version of pytest-benchmark whose fields these are.
FIELDS_OF = "5.3.1"
_FENCE = 1.5


@dataclass(frozen=True, slots=True)
class Timed:
    """One benchmark.

    Attributes:
        name: the same in two files that are to be compared.
        group: what is shown together: the libraries on one layer.
        times_s: seconds per call, one value per round.
        calls: that each value averages over.
        about: values that are shown by no table and kept in the file.
    """

    name: str
    group: str
    times_s: tuple[float, ...]
    calls: int = 1
    about: Mapping[str, str | int | float] = field(default_factory=dict)


def of_layers(results: Iterable[BenchResult]) -> list[Timed]:
    """A benchmark for each library that ran each layer, this library's first."""
    return [_of_entrant(result, entrant) for result in results for entrant in result.entrants if entrant.times_s]


def _of_entrant(result: BenchResult, entrant: Entrant) -> Timed:
    about: dict[str, str | int | float] = {
        "library": entrant.name,
        "version": entrant.version,
        "device": result.device,
        "target": result.target,
        "threads": result.threads,
        "cache": cache_mode(result.environment),
        "label": layer_label(result.workload),
    }
    if entrant is result.ours:
        about |= {"workload": result.workload, "candidate": result.candidate.id}
    return Timed(f"{entrant.name}[{result.workload}]", result.workload, entrant.times_s, about=about)


def of_comparison(comparison: Comparison) -> list[Timed]:
    """A benchmark for each side of each layer, A's first; one round where only a median is known.

    Raises:
        ExportError: times are estimates, in cycles.
    """
    if comparison.is_estimated:
        raise ExportError(f"pytest-benchmark's times are seconds, and these are cycles of {comparison.a.estimated_by}")
    sides = {"A": comparison.a, "B": comparison.b}
    return [
        _of_side(letter, side, timed)
        for layer in comparison.layers
        for (letter, side), timed in zip(sides.items(), (layer.a, layer.b), strict=True)
        if timed is not None
    ]


def _of_side(letter: str, side: Side, timed: LayerTime) -> Timed:
    known = {name: getattr(side.conditions, name) for name in ("device", "target", "threads", "cache")}
    about: dict[str, str | int | float] = {name: value for name, value in known.items() if value}
    about |= {"side": letter, "source": side.source, "label": timed.label}
    if timed.candidate is not None:
        about |= {"workload": timed.key, "candidate": timed.candidate.id}
    return Timed(f"{letter}[{timed.key}]", timed.key, timed.times_s or (timed.time,), about=about)


def write_benchmarks(path: Path, timed: Sequence[Timed], cpu: str = "", commit: str | None = None) -> None:
    """Write a file that pytest-benchmark reads.

    Args:
        cpu: the model on which these times were taken, empty where it is not known.
        commit: of the sources that were timed; of this package's checkout if None.

    Raises:
        ExportError: nothing was timed, or the file can't be written.
    """
    if not timed:
        raise ExportError(f"there are no times to write: {path}")
    write_atomic(path, json.dumps(as_dict(timed, cpu, commit), indent=4, allow_nan=False) + "\n")


def as_dict(timed: Sequence[Timed], cpu: str = "", commit: str | None = None) -> dict[str, Any]:
    """What such a file holds."""
    return {
        "machine_info": _machine(cpu),
        "commit_info": _commit(source_commit() if commit is None else commit),
        "benchmarks": [_benchmark(one) for one in timed],
        "datetime": datetime.now(UTC).isoformat(),
        "version": FIELDS_OF,
        "int8tune": version("int8tune"),
    }


def statistics_of(times_s: Sequence[float]) -> dict[str, float | int | str | list[float]]:
    """The statistics of one benchmark and its raw times."""
    ordered, total = sorted(times_s), sum(times_s)
    mean = statistics.mean(times_s)
    deviation = statistics.stdev(times_s) if len(times_s) > 1 else 0
    first, third = quartiles(ordered)
    low, high = first - _FENCE * (third - first), third + _FENCE * (third - first)
    beyond_deviation = sum(not mean - deviation <= time_s <= mean + deviation for time_s in times_s)
    beyond_fence = sum(not low <= time_s <= high for time_s in times_s)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": deviation,
        "rounds": len(ordered),
        "median": statistics.median(ordered),
        "iqr": third - first,
        "q1": first,
        "q3": third,
        "iqr_outliers": beyond_fence,
        "stddev_outliers": beyond_deviation,
        "outliers": f"{beyond_deviation};{beyond_fence}",
        "ld15iqr": ordered[0] if len(ordered) == 1 else ordered[bisect_left(ordered, low)],
        "hd15iqr": ordered[bisect_right(ordered, high) - 1],
        "ops": len(ordered) / total,
        "total": total,
        "data": list(times_s),
    }


def quartiles(ordered: Sequence[float]) -> tuple[float, float]:
    """The first and the third; halves' medians, and for odd counts means of the two nearest, weighted 1 to 3."""
    count = len(ordered)
    if count == 1:
        return ordered[0], ordered[0]
    if count % 2 == 0:
        return statistics.median(ordered[: count // 2]), statistics.median(ordered[count // 2 :])
    low, remainder = divmod(count, 4)
    if remainder == 1:
        upper = 3 * low
        return (
            0.25 * ordered[low - 1] + 0.75 * ordered[low],
            0.75 * ordered[upper] + 0.25 * ordered[upper + 1],
        )
    upper = 3 * low + 1
    return 0.75 * ordered[low] + 0.25 * ordered[low + 1], 0.25 * ordered[upper] + 0.75 * ordered[upper + 1]


def _benchmark(timed: Timed) -> dict[str, Any]:
    return {
        "group": timed.group,
        "name": timed.name,
        "fullname": timed.name,
        "params": None,
        "param": None,
        "extra_info": dict(timed.about),
        "options": {
            "disable_gc": False,
            "timer": "int8tune",
            "min_rounds": len(timed.times_s),
            "max_time": 0,
            "min_time": 0,
            "warmup": True,
        },
        "stats": {**statistics_of(timed.times_s), "iterations": timed.calls},
    }


def _machine(cpu: str) -> dict[str, Any]:
    return {
        "node": platform.node(),
        "processor": platform.processor(),
        "machine": platform.machine(),
        "python_compiler": platform.python_compiler(),
        "python_implementation": platform.python_implementation(),
        "python_implementation_version": platform.python_version(),
        "python_version": platform.python_version(),
        "python_build": list(platform.python_build()),
        "release": platform.release(),
        "system": platform.system(),
        "cpu": {"brand_raw": cpu} if cpu else {},
    }


def _commit(commit: str) -> dict[str, Any]:
    return {
        "id": commit.removesuffix("-dirty") or "unversioned",
        "time": None,
        "author_time": None,
        "dirty": commit.endswith("-dirty"),
        "project": "int8tune",
        "branch": "(unknown)",
    }

"""TVM MetaSchedule's JSON database as a recording: a config is what a trace decided, by position.

Source of the format: TVM, src/meta_schedule/database/json_database.cc.
"""

from __future__ import annotations

import json
import stat
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from int8tune.results.bounded_json import parse_json
from int8tune.results.metaschedule import RECORDS, WORKLOADS
from int8tune.results.stats import median
from int8tune.results.typed_json import from_json
from int8tune.tuner.errors import RecordingError
from int8tune.tuner.lab.recorded_layer import RecordedLayer, canonical

MAX_BYTES = 256 << 20
LONGEST_LINE = 16 << 20
LONGEST_KEY = 512
# What MetaSchedule writes for a candidate that failed.
FAILED_S = 1e9


def read_database(folder: Path) -> list[RecordedLayer]:
    """The layers of a database, each with the candidates that were measured.

    Raises:
        RecordingError: the files are not there, or hold something else.
    """
    workloads = [str(line[0])[:LONGEST_KEY] for line in _lines(folder / WORKLOADS) if isinstance(line, list) and line]
    found: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    for number, line in enumerate(_lines(folder / RECORDS), 1):
        try:
            index, (trace, run_s, target, *_) = line
            config, times = _config(trace), from_json(tuple[float, ...], run_s or [])
            key = (_kind(target), workloads[from_json(int, index)])
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise RecordingError(f"{folder / RECORDS}, line {number}: not a record of MetaSchedule") from error
        ok = bool(times) and min(times) > 0 and max(times) < FAILED_S
        found[key][canonical(config)] = median(times) if ok else None
    layers = [RecordedLayer(target, key, "metaschedule", 1, times) for (target, key), times in found.items()]
    usable = [layer for layer in layers if any(layer.times_s.values())]
    if not usable:
        raise RecordingError(f"{folder} has no candidate that works")
    return usable


def _config(trace: Any) -> dict[str, str]:
    """The decisions by the index of their instruction, and the instructions' own choices, as text."""
    instructions, decisions = trace
    config = {f"d{int(at)}": json.dumps(value) for at, value in decisions}
    return config or {"instructions": str(len(instructions))}


def _kind(target: Any) -> str:
    return str(target.get("mcpu") or target["kind"] if isinstance(target, dict) else target)[:LONGEST_KEY]


def _lines(path: Path) -> Iterator[Any]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordingError(f"{path} is no file")
        if path.stat().st_size > MAX_BYTES:
            raise RecordingError(f"{path} is larger than a recording may be: {MAX_BYTES >> 20} MiB")
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), ""), 1):
                try:
                    yield parse_json(line)
                except ValueError as error:
                    raise RecordingError(f"{path}, line {number}: not JSON") from error
    except OSError as error:
        raise RecordingError(f"no database of MetaSchedule is there: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path} is not text") from error

"""Whole spaces that were measured once, as a file: one row a config, in Parquet.

Times are corrected for the drift of the machine, which the loop of the peak saw beside each trial (the median of some
trials before and after: what disturbs one loop is no drift). How much of that drift kernels have is fitted to the
campaign's duels, in which both candidates were timed at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.results.bounded_json import parse_json
from int8tune.results.drift import PROBES
from int8tune.results.record import Duel, Trial
from int8tune.results.stats import median
from int8tune.results.text import printable
from int8tune.tuner.errors import RecordingError
from int8tune.tuner.lab.recorded_layer import RecordedLayer, canonical

COLUMNS = ("target", "workload", "template", "version", "config", "outcome", "time_s")
# Trials before and after one, whose probes say how fast the machine was.
NEIGHBOURS = 25
MAX_ROWS = 1_000_000
LONGEST_TEXT = 1 << 16
_ROWS_AT_ONCE = 1000
_TEXT_COLUMNS = ["target", "workload", "template", "config", "outcome"]
# Of the description in a file, in bytes and entries.
_LIMITS = {"thrift_string_size_limit": 16 << 20, "thrift_container_size_limit": 1 << 20}


def record_layers(trials: Iterable[Trial], duels: Iterable[Duel] = ()) -> list[RecordedLayer]:
    """What a campaign measured, layer by layer.

    Raises:
        RecordingError: it was estimated.
    """
    known = sorted(trials, key=lambda trial: trial.started_at)
    if any(trial.estimate for trial in known):
        raise RecordingError("these trials were estimated, not measured: there are no times to record")
    times_s = settled_times_s(known, duels)
    layers: dict[tuple[str, str, str, int], dict[str, float | None]] = defaultdict(dict)
    for trial in known:
        candidate = trial.candidate
        key = candidate.target, candidate.workload, candidate.template, candidate.template_version
        layers[key][canonical(candidate.config)] = times_s[candidate.id]
    return [RecordedLayer(*key, times) for key, times in layers.items() if any(times.values())]


def settled_times_s(trials: Iterable[Trial], duels: Iterable[Duel] = ()) -> dict[str, float | None]:
    """Seconds per call of each candidate of a campaign, less what the machine was slower then; None where it failed."""
    known = sorted(trials, key=lambda trial: trial.started_at)
    drifts = dict(zip((t.candidate.id for t in known), _drifts([_probe_s(trial) for trial in known]), strict=True))
    # A twin has the times of the candidate with the same binary, and so its drift.
    drifts = {t.candidate.id: drifts[t.reused_from or t.candidate.id] for t in known}
    share = _share_of_drift({trial.candidate.id: trial for trial in known}, drifts, duels)
    return {
        trial.candidate.id: median(trial.measurement.times_s) / drifts[trial.candidate.id] ** share
        if trial.measurement
        else None
        for trial in known
    }


def _share_of_drift(trials: Mapping[str, Trial], drifts: Mapping[str, float], duels: Iterable[Duel]) -> float:
    """The exponent of the drift with which trials agree best with duels (least squares of logarithms), 0 to 1.

    All of it where no duel tells: then nothing is known but what the loop of the peak saw.
    """
    seen, missing = [], []
    for duel in duels:
        first, second = trials[duel.a].measurement, trials[duel.b].measurement
        if first and second:
            seen.append(math.log(drifts[duel.b] / drifts[duel.a]))
            alone = median(first.times_s) / median(second.times_s)
            missing.append(math.log(median(duel.a_times_s) / median(duel.b_times_s) / alone))
    if not any(seen):
        return 1.0
    return min(1.0, max(0.0, float(np.dot(seen, missing) / np.dot(seen, seen))))


def _probe_s(trial: Trial) -> float | None:
    """What the loop of the peak took beside a trial; None where it was not timed."""
    observed = trial.measurement.observed if trial.measurement else {}
    return min((observed[name] for name in PROBES if name in observed), default=None)


def _drifts(probes_s: Sequence[float | None]) -> list[float]:
    """How much slower than usual the machine was at each trial."""
    timed = [probe_s for probe_s in probes_s if probe_s]
    if not timed:
        return [1.0] * len(probes_s)
    usual_s, drifts = median(timed), []
    for at in range(len(probes_s)):
        near = [probe_s for probe_s in probes_s[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1] if probe_s]
        drifts.append(median(near) / usual_s if near else 1.0)
    return drifts


def write_recording(layers: Iterable[RecordedLayer], path: Path) -> int:
    """Write layers as Parquet; how many rows that are.

    Raises:
        RecordingError: the file can't be written.
    """
    pandas = _pandas()
    rows = [
        (layer.target, layer.workload, layer.template, layer.version, config, "ok" if time else "failed", time)
        for layer in layers
        for config, time in layer.times_s.items()
    ]
    frame = pandas.DataFrame(rows, columns=COLUMNS).astype({"time_s": "float32"})
    try:
        frame.to_parquet(path, engine="pyarrow", compression="zstd", index=False)
    except OSError as error:
        raise RecordingError(f"the recording can't be written: {path}: {error.strerror or error}") from error
    return len(rows)


def bundled() -> list[RecordedLayer]:
    """The recordings that come with the program."""
    return [layer for path in sorted(Path(__file__).parent.glob("*.parquet")) for layer in read_recording(path)]


def read_recording(path: Path) -> list[RecordedLayer]:
    """Read what `write_recording` wrote.

    Raises:
        RecordingError: it can't be read, or holds something else.
    """
    layers: dict[tuple[str, str, str, int], dict[str, float | None]] = defaultdict(dict)
    for *key, config, _, time_s in _rows(path):
        layers[_key(key, path)][_checked(config, path)] = _positive(time_s, path)
    usable = [RecordedLayer(*key, times) for key, times in layers.items() if any(times.values())]
    if not usable:
        raise RecordingError(f"{path} has no layer with a config that works")
    return usable


def _rows(path: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of a file, in pieces: texts stay dictionaries, so that a small file can't become a large table."""
    pyarrow = _pyarrow()
    if not path.is_file():
        raise RecordingError(f"no recording is there: {path}")
    try:
        with pyarrow.parquet.ParquetFile(path, **_LIMITS) as file:
            _check_form(file, path)
        with pyarrow.parquet.ParquetFile(path, read_dictionary=_TEXT_COLUMNS, **_LIMITS) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(COLUMNS)):
                yield from zip(*(_column(batch.column(name), path) for name in COLUMNS), strict=True)
    except (OSError, ValueError, MemoryError, pyarrow.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise RecordingError(printable(f"{path} is no recording: {reason}")) from error


def _check_form(file: Any, path: Path) -> None:
    names = file.schema_arrow.names
    if missing := [name for name in COLUMNS if name not in names]:
        raise RecordingError(f"{path} is no recording: it lacks the columns {', '.join(missing)}")
    if file.metadata.num_rows > MAX_ROWS:
        raise RecordingError(
            f"{path} has more rows than a recording may have, {MAX_ROWS:,}: {file.metadata.num_rows:,}"
        )
    columns = [file.schema_arrow.field(name).type for name in COLUMNS]
    if nested := [name for name, kind in zip(COLUMNS, columns, strict=True) if kind.num_fields]:
        raise RecordingError(f"{path} is no recording: its columns must be texts and numbers: {', '.join(nested)}")


def _column(column: Any, path: Path) -> Sequence[Any]:
    """The values of a piece; of texts that are the same there is one in memory."""
    if not hasattr(column, "dictionary"):
        return _short(column.to_pylist(), path)
    known = [*_short(column.dictionary.to_pylist(), path), None]
    return [known[-1 if index is None else index] for index in column.indices.to_pylist()]


def _short(values: list[Any], path: Path) -> list[Any]:
    for value in values:
        if isinstance(value, str | bytes) and len(value) > LONGEST_TEXT:
            raise RecordingError(f"{path} is damaged: a text has at most {LONGEST_TEXT} characters: {len(value)}")
    return values


def _key(values: Sequence[Any], path: Path) -> tuple[str, str, str, int]:
    target, workload, template, version = values
    if not isinstance(version, int) or not all(isinstance(text, str) for text in (target, workload, template)):
        raise RecordingError(printable(f"{path} is damaged: this is no layer: {values!r:.200}"))
    return target, workload, template, version


def _checked(text: object, path: Path) -> str:
    try:
        config = parse_json(str(text))
    except ValueError as error:
        raise RecordingError(f"{path} is damaged: a config is not JSON: {str(text)[:80]}") from error
    if not isinstance(config, dict) or not all(isinstance(value, int | str | bool) for value in config.values()):
        raise RecordingError(f"{path} is damaged: this is not a config: {str(text)[:80]}")
    return canonical(config)


def _positive(time_s: Any, path: Path) -> float | None:
    if time_s is None or (isinstance(time_s, float) and math.isnan(time_s)):
        return None
    if not isinstance(time_s, int | float) or not (math.isfinite(time_s) and time_s > 0):
        raise RecordingError(f"{path} is damaged: a time must be positive: {time_s!r:.80}")
    return float(time_s)


def _pandas() -> Any:
    _pyarrow()
    import pandas

    return pandas


def _pyarrow() -> Any:
    try:
        import pandas  # noqa: F401
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise RecordingError(f"recordings need pandas and pyarrow: {error}; pip install 'int8tune[lab]'") from error
    return pyarrow

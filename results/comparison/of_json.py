"""JSON as a side of a comparison: what `bench --format json` printed, of layers or models; pytest-benchmark's files.

A file may come from anywhere: what is taken of it is checked, what is not is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from int8tune.results.bounded_json import parse_json
from int8tune.results.comparison.of_store import PEAK_LOOP
from int8tune.results.comparison.side import Conditions, LayerTime, Side
from int8tune.results.errors import ComparisonError
from int8tune.results.label import layer_label
from int8tune.results.record import Candidate, cache_mode
from int8tune.results.stats import median
from int8tune.results.text import printable
from int8tune.results.typed_json import from_json

MOST_BYTES = 64 << 20
MOST_LAYERS = 50_000
LONGEST_TEXT = 512
# Of a normal distribution: its interquartile range, and the deviation of many values' median over that of their mean.
_DEVIATIONS_OF_IQR, _MEDIAN_OVER_MEAN = 1.349, 1.2533


def side_of_json(content: bytes, where: str) -> Side:
    """What a file of one of these kinds says.

    Raises:
        ComparisonError: it is of none, or has a value that can't be.
    """
    try:
        value = parse_json(content, most_bytes=MOST_BYTES)
        if isinstance(value, dict) and "benchmarks" in value:
            return _side_of_pytest(value, where)
        if isinstance(value, dict) and "layers" in value and "bench" in value:
            return _side_of_bench(value, where)
        if isinstance(value, list) and value and all(isinstance(each, dict) and "runtimes" in each for each in value):
            return _side_of_models(value, where)
    except (ValueError, KeyError, TypeError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ComparisonError(f"not a file of results ({printable(what)[:200]}): {where}") from error
    raise ComparisonError(f"JSON, but neither of `int8tune bench --format json` nor of pytest-benchmark: {where}")


def _side_of_bench(value: Mapping[str, Any], where: str) -> Side:
    rows = _objects(value["layers"])
    environment = {name: text for name, text in _texts(value.get("environment", {})).items() if text}
    versions = {_text(each["name"]): str(each.get("version")) for each in _objects(value.get("libraries", []))}
    timed = [row for row in rows if row.get("time_s") is not None]
    first = rows[0] if rows else {}
    return Side(
        source=f"bench {_text(value['bench'])} of {where}",
        name=_text(value["bench"]),
        network="",
        conditions=Conditions(
            device=_text(first.get("device", "")),
            cpu=environment.get("gpu") or environment.get("cpu", ""),
            target=_text(first.get("target", "")),
            threads=str(from_json(int, first["threads"])) if "threads" in first else "",
            cache=cache_mode(environment),
        ),
        layers={_text(row["workload"]): _bench_time(row, versions) for row in timed},
        failed={_text(row["workload"]): _text(row.get("error", "")) for row in rows if row.get("time_s") is None},
        probe_s=tuple(1 / _positive(row["peak_ops_per_s"]) for row in timed if row.get("peak_ops_per_s")),
        environment=environment,
        started_at=_text(value["bench"]),
    )


def _bench_time(row: Mapping[str, Any], versions: Mapping[str, str]) -> LayerTime:
    times_s = _times(row.get("times_s", []))
    references = {
        f"{_text(peer['name'])} {versions.get(peer['name'])}": _times(peer.get("times_s", []))
        for peer in _objects(row.get("peers", []))
    }
    references[PEAK_LOOP] = tuple(1 / peak for peak in _times(row.get("peaks_ops_per_s", [])))
    found = _members(row["candidate"]) if row.get("candidate") else None
    return LayerTime(
        key=_text(row["workload"]),
        label=layer_label(_text(row["workload"])),
        time=_positive(row["time_s"]),
        times_s=times_s,
        references={name: values for name, values in references.items() if values},
        candidate=None if found is None else _candidate(found),
    )


def _candidate(found: Mapping[str, Any]) -> Candidate:
    config = _members(found["config"])
    for name, knob in config.items():
        if not isinstance(knob, int | str):
            raise ValueError(f"a knob's value must be an integer, a text, true or false: {name[:40]}")
    version = from_json(int, found["template_version"])
    return Candidate(_text(found["workload"]), _text(found["target"]), _text(found["template"]), version, config)


def _side_of_models(value: Sequence[Mapping[str, Any]], where: str) -> Side:
    layers, failed = {}, {}
    for model in value:
        ours, *others = _objects(model["runtimes"])
        key = _text(model["model"])
        if times_s := _times(ours["times_s"]):
            references = {f"{_text(each['name'])} {each.get('version')}": _times(each["times_s"]) for each in others}
            known = {name: values for name, values in references.items() if values}
            layers[key] = LayerTime(key, key, median(times_s), times_s=times_s, references=known)
        else:
            failed[key] = _text(ours.get("failure", ""))
    threads = {str(from_json(int, model["threads"])) for model in value}
    return Side(
        source=f"bench of models {where}",
        name=where,
        network="",
        conditions=Conditions(threads=", ".join(sorted(threads))),
        layers=layers,
        failed=failed,
    )


def _side_of_pytest(value: Mapping[str, Any], where: str) -> Side:
    rows = [row for row in _objects(value["benchmarks"]) if not _is_older(row)]
    machine = _members(value.get("machine_info") or {})
    cpu = _members(machine.get("cpu") or {})
    about = [_members(row.get("extra_info") or {}) for row in rows]
    peers = _peers(rows, about)
    layers = [
        _benchmark(row, extra, peers.get(str(row.get("group")), {}))
        for row, extra in zip(rows, about, strict=True)
        if not _is_peer(extra)
    ]
    return Side(
        source=f"pytest-benchmark's {where}",
        name=where,
        network="",
        conditions=Conditions(
            cpu=_text(cpu.get("brand_raw") or ""),
            **{name: _shared(about, name) for name in ("device", "target", "threads", "cache")},
        ),
        layers={layer.key: layer for layer in layers},
        environment=_environment(machine, value),
        started_at=_text(value.get("datetime") or ""),
    )


def _environment(machine: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, str]:
    commit = _members(value.get("commit_info") or {})
    found = {"python": machine.get("python_version"), "os": machine.get("release"), "commit": commit.get("id")}
    return {name: _text(text) for name, text in found.items() if text}


def _is_older(row: Mapping[str, Any]) -> bool:
    """Whether it is the older side, in what `results compare --benchmark-json` wrote."""
    return _members(row.get("extra_info") or {}).get("side") == "A"


def _is_peer(extra: Mapping[str, Any]) -> bool:
    """Whether it is another library, in what `bench --benchmark-json` wrote."""
    return "library" in extra and "workload" not in extra and extra["library"] != "int8tune"


def _peers(rows: Sequence[Mapping[str, Any]], about: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By group, what other libraries took, timed in turn with this one."""
    found: dict[str, dict[str, Any]] = {}
    for row, extra in zip(rows, about, strict=True):
        if _is_peer(extra):
            name = f"{_text(extra['library'])} {extra.get('version')}"
            found.setdefault(str(row.get("group")), {})[name] = _times(_members(row["stats"]).get("data") or [])
    return found


def _benchmark(
    row: Mapping[str, Any], extra: Mapping[str, Any], references: Mapping[str, tuple[float, ...]]
) -> LayerTime:
    stats = _members(row["stats"])
    times_s = _times(stats.get("data") or [])
    time_s = _positive(stats["median"])
    error = None
    if not times_s and "iqr" in stats and "rounds" in stats:
        deviation = from_json(float, stats["iqr"]) / _DEVIATIONS_OF_IQR / time_s
        error = _MEDIAN_OVER_MEAN * max(deviation, 0.0) / math.sqrt(max(1, from_json(int, stats["rounds"])))
    key = _text(extra.get("workload") or (row["group"] if "side" in extra else row.get("fullname")) or row["name"])
    label = layer_label(key) if extra.get("workload") else _text(row["name"])
    return LayerTime(key=key, label=label, time=time_s, times_s=times_s, error=error, references=references)


def _shared(about: Sequence[Mapping[str, Any]], name: str) -> str:
    """The one value that benchmarks say of themselves; empty where they don't, or say several."""
    found = {str(extra[name])[:LONGEST_TEXT] for extra in about if extra.get(name) is not None}
    return printable(found.pop()) if len(found) == 1 else ""


def _members(value: object) -> dict[str, Any]:
    return from_json(dict[str, Any], value)


def _objects(value: object) -> list[dict[str, Any]]:
    found = from_json(tuple[dict[str, Any], ...], value)
    if len(found) > MOST_LAYERS:
        raise ValueError(f"at most {MOST_LAYERS} entries are read: {len(found)}")
    return list(found)


def _texts(value: object) -> Mapping[str, str]:
    return {name: _text(text) for name, text in from_json(dict[str, str], value).items()}


def _text(value: object) -> str:
    text = from_json(str, value)
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a text has at most {LONGEST_TEXT} characters: {len(text)}")
    return printable(text)


def _times(value: object) -> tuple[float, ...]:
    found = from_json(tuple[float, ...], value)
    for time_s in found:
        _positive(time_s)
    return found


def _positive(value: object) -> float:
    number = from_json(float, value)
    if number <= 0:
        raise ValueError(f"times must be over 0: {number}")
    return number

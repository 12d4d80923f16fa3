"""What `zoo.py` finds out about files: which compile, which are right, and how fast they are."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo_roundings import least_sqnr_db

LIMIT_S = 900
WRONG_ARGUMENTS = 2
"""The exit status of commands that were given a wrong option: an error of no file."""
SAMPLES = 4
PEERS = {".onnx": ("onnxruntime", "openvino"), ".tflite": ("litert", "openvino")}
ALL_PEERS = tuple(dict.fromkeys(name for names in PEERS.values() for name in names))

Row = Mapping[str, Any]


def table(folder: Path, only: str, families: Mapping[str, str]) -> str:
    """Judge each file of `make` once; what was found of all."""
    rows = _known("judged", folder, only, families, judged, line_of)
    return "\n".join(report(rows))


def times(folder: Path, only: str, families: Mapping[str, str], options: Sequence[str]) -> str:
    """Time each file of `make` once with these options of `int8tune bench`; what was found of all."""
    kept = "".join(["times", *options]).replace("/", "_")
    rows = _known(kept, folder, only, families, lambda file: timed(file, options), times_line)
    return "\n".join(times_report(rows))


def roundings(folder: Path, only: str, families: Mapping[str, str], samples: int) -> str:
    """How far ONNX Runtime is from itself for each file of `make`, where the last bits of its numbers differ."""

    def find(file: Path) -> Row:
        return {"sqnr_db": least_sqnr_db(file, samples)}

    def line(row: Row) -> str:
        found = "equal" if row["sqnr_db"] is None else f"{row['sqnr_db']:.0f} dB"
        return f"| {row['file']} | {found} |"

    kept = "roundings" if samples == SAMPLES else f"roundings_{samples}"
    rows = _known(kept, folder, only, families, find, line, (".onnx",))
    return "\n".join(["| model | ONNX Runtime beside itself |", "|-|-|", *map(line, rows)])


def _known(
    what: str,
    folder: Path,
    only: str,
    families: Mapping[str, str],
    find: Callable[[Path], Row],
    line: Callable[[Row], str],
    suffixes: Iterable[str] = tuple(PEERS),
) -> list[Row]:
    """What is known of each file, in the order of their names; found out where it is not, and kept."""
    kept = folder / f"{what}.jsonl"
    rows = {row["file"]: row for row in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    for file in sorted(file for suffix in suffixes for file in folder.glob(f"*/*{suffix}")):
        name = f"{file.parent.name}/{file.stem}"
        if only not in name or name in rows:
            continue
        rows[name] = {"file": name, "family": families.get(file.stem, ""), **find(file)}
        with kept.open("a") as lines:
            lines.write(json.dumps(rows[name]) + "\n")
        print(line(rows[name]), file=sys.stderr)
    return [row for name, row in sorted(rows.items()) if only in name]


def judged(file: Path) -> dict[str, Any]:
    started = time.monotonic()
    found = _int8tune("accuracy", file, "--count", SAMPLES, "--results", file.parent / "records")
    if isinstance(found, str):
        # A file that the tool which wrote it can't run says nothing of the compiler.
        return {"error": found, "is_valid": not re.search("(onnxruntime|litert) failed", found)}
    outputs = found["outputs"]
    return {
        "int8_share": found["int8_share"],
        "floats": sum(found["floats"].values()),
        "values": sum(each["values"] for each in outputs),
        "differing": sum(each["differing"] for each in outputs),
        "largest": max((each["largest"] for each in outputs), default=0.0),
        "sqnr_db": _least(each["sqnr_db"] for each in outputs),
        "itself_db": _least(each["itself_db"] for each in outputs),
        "judged_s": round(time.monotonic() - started, 1),
    }


def _least(decibels: Iterable[float | None]) -> float | None:
    return min((each for each in decibels if each is not None), default=None)


def _int8tune(*arguments: object) -> Any | str:
    """What a command printed, or its error."""
    command = [sys.executable, "-m", "int8tune", *map(str, arguments), "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"took more than {LIMIT_S} s"
    if done.returncode == WRONG_ARGUMENTS:
        sys.exit(done.stderr.strip())
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")] or done.stderr.splitlines()
        return " | ".join(errors)[:400] or f"ended with {done.returncode}"
    return json.loads(done.stdout)


def line_of(row: Row) -> str:
    if "error" in row:
        answer = "no" if row.get("is_valid", True) else "-"
        return f"| {row['file']} | | {answer} | | | | {re.sub('[|]', '/', row['error'])} |"
    share, sqnr = "" if row["int8_share"] is None else f"{row['int8_share']:.0%}", row["sqnr_db"]
    differing = f"{row['differing']} of {row['values']:,}"
    itself = row.get("itself_db")
    far, own = ("" if each is None else f"{each:.0f} dB" for each in (sqnr, itself))
    return f"| {row['file']} | {share} | yes | {row['floats']} | {differing} | {far} | {own} |"


def report(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each form, then one for each file."""
    yield "| form | files | compile | equal in every value | least SQNR, dB |"
    yield "|-|-|-|-|-|"
    for form in dict.fromkeys(row["file"].partition("/")[0] for row in rows):
        own = [row for row in rows if row["file"].startswith(f"{form}/") and row.get("is_valid", True)]
        right = [row for row in own if "error" not in row]
        equal = sum(1 for row in right if row["differing"] == 0)
        least = _least(row["sqnr_db"] for row in right)
        if own:
            yield f"| {form} | {len(own)} | {len(right)} | {equal} | {'' if least is None else f'{least:.0f}'} |"
    yield "\n| model | int8 share of multiply-adds | compiles | in float | values that differ | SQNR | its own |"
    yield "|-|-|-|-|-|-|-|"
    yield from map(line_of, rows)


def timed(file: Path, options: Sequence[str]) -> dict[str, Any]:
    """Median milliseconds of a run by library, and what the libraries take, in times of ours."""
    records = file.parent / "records"
    peers = ",".join(PEERS[file.suffix])
    found = _int8tune("bench", file, "--against", peers, "--runs", "10", "--results", records, *options)
    if isinstance(found, str):
        return {"error": found}
    runtimes = found[0]["runtimes"]
    right = {each["name"]: each for each in runtimes if not each["failure"]}
    return {
        "ms": {name: statistics.median(each["times_s"]) * 1e3 for name, each in right.items()},
        "times_ours": {name: each["times_ours"] for name, each in right.items() if each["times_ours"]},
        "differing": sum(each["differing"] for each in found[0]["differences"] or ()),
        "failures": {each["name"]: each["failure"] for each in runtimes if each["failure"]},
    }


def best_peer(row: Row) -> str | None:
    return min(row["times_ours"], key=lambda name: row["ms"][name], default=None)


def times_line(row: Row) -> str:
    if "error" in row:
        return f"| {row['file']} | - | | | | {re.sub('[|]', '/', row['error'])} | |"
    best, own = best_peer(row), f"{row['ms']['int8tune']:.3f}"
    peers = [f"{row['ms'][name]:.3f}" if name in row["ms"] else "-" for name in ALL_PEERS]
    ratio = row["times_ours"][best] if best else None
    shown = "" if ratio is None else f"{ratio['estimate']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    return f"| {row['file']} | {own} | {' | '.join(peers)} | {shown} | {row['differing']} |"


def times_report(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each family, then one for each file."""
    yield "| family | models | best library's time in ours, geometric mean | least |"
    yield "|-|-|-|-|"
    for family in dict.fromkeys(row["family"] for row in rows):
        ratios = [
            row["times_ours"][best]["estimate"]
            for row in rows
            if row["family"] == family and "error" not in row and (best := best_peer(row))
        ]
        if ratios:
            yield f"| {family} | {len(ratios)} | {statistics.geometric_mean(ratios):.2f} | {min(ratios):.2f} |"
    yield f"\n| model | ours, ms | {', ms | '.join(ALL_PEERS)}, ms | best of these in times ours | values that differ |"
    yield "|-" * (4 + len(ALL_PEERS)) + "|"
    yield from map(times_line, rows)

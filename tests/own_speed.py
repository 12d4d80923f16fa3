"""How long our own paths take, beside the kept baseline of this kind of machine: `python -m tests.own_speed`.

Each session is a run of pytest of its own, whose median of each benchmark is one value: what differs from one session
to the next is no property of the code. Between the benchmarks a piece of work is timed that no change touches; what
that is slower, the machine was, and it is taken off: times are those of a machine on which it takes 10 ms.

On a kind of machine that has no baseline, this makes one. Ends with 3 if something is slower than the baseline by
`--slower` and by more than the noise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from int8tune.results.comparison.compare import compare_sides
from int8tune.results.comparison.reading import read_side
from int8tune.results.comparison.regression import read_condition, regressions
from int8tune.results.pytest_benchmark import Timed, write_benchmarks
from int8tune.results.report.format import interval
from int8tune.rpc.local.capabilities import cpu_name
from tests.support.places import ROOT, TESTS

REGRESSION = 3
REFERENCE = "results/test_reference_speed.py::test_speed_of_the_reference"
REFERENCE_S = 0.01
SESSION_LIMIT_S = 900
BASELINES = ROOT / ".benchmarks" / "own_speed"

BENCHMARKS: Mapping[str, str] = {
    "propose": "tuner/search/test_search.py::test_speed_of_propose",
    "fit": "tuner/cost_model/test_cost_model.py::test_speed_of_fit",
    "learn": "tuner/lab/test_lab.py::TestPrior::test_speed_of_learning",
    "encode": "results/test_benchmarks.py::test_benchmark_encode",
    "append": "results/test_benchmarks.py::test_benchmark_append",
    "query": "results/test_benchmarks.py::test_benchmark_query",
    "merge": "results/test_benchmarks.py::test_benchmark_merge",
    "import": "compiler/test_benchmarks.py::test_benchmark_import",
    "build": "tuner/builder/test_benchmarks.py::test_benchmark_build",
    "session": "rpc/test_local.py::test_overhead_of_a_session",
}


def main() -> None:
    options = _options()
    path = BASELINES / f"{machine_kind()}.json"
    timed = measured(options.sessions, options.only or list(BENCHMARKS))
    with tempfile.TemporaryDirectory(prefix="int8tune-") as folder:
        now = Path(folder) / "now.json"
        write_benchmarks(now, timed, cpu_name())
        code = compared(path, now, options.slower) if path.exists() else 0
        if options.keep or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_benchmarks(path, timed, cpu_name())
            print(f"baseline of this kind of machine: {path.relative_to(ROOT)}")
    sys.exit(code)


def compared(baseline: Path, now: Path, slower: str) -> int:
    """Say what changed; 3 if something is slower by `slower` and beyond the noise."""
    comparison = compare_sides(read_side(str(baseline)), read_side(str(now)))
    for layer in comparison.layers:
        a, b = (f"{side.time * 1e3:10.3f} ms" if side else "            -" for side in (layer.a, layer.b))
        print(f"{layer.label:<40} {a} {b}  {interval(layer.ratio):<20} {layer.change.value}")
    condition = read_condition(f"slower:{slower}")
    found = [line for line in regressions(comparison, condition) if not line.startswith("the network")]
    for line in found:
        print(f"regression: {line}")
    return REGRESSION if found else 0


def measured(sessions: int, names: Sequence[str]) -> list[Timed]:
    """The benchmarks' medians in so many sessions, one after the other."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for session in range(sessions):
        print(f"session {session + 1} of {sessions}", file=sys.stderr)
        for name, time_s in in_step(_session(names), names):
            seconds[name].append(time_s)
    return [Timed(name, name.partition("[")[0], tuple(values)) for name, values in seconds.items()]


def in_step(medians_s: Mapping[str, float], names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Seconds of each benchmark on a machine on which the reference takes `REFERENCE_S`, by short names."""
    for place, name in enumerate(names):
        beside = [medians_s[f"{REFERENCE}[{number}]"] for number in (place, place + 1)]
        scale = REFERENCE_S / math.sqrt(math.prod(beside))
        for found, time_s in medians_s.items():
            test, bracket, parameters = found.partition("[")
            if test == BENCHMARKS[name]:
                yield f"{name}{bracket}{parameters}", time_s * scale


def _session(names: Sequence[str]) -> dict[str, float]:
    """Medians in seconds by test: the reference before, between and after the others."""
    tests = [f"{REFERENCE}[0]"]
    for place, name in enumerate(names, 1):
        tests += [BENCHMARKS[name], f"{REFERENCE}[{place}]"]
    with tempfile.TemporaryDirectory(prefix="int8tune-") as folder:
        written = Path(folder) / "session.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-m", "", "--benchmark-enable"]
        command += [f"--benchmark-json={written}", *(str(TESTS / test) for test in tests)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SESSION_LIMIT_S, check=False)
        if done.returncode or not written.exists():
            sys.exit(f"error: the benchmarks failed\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        rows = json.loads(written.read_text(encoding="utf-8"))["benchmarks"]
    return {row["fullname"].removeprefix("tests/"): row["stats"]["median"] for row in rows}


def machine_kind() -> str:
    """What times depend on besides the code: the CPU's model, how many cores of it, and Python's version."""
    cores = len(os.sched_getaffinity(0))
    words = f"{cpu_name()} {cores} cores python {sys.version_info[0]}.{sys.version_info[1]}"
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=5, help="runs of pytest (default: 5)")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--slower", default="10%", metavar="SHARE", help="what counts as slower (default: 10%%)")
    parser.add_argument("--keep", action="store_true", help="make this the baseline")
    options = parser.parse_args()
    if options.sessions < 2:
        parser.error(f"sessions must be 2 or more, to know how far they differ: {options.sessions}")
    return options


if __name__ == "__main__":
    main()

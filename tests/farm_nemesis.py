"""The farm's promises for long, in a simulated farm: `make farm-nemesis`.

Plays as many random farms as there are seeds, each checked by its event log, then a farm of 64 boards, and prints what
came of it. The exit code is 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from int8tune.rpc.farm.simulation.nemesis import nemesis_farm
from tests.rpc.farm.test_promises import keep_up
from tests.support.farm import promises
from tests.support.farm.log import Checker, Log

CHUNK = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    broken = _print_nemesis(options.first, options.seeds, options.processes)
    broken += _print_promises()
    _print_keeping_up(options.trials)
    for text in broken:
        print(f"broken: {text}")
    sys.exit(bool(broken))


def _print_nemesis(first: int, seeds: int, processes: int) -> list[str]:
    began = time.monotonic()
    totals: Counter[str] = Counter()
    broken: list[str] = []
    with ProcessPoolExecutor(processes) as pool:
        starts = range(first, first + seeds, CHUNK)
        ends = [min(start + CHUNK, first + seeds) for start in starts]
        for counts, found in pool.map(_play, starts, ends):
            totals += counts
            broken += found
    print(f"{seeds:,} seeds from {first}: {len(broken)} violations, {time.monotonic() - began:.0f} s")
    print(", ".join(f"{count:,} {name}" for name, count in sorted(totals.items())), flush=True)
    return broken


def _play(first: int, end: int) -> tuple[Counter[str], list[str]]:
    """Play a farm for each seed; what happened how often, and what must not have."""
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for seed in range(first, end):
        log = Log()
        farm, work = nemesis_farm(seed, log, rules=promises.rules_of(seed))
        found = promises.finish(farm) or [*Checker().read(log.lines), *promises.slow_results(log, farm, work)]
        broken += [f"seed {seed}: {text}" for text in found]
        counts.update(_interesting(log))
    return counts, broken


def _interesting(log: Log) -> Iterator[str]:
    for line in log.lines:
        if line["kind"] == "Concluded":
            yield f"trials {line['verdict']}"
        elif line["kind"] in ("Issued", "Refused", "Voided", "Blamed", "Cleared", "PowerCycle", "Kill"):
            yield line["kind"].lower()
        elif "lasts_s" in line:
            yield "faults"
        elif line["kind"] == "Turned" and line["state"] in ("quarantined", "lost"):
            yield f"boards {line['state']}"


def _print_promises() -> list[str]:
    """What needs no seeds by the thousand, with more of them than in the tests."""
    broken: list[str] = []
    checks: dict[str, Callable[[], list[str]]] = {
        "hung kernels": lambda: promises.hung_kernels(print),
        "dead boards": lambda: promises.dead_boards(print),
        "boards gone for good": promises.boards_gone_for_good,
        "killed coordinators": lambda: promises.killed_coordinators(range(1, 1001), trials=120, say=print),
        "infra faults, 50 seeds": lambda: promises.infra_faults(range(50)),
        "restarted boards, 50 seeds": lambda: promises.restarted_boards(range(50)),
        "sick boards, 50 seeds": lambda: promises.sick_boards(range(50), print),
        "shares": lambda: promises.fairness(print),
        "clock set back, 20 seeds": lambda: [text for seed in range(20) for text in promises.jumping_clock(seed)],
    }
    for name, check in checks.items():
        found = check()
        print(f"{name}: {len(found)} violations", flush=True)
        broken += found
    counts, found = promises.right_verdicts(range(20))
    print(f"right verdicts: {', '.join(counts)}", flush=True)
    return broken + found


def _print_keeping_up(trials: int) -> None:
    began = time.monotonic()
    took, resident = keep_up(trials)
    p50, p99 = np.quantile(took, [0.5, 0.99])
    print(f"64 boards, {trials:,} trials: {len(took):,} decisions in {time.monotonic() - began:.0f} s")
    print(f"a decision: median {1e3 * p50:.3f} ms, 99 % {1e3 * p99:.3f} ms, longest {1e3 * max(took):.1f} ms")
    quarters = [resident[len(resident) * quarter // 4] for quarter in range(4)]
    print(f"resident: {', '.join(f'{size / 1e6:.0f}' for size in [*quarters, resident[-1]])} MB")


if __name__ == "__main__":
    main()

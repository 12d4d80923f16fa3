"""Campaigns while another process keeps the machine busy: `make noise`.

Each campaign measures the same configs. What they choose is timed in turn at the end, when nothing else runs: how much
slower than the best of these configs are the winners, and how alike do campaigns order the configs?
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from int8tune.results.contest import contests
from int8tune.results.drift import relative_time
from int8tune.results.record import Candidate, Trial
from int8tune.results.stats import median
from int8tune.results.store import SqliteStore
from int8tune.rpc.request import Program, Request, Timing
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.builder.job import Job
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import measuring_and_build_cores

LAYERS = (
    "conv2d-u8s8-1x14x14x256-k3x3x256-s1-p1-float.c-u8",
    "conv2d-u8s8-1x14x14x576-k1x1x96-s1-p0-float.c-u8",
    "dwconv2d-u8s8-1x28x28x192-k3x3x1-s1-p1-float.c-u8",
)
TRIALS = 20
BUILD_LIMIT_S = 60.0
SESSION_LIMIT_S = 60.0
# Two campaigns with the same seed draw the same configs.
OPTIONS = ("--strategy", "random", "--trials", str(TRIALS), "--seed", "0")
QUIET = Timing(repeats=41, min_repeat_s=0.002)
MIN_GAIN, GOOD_REGRET = 0.01, 0.01


@dataclass(frozen=True, slots=True)
class Found:
    """What one campaign says of a layer: its choice, and how long each config takes, as a search compares them."""

    choice: Candidate
    candidates: Sequence[Candidate]
    times: Sequence[float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=20)
    parser.add_argument("--quiet", action="store_true", help="without the other process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _busy_process(not options.quiet):
            stores = [_campaign(folder, index) for index in range(options.campaigns)]
        for key in LAYERS:
            found = [_found(store, key) for store in stores]
            _report(key, found, _times_in_turn(folder, found[0].candidates))


@contextmanager
def _busy_process(wanted: bool) -> Iterator[None]:
    """A process that may run on any core, and never waits."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) if wanted else None
    try:
        yield
    finally:
        if process:
            process.kill()
            process.wait()


def _campaign(folder: Path, index: int) -> Path:
    table = folder / "noise.json"
    layers = [{"name": f"layer{place}", "count": 1, "workload": key} for place, key in enumerate(LAYERS)]
    table.write_text(json.dumps({"format": 1, "name": "noise", "description": "three layers", "layers": layers}))
    results = folder / str(index)
    command = [sys.executable, "-m", "int8tune", "tune", str(table), "--results", str(results), *OPTIONS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return results / "records.db"


def _found(path: Path, key: str) -> Found:
    store = SqliteStore(path, readonly=True)
    try:
        (contest,) = contests(store, workload=key)
        best = contest.best(MIN_GAIN)
        assert best is not None
        # By candidate: campaigns go on with what is built first.
        trials = sorted(store.query(Trial, workload=key), key=lambda trial: trial.candidate.id)
        times = [relative_time(trial.measurement) for trial in trials if trial.measurement]
        return Found(best.trial.candidate, [trial.candidate for trial in trials], times)
    finally:
        store.close()


def _times_in_turn(folder: Path, candidates: Sequence[Candidate]) -> dict[str, float]:
    """The median time of each candidate, all of them timed in turn in one session."""
    measuring, building = measuring_and_build_cores()
    with LocalTransport(measuring) as transport:
        device = transport.start()
        target = target_for(device.features, device.llvm_cpu, device.llvm_triple)
        programs = _built(folder, candidates, target, building, measuring[-1])
        reply = transport.run(Request(programs, QUIET, SESSION_LIMIT_S))
    assert len(reply.times_s) == len(candidates), reply.error
    return {candidate.id: median(times) for candidate, times in zip(candidates, reply.times_s, strict=True)}


def _built(
    folder: Path, candidates: Sequence[Candidate], target: Target, cores: Sequence[int], guest: int
) -> tuple[Program, ...]:
    key = candidates[0].workload
    suite = str(folder / key)
    programs: dict[str, Program] = {}
    with BuildPool(cores, guest, folder / "build.log") as pool:
        pool.submit(Job("suite", target, f"{suite}.job", BUILD_LIMIT_S, key, suite=suite))
        pool.collect(BUILD_LIMIT_S)
        for candidate in candidates:
            job_folder = str(folder / candidate.id)
            pool.submit(Job(candidate.id, target, job_folder, BUILD_LIMIT_S, key, candidate, suite))
        while pool.pending:
            for built in pool.collect(BUILD_LIMIT_S):
                assert built.program, built.error
                programs[built.id] = built.program
    return tuple(programs[candidate.id] for candidate in candidates)


def _report(key: str, found: Sequence[Found], true_s: Mapping[str, float]) -> None:
    best_s = min(true_s.values())
    regrets = np.array([true_s[one.choice.id] / best_s - 1 for one in found])
    order = [spearmanr(a.times, b.times).statistic for a, b in itertools.combinations(found, 2)]
    print(f"{key}: {len(true_s)} configs, the slowest {max(true_s.values()) / best_s:.1f} times the best")
    good = f"{np.sum(regrets <= GOOD_REGRET)} of {len(found)} campaigns"
    print(f"  regret at most {GOOD_REGRET:.0%}: {good}, mean {regrets.mean():.2%}, largest {regrets.max():.2%}")
    print(f"  rank correlation of two campaigns: median {np.median(order):.3f}, lowest {min(order):.3f}", flush=True)


if __name__ == "__main__":
    main()

"""Many boards for long: the real scheduler and the real store, with boards that are played: `make farm-soak`.

The clock is this machine's own: an event is not handled before it is due, and what is handled late, since the
coordinator was busy, is late. Each trial that is concluded is a record, committed before anything else is done.
"""

from __future__ import annotations

import heapq
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import farm_promises as promises
import numpy as np
import psutil
from results_samples import campaign, ok

from results.record import Trial
from results.store import SqliteStore
from rpc.farm.entries import Concluded, Issued, Turned
from rpc.farm.simulation.values import SimulatedBoard
from rpc.farm.simulation.world import SimulatedFarm
from rpc.farm.values import Board, State

SECONDS = 0.6
"""What a candidate's kernel keeps its board busy."""

SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Used:
    """The process at one moment."""

    trials: int
    elapsed_s: float
    rss_bytes: int
    descriptors: int
    threads: int
    children: int

    def row(self) -> str:
        return (
            f"{self.elapsed_s:8.0f} {self.trials:7d} {self.rss_bytes / 1e6:8.1f} {self.descriptors:4d} "
            f"{self.threads:8d} {self.children:9d}"
        )


@dataclass
class Soak:
    """What was seen.

    Attributes:
        claims_s: from the moment at which a board was free until its next trial was given to it.
        appends_s: of each record, until it was committed.
        lost: boards that were taken for lost: here that is a heartbeat which was heard too late.
    """

    claims_s: list[float] = field(default_factory=list)
    appends_s: list[float] = field(default_factory=list)
    used: list[Used] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    recorded: int = 0

    def report(self) -> str:
        claims, appends = (np.quantile(found, [0.5, 0.99, 1]) * 1e3 for found in (self.claims_s, self.appends_s))
        first, last = self.used[0], self.used[-1]
        ends = ", ".join(f"{count:,} {name}" for name, count in sorted(self.ends.items()))
        return (
            f"{last.trials:,} trials in {last.elapsed_s:.0f} s, {last.trials / last.elapsed_s:.0f} a second: {ends}; "
            f"{self.recorded:,} in the store\n"
            f"a claim: median {claims[0]:.2f} ms, 99 % {claims[1]:.2f} ms, longest {claims[2]:.0f} ms\n"
            f"a commit: median {appends[0]:.2f} ms, 99 % {appends[1]:.2f} ms, longest {appends[2]:.0f} ms\n"
            f"resident: {first.rss_bytes / 1e6:.0f} -> {last.rss_bytes / 1e6:.0f} MB, descriptors: "
            f"{first.descriptors} -> {last.descriptors}, threads: {first.threads} -> {last.threads}, "
            f"children: {first.children} -> {last.children}\n"
            f"boards taken for lost: {self.lost}"
        )


class PacedFarm(SimulatedFarm):
    """A simulated farm whose clock does not jump.

    Attributes:
        due_s: when what is being handled was due.
    """

    began_s = due_s = 0.0

    def run(self, limit_s: float = float("inf")) -> bool:
        self.began_s = time.perf_counter()
        while not self.finished:
            self.due_s, _, action = heapq.heappop(self._heap)
            if self.due_s > limit_s:
                return False
            time.sleep(max(0.0, self.began_s + self.due_s - time.perf_counter()))
            self.now_s = time.perf_counter() - self.began_s
            action()
        return True


def soak(store_path: Path, boards: int, trials: int, seconds: float = SECONDS, say: Any = promises.silent) -> Soak:
    """Play it; a campaign's records go to a new store."""
    seen, process = Soak(), psutil.Process()
    work = promises.candidates("a", trials, bad=0.05, seconds=seconds)
    specs = [SimulatedBoard(Board(f"b{n}", "t", canary_s=0.1, canary_every=50)) for n in range(boards)]
    store = SqliteStore(store_path)
    store.append([campaign()])

    def watch(_: float, what: Any) -> None:
        if isinstance(what, Issued) and what.trial:
            seen.claims_s.append(time.perf_counter() - farm.began_s - farm.due_s)
        elif isinstance(what, Turned) and what.state in (State.LOST, State.QUARANTINED):
            seen.lost += 1
        elif isinstance(what, Concluded):
            began = time.perf_counter()
            store.append([ok(sum(seen.ends.values()))])
            seen.appends_s.append(time.perf_counter() - began)
            seen.ends[what.verdict.value] += 1
            if sum(seen.ends.values()) % (trials // SAMPLES) == 0:
                seen.used.append(_used(process, sum(seen.ends.values()), time.perf_counter() - farm.began_s))
                say(seen.used[-1].row())

    farm = PacedFarm(specs, work, watch=watch, keep_journal=False)
    assert farm.run(), "not over"
    store.close()
    with SqliteStore(store_path, readonly=True) as written:
        seen.recorded = sum(1 for _ in written.query(Trial))
    return seen


def _used(process: psutil.Process, trials: int, elapsed_s: float) -> Used:
    with process.oneshot():
        return Used(
            trials,
            elapsed_s,
            process.memory_info().rss,
            process.num_fds(),
            process.num_threads(),
            len(process.children(recursive=True)),
        )


def main(folder: Path, boards: int, trials: int) -> None:
    print(f"{boards} boards, {trials:,} trials of {SECONDS:g} s, process {os.getpid()}")
    print(" elapsed  trials   RSS MB  fds  threads processes", flush=True)
    print(soak(folder / "records.db", boards, trials, say=lambda row: print(row, flush=True)).report())

"""Many boards for long: the real scheduler and the real store, with boards that are played: `make farm-soak`.

The clock is this machine's own: an event is not handled before it is due, and what is handled late, since the
coordinator was busy, is late. Each trial that is concluded is a record with a commit of its own, as in a campaign,
where boards get their next trials first.
"""

from __future__ import annotations

import heapq
import os
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from int8tune.results.record import Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.farm.entries import Concluded, Issued, Turned
from int8tune.rpc.farm.simulation.values import SimulatedBoard
from int8tune.rpc.farm.simulation.world import SimulatedFarm
from int8tune.rpc.farm.values import Board, State
from tests.support.farm import promises
from tests.support.program.results_samples import campaign, ok

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
        suspected: boards that were taken off since three different candidates failed there in a row.
    """

    claims_s: array[float] = field(default_factory=lambda: array("d"))
    appends_s: array[float] = field(default_factory=lambda: array("d"))
    used: list[Used] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    suspected: int = 0
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
            f"boards taken for lost: {self.lost}, taken off after three bad candidates in a row: {self.suspected}"
        )


class PacedFarm(SimulatedFarm):
    """A simulated farm whose clock does not jump. Where nothing is due, there is time for one thing to be done.

    Attributes:
        due_s: when what is being handled was due.
    """

    began_s = due_s = 0.0

    def run_beside(self, work: Callable[[], bool]) -> None:
        """Let time pass until all trials are concluded; `work` does one thing, and says if there was one."""
        self.began_s = time.perf_counter()
        while not self.finished:
            self.due_s = self._heap[0][0]
            if (left_s := self.began_s + self.due_s - time.perf_counter()) > 0:
                if not work():
                    time.sleep(left_s)
                continue
            action = heapq.heappop(self._heap)[2]
            self.now_s = time.perf_counter() - self.began_s
            action()
        while work():
            pass


def soak(store_path: Path, boards: int, trials: int, kernel_s: float, say: Any = promises.silent) -> Soak:
    """Play it; a campaign's records go to a new store.

    Args:
        kernel_s: what a candidate's kernel keeps its board busy, about.
    """
    seen, process = Soak(), psutil.Process()
    work = promises.candidates("a", trials, bad=0.05, seconds=kernel_s)
    specs = [SimulatedBoard(Board(f"b{n}", "t", canary_s=0.1, canary_every=50)) for n in range(boards)]
    store = SqliteStore(store_path)
    store.append([campaign()])

    ended: deque[str] = deque()

    def watch(_: float, what: Any) -> None:
        if isinstance(what, Issued) and what.trial:
            seen.claims_s.append(time.perf_counter() - farm.began_s - farm.due_s)
        elif isinstance(what, Turned):
            seen.lost += what.state is State.LOST
            seen.suspected += what.state is State.QUARANTINED
        elif isinstance(what, Concluded):
            ended.append(what.verdict.value)
            if what.board:
                farm.devices[what.board].measured_s.clear()  # of use to tests alone

    def record() -> bool:
        if not ended:
            return False
        began, count = time.perf_counter(), sum(seen.ends.values())
        store.append([ok(count)])
        seen.appends_s.append(time.perf_counter() - began)
        seen.ends[ended.popleft()] += 1
        if (count + 1) % (trials // SAMPLES) == 0:
            seen.used.append(_used(process, count + 1, time.perf_counter() - farm.began_s))
            say(seen.used[-1].row())
        return True

    farm = PacedFarm(specs, work, watch=watch, keep_journal=False)
    farm.run_beside(record)
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


def main(folder: Path, boards: int, trials: int, kernel_s: float) -> None:
    print(f"{boards} boards, {trials:,} trials of {kernel_s:g} s, process {os.getpid()}")
    print(" elapsed  trials   RSS MB  fds  threads processes", flush=True)
    print(soak(folder / "records.db", boards, trials, kernel_s, say=lambda row: print(row, flush=True)).report())

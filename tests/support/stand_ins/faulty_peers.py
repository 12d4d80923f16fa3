"""Contestants with peers that fail, each in its own way: run as `tuner.bench.worker`."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Dense, Workload
from int8tune.tuner.bench.peers.base import Array, LoadedLayer, PeerError
from int8tune.tuner.bench.worker import main


class Oracle:
    """Not faulty: computes what it should, in the time that it should. Takes no dense layers."""

    name = "oracle"
    requires = ("numpy",)
    off_by = 0

    def form(self, workload: Workload) -> Workload | Rejection:
        return Rejection("dense layers are not taken") if isinstance(workload, Dense) else workload

    def version(self) -> str:
        return "1.0"

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        return Layer(reference(workload, operands) ^ np.uint8(self.off_by), threads)


class Layer:
    def __init__(self, output: Array, threads: int) -> None:
        self.calls = 0
        self._output = output
        self.cores = os.sched_getaffinity(0), threads

    def run(self) -> None:
        self.calls += 1
        time.sleep(0)

    def output(self) -> Array:
        return self._output


class OffByOne(Oracle):
    name = "off-by-one"
    off_by = 1


class OffByTwo(Oracle):
    name = "off-by-two"
    off_by = 2


class Refuses(Oracle):
    name = "refuses"

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        raise PeerError(f"no layers today, {threads} threads:\n{workload.key} {operands.clamp_low}")


class Crashes(Oracle):
    """Dies after some calls."""

    name = "crashes"
    lives = 10

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        return _Dying(reference(workload, operands), threads)


class _Dying(Layer):
    def run(self) -> None:
        super().run()
        if self.calls > Crashes.lives:
            os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Oracle):
    name = "hangs"

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        time.sleep(600)
        return super().load(workload, operands, threads)


class Spins(Oracle):
    """Leaves a thread that spins on for a while after each run, as pools of threads do."""

    name = "spins"
    spin_s = 0.05

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        return _Spinning(reference(workload, operands), threads)


class _Spinning(Layer):
    def run(self) -> None:
        super().run()
        until = time.monotonic() + Spins.spin_s
        threading.Thread(target=_spin, args=(until,)).start()


def _spin(until: float) -> None:
    while time.monotonic() < until:
        pass


PEERS = (Oracle(), OffByOne(), OffByTwo(), Refuses(), Crashes(), Hangs(), Spins())

if __name__ == "__main__":
    main(PEERS)

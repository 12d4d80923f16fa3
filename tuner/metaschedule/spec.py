"""What a race is asked to do, checked before anything is started."""

from __future__ import annotations

from dataclasses import dataclass

from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.request import Timing
from int8tune.schedules.workload import Workload
from int8tune.tuner.errors import BenchSpecError
from int8tune.tuner.metaschedule.process import WORKER

PEER_NAME = "metaschedule"
TRIALS = (1, 10_000)
# Of the two bests, as a bench times libraries.
TIMING = Timing(repeats=20, min_repeat_s=0.02)
# MetaSchedule needs half a minute to start, and for each trial some seconds of search, build and run.
START_LIMIT_S, TRIAL_LIMIT_S = 300.0, 15.0
# For a GPU each proposal is lowered to be checked, and code is longer.
GPU_TIMES = 4


@dataclass(frozen=True, slots=True)
class RaceSpec:
    """Which layers, and how much is spent on each.

    Attributes:
        trials: budget of a layer, the same for both.
        timing: rounds, and how long each kernel computes in each of them.
        profile: of this library's target; the best for this CPU, or for the GPU, if None.
        start_limit_s, trial_limit_s: what a search of MetaSchedule may take, and for each trial in addition.
        intrinsic: a tensor intrinsic of TVM's for MetaSchedule, in place of the exact one; empty for that.
        worker: the module that is run as MetaSchedule's process.
        board: a GPU of this machine; None: its CPU.
    """

    layers: tuple[Workload, ...]
    trials: int
    timing: Timing = TIMING
    profile: str | None = None
    seed: int = 0
    start_limit_s: float = START_LIMIT_S
    trial_limit_s: float = TRIAL_LIMIT_S
    intrinsic: str = ""
    worker: str = WORKER
    board: Board | None = None

    def __post_init__(self) -> None:
        least, most = TRIALS
        if not least <= self.trials <= most:
            raise BenchSpecError(f"trials must be {least} to {most}: {self.trials}")

    @property
    def search_limit_s(self) -> float:
        """The limit of MetaSchedule's search of one layer."""
        times = 1 if self.board is None else GPU_TIMES
        return self.start_limit_s + self.trials * times * self.trial_limit_s

"""A match: every contestant loads the same layer, is judged by the oracle, and takes its turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from int8tune.results.record import Entrant, Outcome
from int8tune.rpc.request import Program, Timing
from int8tune.rpc.session.timing import time_in_turn
from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.bench.contestant import Contestant
from int8tune.tuner.bench.operands import layer_operands
from int8tune.tuner.bench.peers.base import PeerForm
from int8tune.tuner.errors import BenchError
from int8tune.tuner.verify import write_case

# All call and no work: what a library needs for it, it needs for every call.
SMALLEST = parse_workload("conv2d-u8s8-1x1x1x16-k1x1x16-s1-p0-float.c-u8")
# Libraries multiply and round in another order than the oracle, which moves a value that is nearly a tie.
LARGEST_DIFFERENCE = 1


@dataclass(frozen=True, slots=True)
class Player:
    """A library and its contestant.

    Attributes:
        peer: none for this library.
        overhead_times_s: of the smallest layer, once they are known.
        operands: the values that it computes a form with.
    """

    contestant: Contestant
    name: str
    peer: PeerForm | None = None
    overhead_times_s: tuple[float, ...] = ()
    operands: Callable[[Workload], Operands] = layer_operands


@dataclass(frozen=True, slots=True)
class Seated:
    """A player with a layer: the workload as it computes it, and why it can't take turns, if it can't."""

    player: Player
    workload: str
    outcome: Outcome = Outcome.OK
    error: str = ""

    def entrant(self, times_s: Sequence[float]) -> Entrant:
        """How it did, from its times; a contestant may have failed while they were taken."""
        outcome, error = self.outcome, self.error
        if failure := outcome is Outcome.OK and self.player.contestant.failure:
            outcome, error = Outcome.RUN_FAILED, failure
        times = tuple(times_s) if outcome is Outcome.OK else ()
        version, overhead = self.player.contestant.version, self.player.overhead_times_s
        return Entrant(self.player.name, version, self.workload, outcome, times, overhead, error)


class PeakLoop:
    """The dot-product loop on all cores that a library may use."""

    def __init__(self, contestant: Contestant, program: Program, ops: int) -> None:
        """`ops` are int8 operations of one call.

        Raises:
            BenchError: it did not load, or computes something else.
        """
        self._contestant = contestant
        self._ops = ops
        if contestant.load(dataclasses.asdict(program)) != (0, 0):
            raise BenchError(f"the peak loop failed: {contestant.failure or 'its sums are wrong'}")

    def mean_s(self, calls: int) -> float:
        """Seconds per call, averaged over `calls` calls."""
        time_s = self._contestant.mean_s(calls)
        if self._contestant.failure:
            raise BenchError(f"the peak loop failed: {self._contestant.failure}")
        return time_s

    def ops_per_s(self, time_s: float) -> float:
        """Operations per second, from seconds per call."""
        return self._ops / time_s


def seat_peer(player: Player, workload: Workload, folder: Path) -> Seated:
    """Have a peer load its form of a workload, and compare what it computes with the oracle's outputs."""
    assert player.peer is not None
    form = player.peer.form(workload)
    if isinstance(form, Rejection):
        return Seated(player, workload.key, Outcome.REJECTED, form.reason)
    case = folder / f"{form.key}.npz"
    if not case.exists():
        write_case(case, form, player.operands(form))
    found = player.contestant.load({"workload": form.key, "case": str(case)})
    # Sums that are not rounded are the same in whatever order they are added.
    return _judged(player, form.key, found, LARGEST_DIFFERENCE if form.numerics.requantize else 0)


def seat_own(player: Player, workload: Workload, program: Program) -> Seated:
    """Have this library's contestant load a kernel, which must be exact."""
    return _judged(player, workload.key, player.contestant.load(dataclasses.asdict(program)), 0)


def _judged(player: Player, workload: str, found: tuple[int, int] | None, tolerance: int) -> Seated:
    if found is None:
        return Seated(player, workload, Outcome.RUN_FAILED, player.contestant.failure)
    count, largest = found
    if largest > tolerance:
        return Seated(player, workload, Outcome.WRONG_ANSWER, f"{count} values are wrong, by {largest} at most")
    return Seated(player, workload)


def play(seated: Sequence[Seated], peak: PeakLoop, timing: Timing) -> tuple[tuple[Entrant, ...], tuple[float, ...]]:
    """Let those that can take turns, the peak loop among them; how each did, and operations per second of the loop.

    Raises:
        BenchError: the peak loop failed.
    """
    able = [seat for seat in seated if seat.outcome is Outcome.OK]
    times_s, _ = time_in_turn([peak, *(seat.player.contestant for seat in able)], timing)
    taken = dict(zip(map(id, able), times_s[1:], strict=True))
    entrants = tuple(seat.entrant(taken.get(id(seat), ())) for seat in seated)
    return entrants, tuple(peak.ops_per_s(time_s) for time_s in times_s[0])


def with_overhead(player: Player, folder: Path, timing: Timing) -> Player:
    """The player with the times of its smallest layer, if it computes that."""
    seat = seat_peer(player, SMALLEST, folder)
    if seat.outcome is not Outcome.OK:
        return player
    times_s, _ = time_in_turn([player.contestant], timing)
    entrant = seat.entrant(times_s[0])
    return replace(player, overhead_times_s=entrant.times_s)

"""Timing loops: how many calls make a repeat, whose turn it is, and when more repeats would tell nothing new."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Sequence
from typing import Protocol

from int8tune.rpc.request import Timing

# Below this the clock's own steps and overhead would show in a repeat.
SHORTEST_REPEAT_S = 1e-5
# How long a repeat of the probe is. The fastest of some: another process that gets the core for a moment is not the
# device that drifts.
PROBE_REPEAT_S, PROBE_REPEATS = 0.001, 3
_LARGEST_STEP = 100
_HEADROOM = 1.1
# A call that takes so many times the limit at which a program is given up is timed alone.
_SLOW = 4
# Every so many repeats it is asked whether the order is settled: each time one is asked, chance has another try.
_LOOK_EVERY = 4
# So many interrupted repeats in a row are enough; one long one is, as no busy machine leaves that alone.
_MOST_VOID = 8
_LONG_REPEAT_S = 0.05


class Timeable(Protocol):
    """Something that can be called many times in a row."""

    def mean_s(self, calls: int) -> float:
        """Seconds per call, averaged over `calls` calls after one that is not counted."""


def involuntary_switches() -> int:
    """How often a thread of this process has lost its core although it had work to do (`getrusage(2)`)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Undisturbed:
    """A kernel that is called again where somebody else had the core meanwhile.

    On a busy machine a repeat takes its own time or, with another process's turn in it, several times as long. It must
    be called in this process.

    Attributes:
        void: repeats that were interrupted.
    """

    def __init__(self, kernel: Timeable, interruptions: Callable[[], int] = involuntary_switches) -> None:
        self._kernel = kernel
        self._interruptions = interruptions
        self.void = 0

    def mean_s(self, calls: int) -> float:
        """The mean of the first repeat that nobody interrupted; without one, of the fastest of some."""
        interrupted_s: list[float] = []
        while len(interrupted_s) < _MOST_VOID:
            before = self._interruptions()
            mean_s = self._kernel.mean_s(calls)
            if self._interruptions() == before:
                return mean_s
            self.void += 1
            interrupted_s.append(mean_s)
            if mean_s * calls > _LONG_REPEAT_S:
                break
        return min(interrupted_s)


def calls_that_fill(kernel: Timeable, min_repeat_s: float, slow_s: float = math.inf) -> int:
    """The number of calls that take `min_repeat_s`. It took so long twice in a row, which also warms the kernel up.

    A kernel of which one call takes longer than `slow_s` is called once.
    """
    target_s = max(min_repeat_s, SHORTEST_REPEAT_S)
    calls = 1
    while (taken_s := min(_taken_s(kernel, calls), _taken_s(kernel, calls))) < target_s:
        if calls == 1 and taken_s > slow_s:
            break
        step = min(_HEADROOM * target_s / taken_s, _LARGEST_STEP) if taken_s > 0 else _LARGEST_STEP
        calls = max(calls + 1, math.ceil(calls * step))
    return calls


def time_in_turn(kernels: Sequence[Timeable], timing: Timing) -> tuple[tuple[tuple[float, ...], ...], tuple[int, ...]]:
    """Seconds per call, per kernel one value per repeat; and per kernel the calls of a repeat.

    The kernels take turns repeat by repeat, in the other order every other round, so that what drifts, drifts for all.
    """
    calls = tuple(calls_that_fill(kernel, timing.min_repeat_s, slow_call_s(timing)) for kernel in kernels)
    times_s: list[list[float]] = [[] for _ in kernels]
    order = list(range(len(kernels)))
    for _ in range(timing.repeats):
        for index in order:
            times_s[index].append(kernels[index].mean_s(calls[index]))
        order.reverse()
        if is_over(times_s, timing):
            break
    return tuple(tuple(values) for values in times_s), calls


def slow_call_s(timing: Timing) -> float:
    """A call that takes longer is timed alone."""
    return math.inf if timing.give_up_s is None else _SLOW * timing.give_up_s


def is_over(times_s: Sequence[Sequence[float]], timing: Timing) -> bool:
    """Whether more repeats would tell nothing new."""
    if len(times_s[0]) < timing.fewest:
        return False
    return _is_hopeless(times_s, timing) or _is_settled(times_s, timing)


def next_look(done: int, timing: Timing) -> int:
    """The next number of repeats after which timing may be over."""
    if done < timing.fewest:
        return timing.fewest
    if timing.min_gain is None:  # what was not hopeless once never is
        return timing.repeats
    return min(done + _LOOK_EVERY - (done - timing.fewest) % _LOOK_EVERY, timing.repeats)


def _is_hopeless(times_s: Sequence[Sequence[float]], timing: Timing) -> bool:
    """Whether every kernel is to be given up. By its fastest value: noise makes a value larger, hardly smaller."""
    return timing.give_up_s is not None and min(map(min, times_s)) > timing.give_up_s


def _is_settled(times_s: Sequence[Sequence[float]], timing: Timing) -> bool:
    """Whether more repeats would hardly change which kernels are faster than the first."""
    if timing.min_gain is None or (len(times_s[0]) - timing.fewest) % _LOOK_EVERY:
        return False
    from int8tune.results.stats import is_settled  # with numpy, which devices of bundles do without

    first, *rivals = times_s
    return all(is_settled(first, rival, timing.min_gain) for rival in rivals)


def _taken_s(kernel: Timeable, calls: int) -> float:
    return kernel.mean_s(calls) * calls

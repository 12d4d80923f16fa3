"""Timing loops: how many calls make a repeat, and whose turn it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from rpc.request import Timing

# Below this the clock's own steps and overhead would show in a repeat.
_SHORTEST_REPEAT_S = 1e-5
_LARGEST_STEP = 100
_HEADROOM = 1.1


class Timeable(Protocol):
    """Something that can be called many times in a row."""

    def mean_s(self, calls: int) -> float:
        """Seconds per call, averaged over `calls` calls after one that is not counted."""


def calls_that_fill(kernel: Timeable, min_repeat_s: float) -> int:
    """The number of calls that take `min_repeat_s`. It took so long twice in a row, which also warms the kernel up."""
    target_s = max(min_repeat_s, _SHORTEST_REPEAT_S)
    calls = 1
    while (taken_s := min(_taken_s(kernel, calls), _taken_s(kernel, calls))) < target_s:
        step = min(_HEADROOM * target_s / taken_s, _LARGEST_STEP) if taken_s > 0 else _LARGEST_STEP
        calls = max(calls + 1, math.ceil(calls * step))
    return calls


def time_in_turn(kernels: Sequence[Timeable], timing: Timing) -> tuple[tuple[tuple[float, ...], ...], tuple[int, ...]]:
    """Seconds per call, per kernel one value per repeat; and per kernel the calls of a repeat.

    The kernels take turns repeat by repeat, in the other order every other round, so that what drifts, drifts for all.
    """
    calls = tuple(calls_that_fill(kernel, timing.min_repeat_s) for kernel in kernels)
    times_s: list[list[float]] = [[] for _ in kernels]
    order = list(range(len(kernels)))
    for _ in range(timing.repeats):
        for index in order:
            times_s[index].append(kernels[index].mean_s(calls[index]))
        order.reverse()
    return tuple(tuple(values) for values in times_s), calls


def _taken_s(kernel: Timeable, calls: int) -> float:
    return kernel.mean_s(calls) * calls

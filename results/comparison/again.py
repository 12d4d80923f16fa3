"""A comparison by times that were taken in turn now, in several sessions, in place of recorded ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from int8tune.results.comparison.compare import Comparison, compared
from int8tune.results.comparison.sessions import LogRatio
from int8tune.results.comparison.side import Side
from int8tune.results.stats import median

Sessions = Sequence[tuple[Sequence[float], Sequence[float]]]
"""Seconds of A's schedule and of B's, in pairs, session by session."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What the sessions of one layer say: the mean of their logarithms, and the squares of what they differ by."""

    mean: float
    squares: float
    sessions: int


def compare_again(
    a: Side, b: Side, times_s: Mapping[str, Sessions], where: str, failed: Mapping[str, str]
) -> Comparison:
    """What changed from A to B, by their schedules' times on one machine.

    How far sessions of the same two schedules differ is taken from all layers together.

    Args:
        times_s: by layer; two sessions at least.
        where: the machine's CPU.
        failed: layers that could not be timed, by key: why.
    """
    failed = dict.fromkeys(a.layers.keys() & b.layers.keys() - times_s.keys(), "not timed") | dict(failed)
    layers = {key: _layer(sessions) for key, sessions in times_s.items()}
    freedom = sum(layer.sessions - 1 for layer in layers.values())
    deviation = math.sqrt(math.fsum(layer.squares for layer in layers.values()) / max(freedom, 1))
    ratios = {
        key: LogRatio(layer.mean, deviation / math.sqrt(layer.sessions), freedom=max(freedom, 2))
        for key, layer in layers.items()
    }
    count = next((layer.sessions for layer in layers.values()), 0)
    notes = [
        f"timed in turn now on {where}: each layer in {count} sessions, which differ by {deviation * 100:.1f} %",
        "schedules of both sides were built by this version of the program, and verified bit for bit",
    ]
    now = [_with_times(side, times_s, place) for place, side in enumerate((a, b))]
    return compared(now[0], now[1], ratios, notes, failed)


def _layer(sessions: Sessions) -> _Layer:
    logs = [math.log(median(np.asarray(a) / np.asarray(b))) for a, b in sessions]
    mean = math.fsum(logs) / len(logs)
    return _Layer(mean, math.fsum((log - mean) ** 2 for log in logs), len(logs))


def _with_times(side: Side, times_s: Mapping[str, Sessions], place: int) -> Side:
    """The side with the times of now, of the layers that have any."""
    layers = dict(side.layers)
    for key, sessions in times_s.items():
        taken = tuple(time_s for session in sessions for time_s in session[place])
        layers[key] = replace(layers[key], time=median(taken), times_s=taken, kernel="", references={})
    return replace(side, layers=layers, estimated_by="")

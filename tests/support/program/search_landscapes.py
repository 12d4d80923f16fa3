"""Spaces, what their configs cost, and campaigns over them without a device."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from int8tune.results.record import Candidate, Measurement, Outcome, Trial
from int8tune.schedules.registry import template_named
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.search.base import Strategy
from int8tune.tuner.search.registry import make_strategy
from int8tune.tuner.search.xgboost import WHOLE_GRID
from tests.support.run.probes import any_target

CONV = "conv2d-u8s8-1x56x56x64-k3x3x64-s1-p1-float.c-u8"
FAILURES = [outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.DEVICE_LOST)]

# Seconds of a config's kernel, or None where it fails.
Landscape = Callable[[Mapping[str, Value]], float | None]


@cache
def conv_space() -> ConfigSpace:
    target = replace(any_target("generic"), vector_lanes=16, vector_registers=32)
    return template_named("generic.direct").space(parse_workload(CONV), target)


def small_space(holds: Callable[[Mapping[str, Value]], bool] = lambda c: int(c["a"]) + int(c["b"]) <= 5) -> ConfigSpace:
    knobs = (Knob("a", (0, 1, 2, 3)), Knob("b", (0, 1, 2, 3)), Knob("order", ("rows", "columns")))
    default: Config = {"a": 0, "b": 0, "order": "rows"}
    return ConfigSpace(
        knobs, default, (Constraint("small", holds),), lambda c: {"sum": float(int(c["a"]) + int(c["b"]))}
    )


def point_space() -> ConfigSpace:
    return ConfigSpace((Knob("a", (4,)),), {"a": 4})


def sparse_space() -> ConfigSpace:
    """Eleven configs in a grid that is too large to be ranked as a whole."""
    side = int(WHOLE_GRID**0.5) + 1
    knobs = (Knob("a", tuple(range(side))), Knob("b", tuple(range(side))))
    return ConfigSpace(
        knobs, {"a": 0, "b": 0}, (Constraint("diagonal", lambda c: c["a"] == c["b"] and int(c["a"]) < 11),)
    )


def large_space(side: int = 10, knobs: int = 6) -> ConfigSpace:
    names = [f"tile_{axis}" for axis in range(knobs)]
    return ConfigSpace(
        tuple(Knob(name, tuple(range(1, side + 1))) for name in names),
        dict.fromkeys(names, 1),
        (Constraint("not all large", lambda c: sum(map(int, c.values())) <= side * knobs * 3 // 4),),
        lambda c: {f"{name}_bytes": 64.0 * int(c[name]) for name in names},
    )


def bowl(config: Mapping[str, Value]) -> float:
    return 1e-4 * (1 + sum(abs(int(value) - 4) for value in config.values()))


def bowl_of_sum(config: Mapping[str, Value]) -> float:
    return 1e-4 * (1 + int(config["a"]) + int(config["b"]))


def smooth(config: Mapping[str, Value]) -> float:
    """The time of a config of `conv_space`: few loads, little waste and a body of medium length are fast."""
    features = conv_space().features(config)
    body = abs(np.log2(features["unrolled_dots"] / 24))
    return float(
        1e-4 * (2 * features["loads_per_dot"] + features["waste"] + 0.3 * body + 0.15 * features["weights_outer"])
    )


def broken_in_half(config: Mapping[str, Value]) -> float | None:
    """`smooth`, but half of the configs fail, without a rule that could be learned."""
    return None if hashlib.sha256(key_of(config).encode()).digest()[0] % 2 else smooth(config)


def broken_where_large(config: Mapping[str, Value]) -> float | None:
    """`smooth`, but the larger half of the bodies fails."""
    return None if conv_space().features(config)["unrolled_dots"] > 28 else smooth(config)


def always_fails(config: Mapping[str, Value]) -> None:
    del config


def key_of(config: Mapping[str, Value]) -> str:
    return json.dumps(config, sort_keys=True)


def keys_of(configs: Iterable[Mapping[str, Value]]) -> list[str]:
    return [key_of(config) for config in configs]


def trials_of(configs: Sequence[Mapping[str, Value]], landscape: Landscape = smooth) -> list[Trial]:
    trials = []
    for at, config in enumerate(configs):
        time_s = landscape(config)
        outcome = FAILURES[at % len(FAILURES)] if time_s is None else Outcome.OK
        measurement = None if time_s is None else Measurement((1.1 * time_s, time_s, 5 * time_s), 10)
        candidate = Candidate(CONV, "generic-x", "generic.direct", 1, config)
        trials.append(Trial("campaign", at, candidate, outcome, measurement, "local", {}, "2026-01-01T00:00:00Z"))
    return trials


def strategy_of(name: str, space: ConfigSpace, seed: int = 0) -> Strategy:
    return make_strategy(name, space, np.random.default_rng(seed))


def search(strategy: Strategy, landscape: Landscape, batches: int, n: int = 8) -> list[list[Config]]:
    """The batches of a campaign in which each is observed before the next is proposed."""
    history = []
    for _ in range(batches):
        history.append(strategy.propose(n))
        strategy.observe(trials_of(history[-1], landscape))
    return history


def flat(batches: Iterable[Iterable[Config]]) -> list[Config]:
    return list(itertools.chain.from_iterable(batches))


def exhaust(strategy: Strategy, n: int = 5) -> list[Config]:
    configs: list[Config] = []
    while batch := strategy.propose(n):
        assert len(batch) <= n
        configs += batch
    return configs

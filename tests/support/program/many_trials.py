"""Campaigns of as many trials as one likes, such as a team has after a year; each time the same."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from int8tune.results.record import Campaign, Candidate, DeviceCheck, Duel, Entry, Measurement, Outcome, Trial

TARGET, DEVICE = "x86-avx512vnni", "local"
LAYERS, LAYERS_OF_ALL = 40, 60
RIVALS, ROUNDS, REPEATS = 3, 16, 7
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_A_TRIAL = timedelta(seconds=0.2)
_ENVIRONMENT = {
    "cpu": "Intel Xeon Platinum 8272CL",
    "governor": "performance",
    "os": "Debian 12, Linux 6.1",
    "tvm": "0.27.0.post1",
    "llvm": "22.1",
    "int8tune": "0.1.0",
    "cache": "network",
}
_CHOICES = {
    "tile_rows": (1, 2, 4, 7, 8, 14, 28, 56),
    "tile_columns": (1, 2, 4, 8, 16, 32),
    "channels": (16, 32, 64, 128),
    "steps": tuple(range(1, 33)),
    "unroll": (False, True),
    "order": ("khw", "hwk", "hkw"),
    "fetch": ("demand", "ahead"),
    "threads": (1, 2, 4, 8),
}


def campaign_of(number: int) -> Campaign:
    """The campaign of a number; each starts a week after the one before."""
    return Campaign(
        name=f"many-{number}",
        network=f"network-{number}",
        device=DEVICE,
        target=TARGET,
        strategy="xgboost",
        seed=number,
        trials_per_task=2_000,
        layers={workload: 1 + place % 3 for place, workload in enumerate(workloads_of(number))},
        created_at=_start(number).isoformat(),
    )


def workloads_of(number: int) -> list[str]:
    """Keys of the layers of a campaign; it shares most with others."""
    return [_workload((7 * number + place) % LAYERS_OF_ALL) for place in range(LAYERS)]


def entries_of(number: int, trials: int) -> Iterator[Entry]:
    """A campaign, its trials, layer by layer in batches, one in twenty failed, and then its duels."""
    rng = np.random.default_rng(number)
    workloads = workloads_of(number)
    yield campaign_of(number)
    yield DeviceCheck(DEVICE, TARGET, 3e11, {"L1": 3e11, "memory": 2e10}, 0.01, _ENVIRONMENT, _moment(number, 0))
    times_s = 1e-4 * (1 + rng.gamma(2.0, 0.3, (trials, 1))) * (1 + rng.gamma(1.0, 0.01, (trials, REPEATS)))
    probes_s = 1e-3 * (1 + rng.normal(0, 0.01, trials))
    for sequence, (own_s, probe_s) in enumerate(zip(times_s.tolist(), probes_s.tolist(), strict=True)):
        measured = Measurement(tuple(own_s), 20, _observed(probe_s))
        yield _trial(number, sequence, workloads[sequence % LAYERS], measured)
    for place, workload in enumerate(workloads[: min(LAYERS, trials)]):
        for step in range(1, 1 + min(RIVALS, (trials - 1 - place) // LAYERS)):
            yield _duel(number, workload, place, place + step * LAYERS, trials, rng)


def _trial(number: int, sequence: int, workload: str, measured: Measurement) -> Trial:
    has_failed = sequence >= LAYERS and sequence % 20 == 0
    return Trial(
        campaign=f"many-{number}",
        sequence=sequence,
        candidate=_candidate(workload, sequence // LAYERS),
        outcome=Outcome.BUILD_TIMEOUT if has_failed else Outcome.OK,
        measurement=None if has_failed else measured,
        device=DEVICE,
        environment=_ENVIRONMENT,
        started_at=_moment(number, sequence),
        build_s=0.4,
        run_s=0.1,
        binary="" if has_failed else hashlib.sha256(b"%d" % sequence).hexdigest(),
        error_class="BuildTimeout" if has_failed else "",
        error="the build took over 10 s" if has_failed else "",
    )


def _observed(probe_s: float) -> dict[str, float]:
    return {"probe_before_s": probe_s, "probe_after_s": probe_s * 1.001, "load_1min": 1.25, "timings": 1.0}


def _duel(number: int, workload: str, a: int, b: int, trials: int, rng: np.random.Generator) -> Duel:
    times_s = 1e-4 * (1 + rng.gamma(1.0, 0.01, (2, ROUNDS))) * [[1.0], [0.9]]
    return Duel(
        campaign=f"many-{number}",
        workload=workload,
        target=TARGET,
        device=DEVICE,
        a=_candidate(workload, a // LAYERS).id,
        b=_candidate(workload, b // LAYERS).id,
        a_times_s=tuple(times_s[0].tolist()),
        b_times_s=tuple(times_s[1].tolist()),
        environment=_ENVIRONMENT,
        started_at=_moment(number, trials),
    )


def _candidate(workload: str, point: int) -> Candidate:
    """The config of a point of the space; consecutive ones have little in common."""
    size = math.prod(len(choices) for choices in _CHOICES.values())
    left, config = point * 7919 % size, {}
    for knob, choices in _CHOICES.items():
        left, place = divmod(left, len(choices))
        config[knob] = choices[place]
    return Candidate(workload, TARGET, "x86.conv", 3, config)


def _workload(number: int) -> str:
    side, channels, kernel = (56, 28, 14, 7)[number % 4], 16 * (1 + number % 15), (1, 3)[number // 30]
    return f"conv2d-u8s8-1x{side}x{side}x{channels}-k{kernel}x{kernel}x{channels}-s1-p{kernel // 2}-float.c-u8"


def _start(number: int) -> datetime:
    return _BEGAN + timedelta(weeks=number)


def _moment(number: int, sequence: int) -> str:
    return (_start(number) + sequence * _A_TRIAL).isoformat()

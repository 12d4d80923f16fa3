"""Two campaigns of one network in two stores, from machines that were not equally fast, with known true gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Campaign, Candidate, Duel, Measurement, Trial
from tests.support.program.results_samples import campaign, candidate, ok

LAYERS = tuple(f"conv2d-u8s8-1x14x14x{16 * width}-k3x3x64-s1-p1-float.c-u8" for width in range(1, 31))
DEFAULT_S, BEST_GAIN = 1e-3, 1.3


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine does to times, as standard deviations of logarithms but for `speed`.

    Attributes:
        speed: how many times slower it is than the other one.
        drift: from one session to the next, of all kernels.
        placement: from one session to the next, of each kernel by itself.
        repeats: within a session.
    """

    speed: float = 1.0
    drift: float = 0.03
    placement: float = 0.005
    repeats: float = 0.01


def side_store(
    machine: Machine,
    seed: int,
    gains: Mapping[str, float] | None = None,
    *,
    made_anew: str = "",
    layers: Sequence[str] = LAYERS,
    has_duels: bool = True,
) -> MemoryStore:
    """A store with a campaign `c1`; `gains` are what its best candidates are faster by than usual.

    Args:
        made_anew: the kernels that are other ones than in a store without it: `best`; `default`, and the best; or
            `all`, as if another compiler had made them.
    """
    rng = np.random.default_rng(seed)
    store = MemoryStore()
    entries: list[Campaign | Trial | Duel] = [campaign(layers=dict.fromkeys(layers, 2))]
    for number, layer in enumerate(layers):
        default, best = candidate(0, layer), candidate(2 if made_anew else 1, layer)
        others = [candidate(3 + other, layer) for other in range(2)]
        best_s = DEFAULT_S / BEST_GAIN / (gains or {}).get(layer, 1.0)
        true_s = [(default, DEFAULT_S), (best, best_s), *((each, 0.9 * DEFAULT_S) for each in others)]
        for place, (each, time_s) in enumerate(true_s):
            is_new = place < {"": 0, "best": 0, "default": 1, "all": 4}[made_anew]
            entries.append(_trial(machine, rng, 4 * number + place, each, time_s, "new" if is_new else ""))
        if has_duels:
            entries.append(_duel(machine, rng, default, best, best_s))
    store.append(entries)
    return store


def _trial(
    machine: Machine, rng: np.random.Generator, sequence: int, chosen: Candidate, true_s: float, mark: str
) -> Trial:
    drift = math.exp(rng.normal(0, machine.drift))
    own = math.exp(rng.normal(0, machine.placement))
    times_s = machine.speed * drift * own * true_s * np.exp(rng.normal(0, machine.repeats, 7))
    probe_s = 1e-5 * machine.speed * drift
    observed = {"probe_before_s": probe_s, "probe_after_s": probe_s}
    trial = ok(sequence, chosen=chosen)
    return replace(trial, measurement=Measurement(tuple(times_s.tolist()), 10, observed), binary=f"{chosen.id}{mark}")


def _duel(machine: Machine, rng: np.random.Generator, default: Candidate, best: Candidate, best_s: float) -> Duel:
    drift = machine.speed * math.exp(rng.normal(0, machine.drift))
    own = np.exp(rng.normal(0, machine.placement, 2))
    noise = np.exp(rng.normal(0, machine.repeats, (2, 24)))
    a_s, b_s = (drift * own[:, None] * np.array([[DEFAULT_S], [best_s]]) * noise).tolist()
    sample = ok(0)
    return Duel(
        "c1", best.workload, best.target, sample.device, default.id, best.id, tuple(a_s), tuple(b_s),
        sample.environment, sample.started_at,
    )  # fmt: skip

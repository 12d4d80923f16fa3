"""Random farms with random faults, by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from int8tune.rpc.farm.simulation.values import Candidate, Fault, FaultKind, Kill, SimulatedBoard
from int8tune.rpc.farm.simulation.world import SchedulerMaker, SimulatedFarm, Watcher, trials_of
from int8tune.rpc.farm.values import Board, Campaign, Rules, Verdict

_BAD = (Verdict.WRONG, Verdict.CRASHED, Verdict.TIMED_OUT)


def random_candidates(
    campaign: Campaign, target: str, count: int, rng: np.random.Generator, *, bad: float = 0.05, seconds: float = 0.2
) -> list[Candidate]:
    """Candidates of which a share is bad, each with a time of its own."""
    trials = trials_of(campaign.name, target, count, run_limit_s=10 * seconds)
    times = seconds * np.exp(0.3 * rng.standard_normal(count))
    kinds = rng.integers(len(_BAD), size=count)
    is_bad = rng.random(count) < bad
    return [
        Candidate(trial, _BAD[kind] if wrong else Verdict.OK, float(time))
        for trial, time, kind, wrong in zip(trials, times, kinds, is_bad, strict=True)
    ]


def random_faults(
    boards: Sequence[str],
    rng: np.random.Generator,
    *,
    count: int,
    within_s: float,
    kinds: Sequence[FaultKind] = tuple(FaultKind),
) -> list[Fault]:
    """Faults at random moments, each of which lasts a while."""
    faults = []
    for _ in range(count):
        kind = kinds[int(rng.integers(len(kinds)))]
        strength = 1.5 + 3 * float(rng.random()) if kind is FaultKind.SLOW else 0.2 + 0.6 * float(rng.random())
        board = boards[int(rng.integers(len(boards)))]
        at_s, lasts_s = within_s * float(rng.random()), float(rng.choice([0.3, 3.0, 20.0]))
        faults.append(Fault(kind, board, at_s, lasts_s, strength))
    return faults


def nemesis_farm(
    seed: int,
    watch: Watcher,
    *,
    boards: int = 3,
    trials: int = 12,
    faults: int = 4,
    kills: int = 2,
    bad: float = 0.15,
    rules: Rules | None = None,
    make_scheduler: SchedulerMaker | None = None,
) -> tuple[SimulatedFarm, list[Candidate]]:
    """A farm of two campaigns to which everything happens that can happen."""
    rng = np.random.default_rng(seed)
    names = [f"board{number}" for number in range(boards)]
    specs = [
        SimulatedBoard(
            Board(name, "t", _tags(number), canary_s=0.1, canary_every=4, power_cycle=bool(rng.random() < 0.5))
        )
        for number, name in enumerate(names)
    ]
    work: dict[Campaign, list[Candidate]] = {}
    for name, priority in (("a", 1.0), ("b", 3.0)):
        campaign = Campaign(name, priority)
        work[campaign] = [_varied(c, rng) for c in random_candidates(campaign, "t", trials // 2, rng, bad=bad)]
    plan = random_faults(names, rng, count=faults, within_s=4.0)
    dying = [Kill(int(rng.integers(1, 12 * trials)), float(rng.choice([0.1, 2.0, 8.0]))) for _ in range(kills)]
    farm = SimulatedFarm(
        specs,
        work,
        seed=seed,
        rules=rules,
        faults=plan,
        kills=dying,
        depth=4,
        watch=watch,
        make_scheduler=make_scheduler,
    )
    return farm, [candidate for candidates in work.values() for candidate in candidates]


def _tags(number: int) -> frozenset[str]:
    """Every board but the first has a tag."""
    return frozenset({"big"} if number else ())


def _varied(candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Some trials want a tag, some are built later, some of these never."""
    chance = rng.random()
    if chance < 0.2:
        return replace(candidate, trial=replace(candidate.trial, tags=_tags(1)))
    if chance < 0.4:
        verdict = Verdict.BUILD_FAILED if chance < 0.25 else candidate.verdict
        return replace(candidate, trial=replace(candidate.trial, built=False), verdict=verdict)
    return candidate

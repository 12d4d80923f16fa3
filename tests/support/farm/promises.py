"""What a farm promises, each as a function that plays it in a simulated farm and says what was broken."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from int8tune.rpc.farm.driver import RULES
from int8tune.rpc.farm.entries import Issued, entry_from_json, entry_to_json
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.simulation.nemesis import nemesis_farm, random_candidates, random_faults
from int8tune.rpc.farm.simulation.values import Candidate, Fault, FaultKind, Kill, SimulatedBoard
from int8tune.rpc.farm.simulation.world import SimulatedFarm, trials_of
from int8tune.rpc.farm.values import Board, Campaign, Rules, Verdict
from tests.support.farm.log import BAD, Checker, Line, Log

DAY_S = 86_400.0
# By then everything is over, whatever happens.
LONG_S = 20_000.0
CANARY_EVERY = 20
Say = Callable[[str], None]
INFRA = (FaultKind.CRASH, FaultKind.FREEZE, FaultKind.UNPLUG, FaultKind.LOSSY, FaultKind.RESTART)


def silent(_: str) -> None:
    """Figures that nobody wants."""


def farm_of(
    boards: int, work: dict[Campaign, list[Candidate]], log: Log | Callable[[float, Any], None], **options: Any
) -> SimulatedFarm:
    """Boards of one kind, `b0` to the last; only the first has the tag `first`."""
    specs = [
        SimulatedBoard(
            Board(f"b{n}", "t", frozenset() if n else frozenset({"first"}), canary_s=0.1, canary_every=CANARY_EVERY)
        )
        for n in range(boards)
    ]
    return SimulatedFarm(specs, work, watch=log, **options)


def candidates(campaign: str, count: int, seed: int = 0, **options: Any) -> dict[Campaign, list[Candidate]]:
    return {
        Campaign(campaign): random_candidates(Campaign(campaign), "t", count, np.random.default_rng(seed), **options)
    }


def concluded(log: Log) -> dict[str, Line]:
    return {line["trial"]: line for line in log.lines if line["kind"] == "Concluded"}


def finish(farm: SimulatedFarm) -> list[str]:
    return [] if farm.run(LONG_S) else [f"not over after {LONG_S:g} s"]


def slow_results(log: Log, farm: SimulatedFarm, work: Sequence[Candidate]) -> list[str]:
    """Results that are final though their board was slow."""
    seconds = {candidate.trial.id: candidate.seconds for candidate in work}
    lines = [line for line in concluded(log).values() if line["verdict"] == "ok"]
    return [
        f"{line['trial']} was measured on a slow board: {line}"
        for line in lines
        if farm.devices[line["board"]].measured_s[line["fence"]] > 1.01 * seconds[line["trial"]]
    ]


def rules_of(seed: int) -> Rules:
    """Every other farm has patience with boards that are slow for a moment, as those of real campaigns have."""
    return Rules(slow_canaries=RULES.slow_canaries) if seed % 2 else Rules()


def one_final_state(seeds: Sequence[int], **options: Any) -> list[str]:
    """Promises 2 and 12: whatever happens, each trial ends once, as a board that was well said."""
    broken = []
    for seed in seeds:
        log = Log()
        farm, work = nemesis_farm(seed, log, rules=rules_of(seed), **options)
        found = finish(farm) or [*Checker().read(log.lines), *slow_results(log, farm, work)]
        broken += [f"seed {seed}: {text}" for text in found]
        if broken:
            break
    return broken


def hung_kernels(say: Say = silent) -> list[str]:
    """Promise 3: they cost their board their limit and a second, and the others nothing."""
    limit_s = 2.0
    hung = [
        Candidate(trial, Verdict.TIMED_OUT)
        for trial in trials_of("hung", "t", 200, tags=frozenset({"first"}), run_limit_s=limit_s)
    ]
    rates, broken = [], []
    for extra in ([], hung):
        log = Log()
        work = candidates("well", 4000, bad=0.0) | ({Campaign("hung", 10.0): extra} if extra else {})
        farm = farm_of(4, work, log)
        farm.run(100.0)
        rates.append(
            sum(line["kind"] == "Returned" and line["board"] != "b0" and line["verdict"] == "ok" for line in log.lines)
        )
        issued = {line["fence"]: line["t"] for line in log.lines if line["kind"] == "Issued"}
        over = [line for line in log.lines if line["kind"] == "Returned" and line["verdict"] == "timed-out"]
        broken += [f"too long: {line}" for line in over if line["t"] - issued[line["fence"]] > limit_s + 1]
        broken += ["no kernel hung"] if extra and len(over) < 5 else []
        longest_s = max((line["t"] - issued[line["fence"]] for line in over), default=0.0)
    say(f"others measured {rates[1]} of {rates[0]}, a hung kernel of {limit_s:g} s cost its board {longest_s:.2f} s")
    return broken + ([f"others measured {rates[1]} instead of {rates[0]}"] if rates[1] < 0.95 * rates[0] else [])


def dead_boards(say: Say = silent) -> list[str]:
    """Promise 6: noticed within 15 s, its candidate on another board within 20 s."""
    broken: list[str] = []
    delays: dict[str, list[float]] = {"noticed": [], "on another board": [], "off": []}
    for kind in (FaultKind.CRASH, FaultKind.FREEZE, FaultKind.UNPLUG):
        for at_s in (0.5, 1.003, 1.7, 3.1):
            log = Log()
            work = candidates("a", 400, bad=0.0, seconds=3.0)
            farm = farm_of(4, work, log, faults=[Fault(kind, "b1", at_s, DAY_S)], depth=400)
            farm.run(at_s + 60)
            broken += [f"{kind} at {at_s} s: {text}" for text in _notice(log.lines, at_s, delays)]
    say(", ".join(f"{name} after {max(found):.1f} s" for name, found in delays.items()) + " at the latest")
    return broken + ([] if len(delays["off"]) == 12 else [f"{len(delays['off'])} of 12 were played"])


def boards_gone_for_good() -> list[str]:
    """Promise 6: what a board that never comes back had answered is measured on others."""
    log = Log()
    farm = farm_of(4, candidates("a", 100), log, faults=[Fault(FaultKind.UNPLUG, "b1", 2.0, DAY_S)])
    if broken := finish(farm):
        return broken
    return [f"given up: {line}" for line in concluded(log).values() if line["verdict"] == "infra-failed"]


def _notice(lines: Sequence[Line], at_s: float, delays: dict[str, list[float]]) -> list[str]:
    issued = [line for line in lines if line["kind"] == "Issued" and line["board"] == "b1" and line["t"] < at_s]
    if not issued or not issued[-1]["trial"]:
        return []
    trial = issued[-1]["trial"]
    after = [line for line in lines if line["t"] >= at_s]
    noticed = [line for line in after if line["kind"] == "Returned" and line["trial"] == trial]
    again = [line for line in after if line["kind"] == "Issued" and line["trial"] == trial and line["board"] != "b1"]
    off = [line for line in after if line["kind"] == "Turned" and line["board"] == "b1" and line["state"] == "lost"]
    late = []
    for name, found, most_s in (("noticed", noticed, 15), ("on another board", again, 20), ("off", off, 15)):
        if not found:
            late.append(f"never {name}")
            continue
        delays[name].append(found[0]["t"] - at_s)
        late += [f"{name} after {delays[name][-1]:.1f} s"] if delays[name][-1] > most_s else []
    return late


def killed_coordinators(steps: range, trials: int = 40, say: Say = silent) -> list[str]:
    """Promise 7: killed at each of these steps, it goes on within 10 s and measures nothing again that was answered."""
    broken, kills = [], 0
    for step in steps:
        log = Log()
        farm = farm_of(4, candidates("a", trials, bad=0.1), log, kills=[Kill(step, away_s=1.0)])
        found = finish(farm) or Checker(canary_every=CANARY_EVERY).read(log.lines)
        kills += any(line["kind"] == "Kill" for line in log.lines)
        broken += [f"step {step}: {text}" for text in [*found, *_repeated(log.lines)]]
        if broken:
            break
    say(f"killed at {kills} steps")
    return broken


def _repeated(lines: Sequence[Line]) -> list[str]:
    """What a new coordinator did that it need not have done."""
    kill = next((place for place, line in enumerate(lines) if line["kind"] == "Kill"), None)
    if kill is None:
        return []
    done: set[str] = set()
    flying: dict[str, int] = {}
    for line in lines[:kill]:
        if line["kind"] == "Issued" and line["trial"]:
            flying[line["trial"]] = line["fence"]
        elif line["kind"] == "Returned":
            flying.pop(line["trial"], None)
            done.add(line["trial"])
        elif line["kind"] in ("Voided", "Blamed", "Cleared"):
            done.discard(line["trial"])
    again: list[str] = []
    for line in lines[kill:]:
        if line["kind"] in ("Voided", "Blamed", "Cleared"):
            done.discard(line["trial"])
        elif line["kind"] == "Issued" and line["trial"] in done:
            again.append(f"measured again: {line}")
    going = [line["t"] for line in lines[kill:] if line["kind"] in ("Issued", "Concluded") and line["trial"]]
    if len(flying) > 4:
        again.append(f"{len(flying)} were in flight")
    if going and going[0] - lines[kill]["t"] - 1.0 > 10:
        again.append(f"going again after {going[0] - lines[kill]['t']:.1f} s")
    return again


def infra_faults(seeds: Sequence[int], count: int = 200) -> list[str]:
    """Promise 11: what could not be measured is said to be that, all else is as without faults, and so is the best."""
    broken = []
    for seed in seeds:
        work = candidates("a", count, seed)
        calm, stormy = Log(), Log()
        farms = []
        for log, faults in ((calm, 0), (stormy, 12)):
            rng = np.random.default_rng(seed)
            names = [f"b{n}" for n in range(4)]
            plan = random_faults(names, rng, count=faults, within_s=15.0, kinds=INFRA)
            farms.append(farm_of(4, work, log, seed=seed, faults=plan))
            broken += finish(farms[-1])
        before, after = concluded(calm), concluded(stormy)
        broken += [
            f"seed {seed}: {trial} is {after[trial]['verdict']}, was {line['verdict']}"
            for trial, line in before.items()
            if after[trial]["verdict"] not in (line["verdict"], "infra-failed")
        ]
        best = [_best(log, farm) for log, farm in zip((calm, stormy), farms, strict=True)]
        broken += [f"seed {seed}: best {best[1]}, was {best[0]}"] if best[0] != best[1] else []
    return broken


def _best(log: Log, farm: SimulatedFarm) -> tuple[float, str]:
    times = [
        (farm.devices[line["board"]].measured_s[line["fence"]], trial)
        for trial, line in concluded(log).items()
        if line["verdict"] == "ok"
    ]
    return min(times)


def restarted_boards(seeds: Sequence[int]) -> list[str]:
    """Promise 12: what a board said before it was started anew counts only as far as a canary had confirmed it."""
    broken, voided = [], 0
    for seed in seeds:
        log, work = Log(), candidates("a", 200, seed)
        ill_s = 1.0 + 0.3 * (seed % 7)
        faults = [Fault(FaultKind.SLOW, "b1", ill_s, DAY_S, 3.0), Fault(FaultKind.RESTART, "b1", ill_s + 1.5, DAY_S)]
        farm = farm_of(4, work, log, seed=seed, faults=faults)
        broken += finish(farm) or slow_results(log, farm, next(iter(work.values())))
        broken += Checker(canary_every=CANARY_EVERY).read(log.lines)
        voided += sum(line["kind"] == "Voided" and "started anew" in line["cause"] for line in log.lines)
    return broken or ([] if voided else ["no answer was void"])


def sick_boards(seeds: Sequence[int], say: Say = silent) -> list[str]:
    """Promise 12: found within as many candidates as lie between canaries; nothing that it answered is final."""
    broken, most = [], 0
    for seed in seeds:
        for kind, strength in ((FaultKind.SLOW, 1.3), (FaultKind.SLOW, 3.0), (FaultKind.CORRUPT, 1.0)):
            at_s = 1.0 + seed % 7
            work = candidates("a", 400, seed)
            log = Log()
            faults = [Fault(kind, "b2", at_s, DAY_S, strength)]
            farm = farm_of(4, work, log, seed=seed, faults=faults, rules=rules_of(seed))
            broken += finish(farm) or slow_results(log, farm, next(iter(work.values())))
            after = [line for line in log.lines if line["t"] >= at_s and line.get("board") == "b2"]
            turned = [place for place, line in enumerate(after) if line["kind"] == "Turned"]
            if not turned:
                broken.append(f"seed {seed}: {kind} {strength} was not found")
                continue
            answers = sum(line["kind"] == "Returned" and line["verdict"] is not None for line in after[: turned[0]])
            most = max(most, answers)
            if answers > CANARY_EVERY:
                broken.append(f"seed {seed}: {kind} {strength} was found after {answers} candidates")
            if not any(line["kind"] == "Turned" and line["state"] == "quarantined" for line in after):
                broken.append(f"seed {seed}: {kind} {strength} was not taken off")
    say(f"found after {most} candidates at the latest, with a canary every {CANARY_EVERY}")
    return broken


def right_verdicts(
    seeds: Sequence[int], kinds: Sequence[FaultKind] = tuple(FaultKind), count: int = 500
) -> tuple[list[str], list[str]]:
    """Promise 13: with 5 % bad candidates and one bad board of four, verdicts are right.

    Returns:
        how many were right, for each kind of bad board, and where they were too few.
    """
    counts, broken = [], []
    for kind in kinds:
        right = total = 0
        for seed in seeds:
            work = candidates("a", count, seed)
            log = Log()
            lasts_s = 20.0 if kind in INFRA else DAY_S
            strength = 12.0 if kind is FaultKind.SLOW else 0.4
            faults = [Fault(kind, "b3", at_s, lasts_s, strength) for at_s in (2.0, 40.0, 80.0)]
            farm = farm_of(4, work, log, seed=seed, faults=faults)
            broken += finish(farm)
            ends = concluded(log)
            truth = next(iter(work.values()))
            right += sum(ends[c.trial.id]["verdict"] == c.verdict for c in truth)
            total += len(truth)
        counts.append(f"{kind} {right} of {total}")
        if right < 0.99 * total:
            broken.append(f"{kind}: {right} of {total} verdicts are right")
    return counts, broken


def flaky_boards_go_off(seeds: Sequence[int]) -> list[str]:
    """Promise 13: a board where candidates fail though its canary is good is taken off, be it seldom or often."""
    broken = []
    for seed in seeds:
        for strength in (0.5, 0.1):
            log = Log()
            faults = [Fault(FaultKind.FLAKY, "b1", 2.0, DAY_S, strength)]
            farm = farm_of(4, candidates("a", 400, seed), log, seed=seed, faults=faults)
            broken += finish(farm)
            if not any(line["kind"] == "Turned" and line["state"] == "quarantined" for line in log.lines):
                broken.append(f"seed {seed}: failing {strength:.0%} of its candidates, it measured to the end")
    return broken


def single_board_off_after_streak() -> list[str]:
    """Promise 13: three different candidates that fail in a row take a board off, even where it is the only one."""
    log = Log()
    trials = trials_of("a", "t", 3, run_limit_s=1.0)
    farm = farm_of(1, {Campaign("a"): [Candidate(trial, Verdict.CRASHED) for trial in trials]}, log)
    broken = finish(farm)
    off = [line for line in log.lines if line["kind"] == "Turned" and line["state"] == "quarantined"]
    return broken + ([] if off else ["it stayed"])


def shares(priorities: tuple[float, float], sessions_s: tuple[float, float], until_s: float = 60.0) -> list[float]:
    """Board time of two campaigns that always want more, as shares."""
    log = Log()
    work: dict[Campaign, list[Candidate]] = {}
    for name, priority, session_s in zip("ab", priorities, sessions_s, strict=True):
        work |= {
            Campaign(name, priority): next(
                iter(candidates(name, int(8 * until_s / session_s), bad=0.0, seconds=session_s).values())
            )
        }
    farm_of(4, work, log).run(until_s)
    issued = {line["fence"]: line for line in log.lines if line["kind"] == "Issued"}
    used = Counter({"a": 0.0, "b": 0.0})
    for line in log.lines:
        if line["kind"] == "Returned":
            used[line["trial"][0]] += line["t"] - issued[line["fence"]]["t"]
    return [used[name] / used.total() for name in "ab"]


def fairness(say: Say = silent) -> list[str]:
    """Equal priorities share within 5 %, whatever their sessions take; nobody starves anybody."""
    broken = []
    for sessions_s in ((0.2, 0.2), (0.1, 0.6)):
        equal = shares((1.0, 1.0), sessions_s)
        say(f"equal priorities, sessions of {sessions_s} s: {equal[0]:.3f} and {equal[1]:.3f}")
        broken += [f"equal ones share {equal} with sessions of {sessions_s}"] if abs(equal[0] - 0.5) > 0.025 else []
    greedy = shares((1e9, 1.0), (0.2, 0.2))
    broken += [f"beside priority 1e9 a campaign gets {greedy[1]:.3f}"] if greedy[1] < 0.9 / 11 else []
    triple = shares((3.0, 1.0), (0.2, 0.2))
    say(f"beside priority 1e9: {greedy[1]:.3f}; priority 3 beside 1: {triple[0]:.3f}")
    return broken + ([f"priority 3 gets {triple[0]:.3f}"] if abs(triple[0] - 0.75) > 0.0375 else [])


def jumping_clock(seed: int) -> list[str]:
    """Promise 18: a clock that is set back expires nothing early and gives no negative times."""
    ends = []
    for jumps in (False, True):
        log, rng = Log(), random.Random(seed)

        def make(ledger: Ledger | None, jitter: Any, jumps: bool = jumps, rng: random.Random = rng) -> Scheduler:
            specs = [Board(f"b{n}", "t", canary_s=0.1, canary_every=CANARY_EVERY) for n in range(4)]
            scheduler = Scheduler(specs, Rules(), jitter, ledger)
            if jumps:
                handle = scheduler.handle
                back = lambda now_s, event: handle(now_s - DAY_S * (rng.random() < 0.2), event)  # noqa: E731
                scheduler.handle = back  # type: ignore[method-assign]
            return scheduler

        farm = farm_of(4, candidates("a", 200, seed), log, seed=seed, make_scheduler=make)
        if broken := finish(farm) or Checker(canary_every=CANARY_EVERY).read(log.lines):
            return broken
        ends.append({trial: line["verdict"] for trial, line in concluded(log).items()})
        lost = [line for line in log.lines if line["kind"] == "Turned" and line["state"] in ("lost", "quarantined")]
        if lost:
            return [f"taken off: {lost[0]}"]
    return [] if ends[0] == ends[1] else ["verdicts differ"]


def journal_survives_json(seed: int) -> list[str]:
    """A coordinator that is rebuilt from a journal that was a file knows the same."""
    farm, _ = nemesis_farm(seed, lambda _now_s, _what: None)
    broken = finish(farm)
    again = [entry_from_json(entry_to_json(entry)) for entry in farm.journal]
    fences = [entry.fence for entry in again if isinstance(entry, Issued)]
    same = again == farm.journal and Ledger.of(again).done == farm.scheduler.ledger.done  # type: ignore[union-attr]
    return broken + ([] if same and len(fences) == len(set(fences)) else ["another journal"])


def guilty_share(lines: Sequence[Line]) -> float:
    """The share of concluded trials that failed."""
    ends = [line for line in lines if line["kind"] == "Concluded"]
    return sum(line["verdict"] in BAD for line in ends) / len(ends)

"""A simulated farm of an inventory's boards: to see what a farm would do before there is one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

import numpy as np

from int8tune.results.text import printable
from int8tune.rpc.errors import InventoryError
from int8tune.rpc.farm.boards import scheduled
from int8tune.rpc.farm.simulation.accounting import Accounting, FarmReport
from int8tune.rpc.farm.simulation.nemesis import random_candidates
from int8tune.rpc.farm.simulation.values import Behaviour, Candidate, Fault, FaultKind, SimulatedBoard
from int8tune.rpc.farm.simulation.world import SimulatedFarm
from int8tune.rpc.farm.values import Board, Campaign, Rules
from int8tune.rpc.inventory import boards as inventory

_BEHAVIOUR = tuple(field.name for field in fields(Behaviour))
_PER_HOUR = {f"{kind}_per_h": kind for kind in FaultKind}
_USUAL_FAULT_S = 60.0
# What a sick board does: how many times slower it is, and how often the others strike.
_SLOW_FACTOR, _STRIKES = 2.0, 0.3
MOST_FAULTS = 1_000_000
MOST_PROBLEMS = 20
# Faults are drawn for so many times what the work takes where nothing happens, and for this long besides.
_HORIZON, _HORIZON_S = 4.0, 3600.0


@dataclass(frozen=True, slots=True)
class Work:
    """What a simulated farm is given to do.

    Attributes:
        trials: of all campaigns together.
        campaigns: which share the boards alike.
        session_s: how long a candidate keeps a board of speed 1 busy, on average.
        bad: the share of candidates that crash, hang or are wrong.
    """

    trials: int = 1000
    campaigns: int = 1
    session_s: float = 0.2
    bad: float = 0.05


def simulate(farm: inventory.Inventory, work: Work, *, boards: int | None = None, seed: int = 0) -> FarmReport:
    """Let the farm's boards do the work; the same seed gives the same report.

    Args:
        boards: how many there are, as those of the inventory in turn; None: as many as it has.

    Raises:
        InventoryError: a board's `simulation` has a name that means nothing, or a value that none can have.
    """
    _check(farm)
    described = list(_repeated(farm.boards, boards or len(farm.boards)))
    specs = [SimulatedBoard(_board(board), _behaviour(board.simulation)) for board in described]
    rng = np.random.default_rng(seed)
    campaigns = _campaigns(sorted({board.target for board in described}), work, rng)
    horizon_s = _HORIZON * work.trials * work.session_s / len(specs) + _HORIZON_S
    _check_faults(farm, described, horizon_s)
    faults = [fault for board in described for fault in _faults(board, horizon_s, rng)]
    accounting = Accounting([board.name for board in described])
    simulated = SimulatedFarm(specs, campaigns, seed=seed, rules=Rules(), faults=faults, watch=accounting)
    simulated.run()
    return accounting.report(simulated.now_s)


def _board(board: inventory.Board) -> Board:
    """A simulated board is known, so what its canary takes is, too."""
    behaviour = _behaviour(board.simulation)
    return replace(scheduled(board), canary_s=behaviour.canary_s * behaviour.speed)


def _behaviour(simulation: Mapping[str, float]) -> Behaviour:
    return Behaviour(**{name: value for name, value in simulation.items() if name in _BEHAVIOUR})


def _repeated(boards: Sequence[inventory.Board], count: int) -> Iterator[inventory.Board]:
    for number in range(count):
        board, turn = boards[number % len(boards)], number // len(boards)
        yield replace(board, name=f"{board.name}-{turn + 1}") if turn else board


def _campaigns(targets: Sequence[str], work: Work, rng: np.random.Generator) -> dict[Campaign, list[Candidate]]:
    """Trials spread evenly over campaigns, and those of a campaign over targets."""
    campaigns = {}
    for number in range(work.campaigns):
        campaign = Campaign(f"campaign-{number + 1}")
        count = work.trials // work.campaigns + (number < work.trials % work.campaigns)
        candidates = random_candidates(campaign, "", count, rng, bad=work.bad, seconds=work.session_s)
        campaigns[campaign] = [
            replace(c, trial=replace(c.trial, target=targets[place % len(targets)]))
            for place, c in enumerate(candidates)
        ]
    return campaigns


def _faults(board: inventory.Board, horizon_s: float, rng: np.random.Generator) -> Iterator[Fault]:
    """Faults at random, as many an hour as the board's description says on average."""
    lasts_s = board.simulation.get("fault_s", _USUAL_FAULT_S)
    for name, kind in _PER_HOUR.items():
        per_h = board.simulation.get(name, 0.0)
        at_s = 0.0
        while per_h and (at_s := at_s + rng.exponential(3600 / per_h)) < horizon_s:
            strength = _SLOW_FACTOR if kind is FaultKind.SLOW else _STRIKES
            yield Fault(kind, board.name, at_s, float(rng.exponential(lasts_s)), strength)


def _check_faults(farm: inventory.Inventory, boards: Sequence[inventory.Board], horizon_s: float) -> None:
    per_h = sum(board.simulation.get(name, 0.0) for board in boards for name in _PER_HOUR)
    count = per_h * horizon_s / 3600
    if count > MOST_FAULTS:
        lasts = f"in the {horizon_s / 3600:.3g} hours that are simulated"
        raise InventoryError(
            f"{farm.source}: the boards must have at most {MOST_FAULTS:,} faults {lasts}: {count:,.0f}"
        )


def _check(farm: inventory.Inventory) -> None:
    known = (*_BEHAVIOUR, *_PER_HOUR, "fault_s")
    positive = ("speed", "canary_s", "heartbeat_s")
    problems: list[str] = []
    for place, board in enumerate(farm.boards):
        for name, value in board.simulation.items():
            where = f"{farm.source}: boards[{place}].simulation.{printable(name[:80])}"
            if name not in known:
                near = get_close_matches(name, known, 1) if len(problems) < MOST_PROBLEMS else ()
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                problems.append(f"{where}: unknown field, {hint}")
            elif not math.isfinite(value) or (name in positive and value < 1e-3) or value > 1e6:
                problems.append(f"{where}: must be a number from {0.001 if name in positive else 0:g} to 1e6: {value}")
    if len(problems) > MOST_PROBLEMS:
        problems[MOST_PROBLEMS:] = [f"{farm.source}: {len(problems) - MOST_PROBLEMS} more of this kind"]
    if problems:
        raise InventoryError("\n".join(problems))

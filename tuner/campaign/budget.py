"""Where the next batch shortens the network most.

The rule is that of Ansor's task scheduler (Zheng et al., OSDI 2020, section 6): the layer whose next batch should
save most of the network's time has the next turn. A cost model's forecast is the better estimate of what a batch saves;
without one, Ansor's guess is taken: in part what the last batch saved, in part that a layer's time could go on to fall
as fast as it would have to fall to reach zero with as many trials again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from int8tune.tuner.campaign.measuring import SLOWEST_OPS_PER_S

# The share of the past in the guess, as Ansor's authors set it.
PAST = 0.2


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a layer stands.

    Attributes:
        count: how often the network runs it.
        ops: operations of one call; a multiply and an add are two.
        best_s: seconds per call of its fastest trial, None where none works.
        trials: measured so far.
        batch: how many trials the next turn has.
        last_gain: the share of its time that the last batch saved.
        forecast: the share that a model expects the next batch to save, None where there is no model.
    """

    count: int
    ops: int
    best_s: float | None
    trials: int
    batch: int
    last_gain: float
    forecast: float | None


def expected_gain(standing: Standing) -> float:
    """The share of the layer's time that its next batch is expected to save."""
    if standing.forecast is not None:
        return standing.forecast
    return PAST * standing.last_gain + (1 - PAST) * standing.batch / max(standing.trials, standing.batch)


def expected_saving_s(standing: Standing) -> float:
    """Seconds that the next batch is expected to save in one run of the network."""
    # Where nothing works yet: no useful kernel is slower.
    call_s = standing.ops / SLOWEST_OPS_PER_S if standing.best_s is None else standing.best_s
    return standing.count * call_s * expected_gain(standing)


def most_promising(standings: Sequence[Standing]) -> int:
    """Position of the layer that has the next turn; of equal ones the first."""
    return max(range(len(standings)), key=lambda index: expected_saving_s(standings[index]))


def is_worth_a_batch(standing: Standing, min_gain: float) -> bool:
    """Whether a layer goes on: only where a model expects less than `min_gain` of it, it does not."""
    return standing.forecast is None or standing.forecast >= min_gain

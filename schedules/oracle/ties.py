"""Sums that are ties of the rounding rule in every channel and at every position, the border's too.

All products are 0, since all data or all weights are their zero point: what a channel sums is its bias. Kernels
multiply values as they are and correct for zero points later, so their own products may be as large as can be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.oracle.addition import JUST_TIED_STEPS, addend_of_ties
from int8tune.schedules.oracle.drills import TIES, Ties
from int8tune.schedules.oracle.exact_products import LongArray
from int8tune.schedules.oracle.reference import requantize
from int8tune.schedules.oracle.terms import (
    Terms,
    allowed_zero_points,
    assemble,
    bounds_of,
    is_per_channel,
    middles_of,
    random_tensors,
    ranges_of,
    rule_of,
)
from int8tune.schedules.workload import Workload

# Ends of a range.
LOWEST, HIGHEST = 0, 1
TIES_OF_ADDITION = Ties(0.25, (4 * JUST_TIED_STEPS,))


@dataclass(frozen=True, slots=True)
class _Case:
    """One set of ties, and how its products are none.

    Attributes:
        data: what all data are, of their range's ends; None: any, while weights are their zero point.
        far: weights are not s8 without their zero point.
    """

    which: int
    data: int | None = None
    far: bool = False

    def __str__(self) -> str:
        without = "no-weights" if self.data is None else f"{('lowest', 'largest')[self.data]}-data"
        return f"{('first', 'second', 'third')[self.which]}-ties-{without}{'-far-weights' if self.far else ''}"


def cases_of_ties(workload: Workload, seed: int) -> tuple[tuple[str, Operands], ...]:
    """Both sets of ties and, where a residual is added by the fixed rule, one for what that makes of the own output."""
    numerics = workload.numerics
    cases = [_Case(0), _Case(1, HIGHEST)]
    if numerics.data == "s8":
        # Products of two s8 are largest where both are lowest.
        cases += [_Case(1, LOWEST)]
    if numerics.weight_zero_point:
        # Weights that are s8 without their zero point may have code of their own.
        cases += [_Case(0, HIGHEST, far=True), _Case(1, HIGHEST, far=True)]
    if numerics.addition_rule == "fixed":
        cases += [_Case(2)]
    return tuple(
        (str(case), _made(workload, np.random.default_rng([seed, 10 + at]), case, seed))
        for at, case in enumerate(cases)
    )


def _made(workload: Workload, rng: np.random.Generator, case: _Case, seed: int) -> Operands:
    operands = _tied(workload, rng, case)
    if workload.numerics.residual is None:
        return operands
    sums = np.broadcast_to(operands.bias.astype(np.int64), workload.output_shape)
    own = requantize(workload, operands, sums).astype(np.int64)
    return replace(operands, residual=addend_of_ties(workload.numerics, operands, own, case.which, seed))


def _tied(workload: Workload, rng: np.random.Generator, case: _Case) -> Operands:
    ties = TIES[rule_of(workload)][case.which] if case.which < 2 else TIES_OF_ADDITION
    nothing, every = np.zeros((1, workload.out_channels), np.int64), np.ones(workload.out_channels)
    sums = np.resize(np.array(ties.sums), workload.out_channels)
    if not is_per_channel(workload) and ties.offset:
        sums = np.sign(sums) * abs(sums[0])  # there is one exception
    made = assemble(
        workload,
        _terms(workload, rng, case),
        nothing,
        ties.factor * every,
        sums,
        bounds_of(workload, rng),
        ties.offset * every,
    )
    if not made.exception.size:
        return made
    exception = np.abs(made.bias[: made.exception.size]) + np.int32(ties.exception)
    offsets = made.offset, np.full_like(made.offset, ties.other_offset)
    offset, exceptional = offsets if ties.exception else offsets[::-1]
    return replace(made, exception=exception, offset=offset, exception_offset=exceptional)


def _terms(workload: Workload, rng: np.random.Generator, case: _Case) -> Terms:
    data_ends, weight_ends, _ = ranges_of(workload)
    zero_points = middles_of(workload)
    data, weight = random_tensors(workload, rng)
    if case.far:
        zero_points[1] = weight_ends[LOWEST]
    if case.data is None:
        weight.fill(allowed_zero_points(workload, zero_points)[1])
    else:
        zero_points[0] = data_ends[case.data]
        data.fill(zero_points[0])
        if case.which == 1:
            weight.reshape(workload.out_channels, -1)[:] = _ends(workload, case.data)[:, None]
    return Terms(data, weight, *allowed_zero_points(workload, zero_points))


def _ends(workload: Workload, data: int) -> LongArray:
    """A weight for each channel, for the largest products with data at that end: lowest with lowest, else either."""
    ends = ranges_of(workload)[1]
    return np.resize(np.array(ends if data == HIGHEST else ends[:1]), workload.out_channels)

"""Operands that make wrong kernels show.

Random values alone pass kernels that lose a carry between two products or round ties the wrong way. Each case aims
extreme or fine-grained values at such faults, and moves its sums with the bias to where an 8-bit output reveals them:
near the middle of the output range, on a tie, or just outside a clamp bound. No case lets a kernel's int32 sums wrap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from int8tune.schedules.operands import DTYPES, Operands
from int8tune.schedules.oracle.addition import adversarial_addend
from int8tune.schedules.oracle.drills import DRILLS
from int8tune.schedules.oracle.exact_products import LongArray
from int8tune.schedules.oracle.reference import accumulate, requantize
from int8tune.schedules.oracle.terms import (
    RealArray,
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
from int8tune.schedules.oracle.ties import cases_of_ties
from int8tune.schedules.workload import Dense, Workload

# Output steps from the smallest to the largest sum of a channel. Many random sums crowd in the middle, so that few of
# them saturate; a few sums, or two alternating ones, must all stay within the output's 256 steps.
MANY_SUMS = 64
STEPS_OF_MANY, STEPS_OF_FEW = 300, 150
# Zero points near the middle of their range, yet neither 0 nor a power of two.
FROM_MIDDLE = 20
# Channels aim at outputs this far around the middle, each at another one, so that swapped channels show.
TARGET_STEPS = 40

# Neighbouring channels whose drills aim at the same position: as many as there are drills. The channels of a register
# are some such groups.
DRILLED_TOGETHER = 4
# Any error of one changes the output, and 1.5 and 1.25 also make ties.
UNIT_FACTORS = (1.5, 1.0, 1.25, 1.0)
# About as many products are not zero, so that nearly all sums of them stay within the output's 256 steps.
UNIT_PRODUCTS = 240


def adversarial_operands(workload: Workload, seed: int) -> tuple[tuple[str, Operands], ...]:
    """Named sets of operands, always the same ones for a seed: ten, and more where a layer's numbers ask for them.

    The first has random values and middling zero points, like a trained layer, and is the one to time.
    """
    cases = _sums_of_products(workload, seed)
    if workload.numerics.residual is not None:
        cases = tuple((name, _with_residual(workload, case, at, seed)) for at, (name, case) in enumerate(cases))
    return (*cases, *cases_of_ties(workload, seed))


def _sums_of_products(workload: Workload, seed: int) -> tuple[tuple[str, Operands], ...]:
    cases: tuple[tuple[str, Operands], ...] = (
        ("random", _random(workload, np.random.default_rng([seed, 0]))),
        ("min-min", _extreme(workload, np.random.default_rng([seed, 1]), False, False, 0)),
        ("max-max", _extreme(workload, np.random.default_rng([seed, 2]), True, True, 1)),
        ("min-max", _extreme(workload, np.random.default_rng([seed, 3]), False, True, 2)),
        ("max-min", _extreme(workload, np.random.default_rng([seed, 4]), True, False, 3)),
        ("alternating", _alternating(workload, np.random.default_rng([seed, 5]))),
        ("random-end-zero-points", _random_end(workload, np.random.default_rng([seed, 6]))),
        ("units-high-zero-points", _units(workload, np.random.default_rng([seed, 7]), far=False)),
    )
    if workload.numerics.weight_zero_point:
        # Weights that are s8 without their zero point may have code of their own.
        cases = (
            *cases,
            ("units-far-weight", _units(workload, np.random.default_rng([seed, 8]), far=True)),
            ("ends-middle-weight-zero-point", _ends(workload, np.random.default_rng([seed, 9]))),
        )
    return cases


def _with_residual(workload: Workload, operands: Operands, index: int, seed: int) -> Operands:
    sums = accumulate(workload, operands.data, operands.weight, operands.data_zero_point, operands.weight_zero_point)
    own = requantize(workload, operands, sums + operands.bias).astype(np.int64)
    return replace(operands, residual=adversarial_addend(workload.numerics, operands, own, index, seed))


def _random(workload: Workload, rng: np.random.Generator) -> Operands:
    zero_points = [int(point + rng.integers(-20, 21)) for point in middles_of(workload)]
    data, weight = random_tensors(workload, rng)
    if workload.numerics.weight == "s8" and not workload.numerics.weight_zero_point:
        # Symmetric weights have no -128, and a kernel may be slower where they do.
        weight = np.maximum(weight, np.int8(-127))
    terms = Terms(data, weight, *allowed_zero_points(workload, zero_points))
    return _spread(workload, terms, rng, STEPS_OF_MANY, ties=False)


def _random_end(workload: Workload, rng: np.random.Generator) -> Operands:
    """Random values with zero points at an end: the data's makes the products in the border as large as can be."""
    data, weight, output = ranges_of(workload)
    zero_points = [data[1], weight[0], output[0]]
    terms = Terms(*random_tensors(workload, rng), *allowed_zero_points(workload, zero_points))
    return _spread(workload, terms, rng, STEPS_OF_MANY, ties=True)


def _ends(workload: Workload, rng: np.random.Generator) -> Operands:
    """Smallest and largest values at random; the only zero point that leaves s8 of all weights, the largest of data."""
    data, weight, _ = ranges_of(workload)
    middles = middles_of(workload)
    terms = Terms(
        rng.choice(data, workload.data_shape).astype(DTYPES[workload.numerics.data]),
        rng.choice(weight, workload.weight_shape).astype(DTYPES[workload.numerics.weight]),
        *allowed_zero_points(workload, [data[1], middles[1], middles[2] - FROM_MIDDLE]),
    )
    return _spread(workload, terms, rng, STEPS_OF_MANY, ties=False)


def _extreme(workload: Workload, rng: np.random.Generator, data_max: bool, weight_max: bool, drill: int) -> Operands:
    """Constant tensors, with zero points at the other end: no sum of products is further from zero."""
    data, weight, _ = ranges_of(workload)
    # Far from 0 on both sides: large values that wrap show only then.
    output_zero_point = middles_of(workload)[2] + (-FROM_MIDDLE, FROM_MIDDLE)[drill % 2]
    zero_points = [data[not data_max], weight[not weight_max], output_zero_point]
    terms = Terms(
        np.full(workload.data_shape, data[data_max], DTYPES[workload.numerics.data]),
        np.full(workload.weight_shape, weight[weight_max], DTYPES[workload.numerics.weight]),
        *allowed_zero_points(workload, zero_points),
    )
    return _drilled(workload, terms, rng, drill)


def _alternating(workload: Workload, rng: np.random.Generator) -> Operands:
    """Largest and smallest values in turn along the reduction: in phase, the products add up; out of phase, their pairs
    are as negative as can be. Neighbouring positions and channels have opposite phases.
    """
    data, weight, _ = ranges_of(workload)
    data_turns, weight_turns = _phases(workload)
    terms = Terms(
        np.where(data_turns % 2 == 0, data[1], data[0]).astype(DTYPES[workload.numerics.data]),
        np.where(weight_turns % 2 == 0, weight[1], weight[0]).astype(DTYPES[workload.numerics.weight]),
        *allowed_zero_points(workload, [middle - FROM_MIDDLE for middle in middles_of(workload)]),
    )
    return _spread(workload, terms, rng, STEPS_OF_FEW, ties=True)


def _phases(workload: Workload) -> tuple[LongArray, LongArray]:
    """Numbers whose parity alternates along the reduction, for data and weights."""
    data = np.ogrid[tuple(slice(extent) for extent in workload.data_shape)]
    weight = list(np.ogrid[tuple(slice(extent) for extent in workload.weight_shape)])
    if not isinstance(workload, Dense):
        weight[1] = weight[1] * workload.window.dilation[0]
        weight[2] = weight[2] * workload.window.dilation[1]
    return np.asarray(sum(data)), np.asarray(sum(weight))


def _units(workload: Workload, rng: np.random.Generator, far: bool) -> Operands:
    """Values a step or two from their zero points, in sums fine enough to show an error of one anywhere.

    Args:
        far: one weight is as far from the zero point as can be.
    """
    zero_points = allowed_zero_points(workload, [high for _, high in ranges_of(workload)])
    weight = (zero_points[1] - _unit_weights(workload, rng)).astype(DTYPES[workload.numerics.weight])
    if far:
        weight.flat[0] = ranges_of(workload)[1][0]
    data = (zero_points[0] - _unit_data(workload, rng)).astype(DTYPES[workload.numerics.data])
    terms = Terms(data, weight, *zero_points)
    factors = np.resize(UNIT_FACTORS if is_per_channel(workload) else UNIT_FACTORS[:1], workload.out_channels)
    sums = _sums(workload, terms)
    return _aimed(workload, terms, sums, _median(sums), factors, rng)


def _unit_data(workload: Workload, rng: np.random.Generator) -> LongArray:
    """Steps of 0 to 2. For tails that are cut off and for positions that are swapped, the last channel is a ramp over
    the positions, never 0, and the very last value is larger.
    """
    steps: LongArray = rng.integers(0, 3, workload.data_shape)
    ramp = steps[..., -1]
    ramp[...] = 1 + np.arange(ramp.size).reshape(ramp.shape) % 3
    steps.flat[-1] = 20
    return steps


def _unit_weights(workload: Workload, rng: np.random.Generator) -> LongArray:
    """Steps of 0 to 2, of either sign where there is no zero point but negative weights; the last tap is never 0."""
    density = min(2 / 3, UNIT_PRODUCTS / workload.reduction)
    steps: LongArray = rng.integers(1, 3, workload.weight_shape) * (rng.random(workload.weight_shape) < density)
    steps.reshape(workload.out_channels, -1)[:, -1] = 1 + np.arange(workload.out_channels) % 2
    if workload.numerics.weight_zero_point:
        return steps
    if workload.numerics.weight == "s8":
        steps *= rng.choice([-1, 1], workload.weight_shape)
        return steps
    return -steps


def _spread(workload: Workload, terms: Terms, rng: np.random.Generator, steps: int, ties: bool) -> Operands:
    """Scale each channel's sums to `steps` outputs: by powers of two, for `ties`, in all or odd channels."""
    sums = _sums(workload, terms)
    smallest, largest = sums.min(axis=0), sums.max(axis=0)
    if len(sums) < MANY_SUMS:
        steps = min(steps, STEPS_OF_FEW)
    factors = steps / np.maximum(largest - smallest, steps / 4)
    tied = slice(None) if ties else slice(1, None, 2)
    factors[tied] = 2.0 ** np.floor(np.log2(factors[tied]))
    if not is_per_channel(workload):
        factors[:] = factors.min()
    return _aimed(workload, terms, sums, (smallest + largest) // 2, factors, rng)


def _aimed(
    workload: Workload,
    terms: Terms,
    sums: LongArray,
    centre: LongArray,
    factors: RealArray,
    rng: np.random.Generator,
) -> Operands:
    """Move each channel's `centre` to an output around the middle of what the clamp leaves."""
    low, high = bounds_of(workload, rng)
    offsets = rng.integers(-TARGET_STEPS, TARGET_STEPS + 1, workload.out_channels)
    outputs = (low + high) // 2 - terms.output_zero_point + offsets
    shifts = np.rint(outputs / factors).astype(np.int64) - centre
    return assemble(workload, terms, sums, factors, shifts, (low, high), _offsets(workload, rng))


def _offsets(workload: Workload, rng: np.random.Generator) -> RealArray:
    """Offsets of the fused and the fine rule: quarters, which make ties, and any."""
    if rule_of(workload) not in ("fused", "fine"):
        return np.zeros(workload.out_channels)
    quarters = rng.integers(0, 4, workload.out_channels) / 4
    return np.where(rng.integers(0, 2, workload.out_channels) == 0, quarters, rng.random(workload.out_channels))


def _drilled(workload: Workload, terms: Terms, rng: np.random.Generator, first: int) -> Operands:
    """Give each channel a factor and a sum that together test one step of the rounding rule."""
    drills = DRILLS[rule_of(workload)]
    factors, offsets = np.empty(workload.out_channels), np.empty(workload.out_channels)
    targets = np.empty(workload.out_channels, np.int64)
    rounds = len(drills) if is_per_channel(workload) else 1
    for channel in range(workload.out_channels):
        factors[channel], offsets[channel], values = drills[(first + channel % rounds) % len(drills)]
        targets[channel] = values[channel % len(values)]
    sums = _sums(workload, terms)
    return assemble(workload, terms, sums, factors, targets - _aims(sums), bounds_of(workload, rng), offsets)


def _aims(sums: LongArray) -> LongArray:
    """The sum of each channel that a drill aims at: its median or, in some, one at a corner of the image.

    Sums are others where a window reaches into the border, and kernels have code of their own there.
    """
    aims, fifths = _median(sums).copy(), np.arange(sums.shape[1]) // DRILLED_TOGETHER % 5
    for fifth, position in ((1, 0), (3, -1)):
        aims[fifths == fifth] = sums[position, fifths == fifth]
    return aims


def _sums(workload: Workload, terms: Terms) -> LongArray:
    """Sums without bias, one row per output position: [positions, OC]."""
    sums = accumulate(workload, terms.data, terms.weight, terms.data_zero_point, terms.weight_zero_point)
    return sums.reshape(-1, workload.out_channels)


def _median(sums: LongArray) -> LongArray:
    """The lower median of each column, which is one of its values."""
    middle = (len(sums) - 1) // 2
    columns = np.ascontiguousarray(sums.T, np.int32)
    columns.partition(middle, axis=1)
    return columns[:, middle].astype(np.int64)

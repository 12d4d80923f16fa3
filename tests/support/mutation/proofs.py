"""Proofs that a mutant which passes the adversarial suite computes what the kernel computes, for any operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from tvm.ir import TensorLoad

from int8tune.schedules.operands import DTYPES, Operands
from int8tune.schedules.oracle.addition import addend_of_ties
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import requantize
from int8tune.schedules.oracle.terms import Terms, allowed_zero_points, assemble, bounds_of, middles_of, ranges_of
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Workload
from tests.support.mutation.kernels import Cases, Node, Subject, replaced_by, verdict
from tests.support.mutation.nodes import like

Edit = Callable[[], Kernel]

# What a byte that nothing depends on may be: both ends, and bits in turn.
ANY_BYTES = (0x00, 0x7F, 0x55, 0x2A)
SEEDS = range(1, 5)


def why_equivalent(subject: Subject, kind: str, edit: Edit) -> str:
    """Why a mutant is no other kernel; empty where that is not proven."""
    if kind == "saturating product" and never_saturates(subject, edit()):
        return "no pair of its products saturates, not even the largest and the smallest"
    if kind == "wrong tail" and reads_what_nothing_uses(subject, edit):
        return "what it reads elsewhere is multiplied by zeros: any value may be there"
    return ""


def never_saturates(subject: Subject, mutant: Kernel) -> bool:
    """Whether products may be summed in 16 bits where the mutant does that.

    A sum of two products of a byte by a signed one is largest, and smallest, where the first is 255 and both others are
    at the same end. All errors then have the same sign: they can't cancel each other, and with a scale of 1 each shows.
    """
    return verdict(subject, mutant, cases=_largest_products(subject.workload)) == "right"


def reads_what_nothing_uses(subject: Subject, edit: Edit) -> bool:
    """Whether the value that the mutant reads from a wrong place changes nothing, whatever it is.

    A sum is a line of any one value that is read: where it is the same for two values, for weights that are drawn, its
    slope is zero but for one chance of 256 with each set of weights.
    """
    if not isinstance(edit, partial) or not isinstance(getattr(edit.args[3], "keywords", {}).get("old"), TensorLoad):
        return False
    cases = [case for seed in SEEDS for case in adversarial_operands(subject.workload, seed)]
    return all(
        verdict(subject, replaced_by(edit, partial(_always, value)), cases=cases) == "right" for value in ANY_BYTES
    )


def _always(value: int, node: Node) -> Node:
    return like(value, node)


def _largest_products(workload: Workload) -> Cases:
    """All data at its largest, which is its zero point: sums are 0, the border's products are as large as others."""
    (_, data), weights, _ = ranges_of(workload)
    middle = middles_of(workload)[1]
    # Weights that are s8 without their zero point may have code of their own.
    zero_points = (middle, *weights) if workload.numerics.weight_zero_point else (0,)
    return [
        (f"weights {weight}, zero point {zero_point}", _of_nothing(workload, data, weight, zero_point))
        for weight in weights
        for zero_point in zero_points
    ]


def _of_nothing(workload: Workload, data: int, weight: int, weight_zero_point: int) -> Operands:
    zero_points = allowed_zero_points(workload, [data, weight_zero_point, middles_of(workload)[2]])
    terms = Terms(
        np.full(workload.data_shape, data, DTYPES[workload.numerics.data]),
        np.full(workload.weight_shape, weight, DTYPES[workload.numerics.weight]),
        *zero_points,
    )
    nothing, every = np.zeros((1, workload.out_channels), np.int64), np.ones(workload.out_channels)
    bounds = bounds_of(workload, np.random.default_rng(0))
    operands = assemble(workload, terms, nothing, every, nothing[0], bounds, 0 * every)
    if workload.numerics.residual is None:
        return operands
    own = requantize(workload, operands, np.zeros(workload.output_shape, np.int64)).astype(np.int64)
    return Operands(
        **{name: getattr(operands, name) for name in operands.__slots__ if name != "residual"},
        residual=addend_of_ties(workload.numerics, operands, own, 0, 0),
    )

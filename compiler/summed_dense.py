"""Dense layers whose rounding no template's kernel has: one makes their sums, and an operator rounds these.

LiteRT's reference FULLY_CONNECTED multiplies sums by a number in binary64 and takes halves away from zero. Where the
rule `fused` has no numbers that give the same, and the two roundings of the rule `fixed` would move an output, this
does.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

import numpy as np

from int8tune.compiler.graph import Kind, Operator, Value, whole_numbers
from int8tune.compiler.naming import free_name
from int8tune.compiler.operators.word_sums import MOST_STEPS, SUMS, WordSums
from int8tune.compiler.rounding.staircases import ExactStaircase, FixedStaircase, LongArray, Staircase


def needs_sums(stairs: ExactStaircase, fixed: FixedStaircase) -> bool:
    """Whether the rule `fixed` moves an output of a sum that can occur, and the operator can round that sum."""
    largest = np.maximum(np.abs(stairs.least), np.abs(stairs.most))
    if not (largest * stairs.factor <= MOST_STEPS).all():
        return False
    is_known = stairs.is_simple and fixed.is_simple
    return not (is_known and np.array_equal(_reached(stairs), _reached(fixed)))


def _reached(stairs: Staircase) -> LongArray:
    """Thresholds; in place of those that no sum reaches, the first sum, or what is behind the last one."""
    return np.clip(stairs.thresholds, stairs.least[:, None], stairs.most[:, None] + 1)


def summed(
    operator: Operator, values: MutableMapping[str, Value], stairs: ExactStaircase, bias: LongArray
) -> tuple[Operator, Operator]:
    """The layer's sums, and what rounds them, in its place; the value between is a new one.

    Args:
        values: of the graph; the new one is added to them.
        bias: of each channel.
    """
    output = values[operator.outputs[0]]
    sums = free_name(f"{output.name}/sums", values)
    values[sums] = Value(sums, output.shape, "s32", whole_numbers())
    layer = replace(operator, inputs=operator.inputs[:2], outputs=(sums,), rule="float", clamp=None)
    rounded = {SUMS: WordSums.away(True, bias, np.broadcast_to(stairs.factor, len(bias)))}
    rounding = replace(operator, kind=Kind.WORD_SUMS, inputs=(sums,), rule="float", attributes=rounded)
    return layer, replace(rounding, operator="", layers=(output.name,))

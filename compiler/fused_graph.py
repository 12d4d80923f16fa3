"""Layers and additions of the fixed rule as ones of the rule `fused`, where that gives the same outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from int8tune.compiler.graph import Graph, Kind, Operator
from int8tune.compiler.layer_operands import addition_operands, dense_factor, known_operands
from int8tune.compiler.operators.base import every_stored, zero_point_of
from int8tune.compiler.quantized_layers import ModelLayer, quantized_layers
from int8tune.compiler.rounding.fine_rounding import FineRounding, fine_rounding
from int8tune.compiler.rounding.fused_rounding import ROUNDING, FusedRounding, fused_rounding
from int8tune.compiler.rounding.fused_sum import SUM, FusedSum, fused_sum
from int8tune.compiler.rounding.staircases import ExactStaircase, FixedStaircase, LongArray, Staircase
from int8tune.compiler.summed_dense import needs_sums, summed
from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import Operands


def with_fused_rules(graph: Graph) -> Graph:
    """The graph with every layer and addition of the fixed rule that the rule `fused` computes exactly as one of that.

    A layer that is changed has an addition in it that is, too; an addition may be changed in a layer that stays. Dense
    layers that neither rule computes exactly become sums that an operator rounds.

    Raises:
        ModelError: a layer is none that a workload can say, or a scale is out of the range of its rounding rule.
    """
    roundings: dict[int, _Rounding] = {}
    while inexact := _inexact(graph, roundings):
        # What was added in such a layer may now be added in another one.
        values = dict(graph.values)
        sums = {id(operator): summed(operator, values, stairs, bias) for operator, stairs, bias in inexact}
        graph = _changed(replace(graph, values=values), sums)
    changed: dict[int, tuple[Operator, ...]] = {}
    layers = _fixed_layers(graph)
    in_layers = {id(layer.addition) for layer in layers}
    for layer in layers:
        changed |= _fused_layer(graph, layer, roundings)
    for operator in graph.operators:
        if operator.kind is Kind.ADD and operator.rule == "fixed" and id(operator) not in in_layers:
            changed |= _fused_addition(graph, operator, operator.inputs[0], operator.inputs[1])
    return _changed(graph, changed)


def _changed(graph: Graph, changed: Mapping[int, tuple[Operator, ...]]) -> Graph:
    """The graph with other operators in the places of some, by their ids."""
    operators = (each for operator in graph.operators for each in changed.get(id(operator), (operator,)))
    return replace(graph, operators=tuple(operators))


@dataclass(frozen=True, slots=True)
class _Rounding:
    """What is known of an operator's rounding; the operator itself, so that no other one gets its id."""

    operator: Operator
    stairs: Staircase
    fused: FusedRounding | FineRounding | None


def _rounding(graph: Graph, layer: ModelLayer, known: dict[int, _Rounding]) -> _Rounding:
    key = id(layer.operator)
    if key not in known:
        stairs = _staircase(graph, layer)
        known[key] = _Rounding(layer.operator, stairs, fused_rounding(stairs) or fine_rounding(stairs))
    return known[key]


def _fixed_layers(graph: Graph) -> list[ModelLayer]:
    rounded = [layer for layer in quantized_layers(graph) if layer.workload.numerics.requantize is not None]
    return [layer for layer in rounded if layer.operator.rule == "fixed"]


def _inexact(graph: Graph, known: dict[int, _Rounding]) -> list[tuple[Operator, ExactStaircase, LongArray]]:
    """Operators that neither rule computes exactly, with what their rounding must give, and their biases."""
    found = []
    for layer in _fixed_layers(graph):
        if layer.operator.kind is Kind.DENSE and id(layer.operator) not in _fused_layer(graph, layer, known):
            stairs, operands = _rounding(graph, layer, known).stairs, known_operands(graph, layer)
            assert isinstance(stairs, ExactStaircase)
            fixed = FixedStaircase(stairs.low, stairs.high, stairs.least, stairs.most, *_multipliers(operands))
            if needs_sums(stairs, fixed):
                found.append((layer.operator, stairs, operands.bias.astype(np.int64)))
    return found


def _fused_layer(graph: Graph, layer: ModelLayer, known: dict[int, _Rounding]) -> dict[int, tuple[Operator, ...]]:
    """The layer's operators by what they take the place of; nothing where its addition must stay."""
    added: dict[int, tuple[Operator, ...]] = {}
    if layer.addition is not None:
        assert layer.residual is not None
        added = _fused_addition(graph, layer.addition, layer.operator.outputs[0], layer.residual)
        if not added:
            return {}
    found = _rounding(graph, layer, known).fused
    own = {} if found is None else {id(layer.operator): (_with(layer.operator, ROUNDING, found),)}
    return own | added


def _fused_addition(graph: Graph, addition: Operator, own: str, other: str) -> dict[int, tuple[Operator, ...]]:
    one, two, total = (graph.values[name] for name in (own, other, addition.outputs[0]))
    try:
        addend = addition_operands(addition, one, two, total)
    except OperandError:
        return {}  # its kernel's writer says why
    found = fused_sum(every_stored(one), every_stored(two), zero_point_of(one), addend)
    if found is None:
        return {}
    # Its factors are in this order; sums of the fixed rule have none.
    return {id(addition): (replace(_with(addition, SUM, found), inputs=(own, other)),)}


def _with(operator: Operator, name: str, value: FusedRounding | FineRounding | FusedSum) -> Operator:
    attributes: Mapping[str, Any] = {**operator.attributes, name: value}
    return replace(operator, rule=value.rule, attributes=attributes)


def _staircase(graph: Graph, layer: ModelLayer) -> Staircase:
    """What the layer's rounding must give, for sums that its weights can make."""
    operands = known_operands(graph, layer)
    ends = np.array([bound - operands.data_zero_point for bound in RANGES[layer.workload.numerics.data]])
    if layer.operator.kind is Kind.MATMUL:
        others = np.array(RANGES[layer.workload.numerics.weight]) - operands.weight_zero_point
        products = layer.workload.reduction * np.outer(ends, others)
        least, most = products.min(keepdims=True).reshape(1), products.max(keepdims=True).reshape(1)
    else:
        weight = operands.weight.reshape(layer.workload.out_channels, -1).astype(np.int64) - operands.weight_zero_point
        least, most = (
            choose(weight * ends[0], weight * ends[1]).sum(axis=1) + operands.bias
            for choose in (np.minimum, np.maximum)
        )
    if len(operands.multiplier) == 1:
        least, most = least.min(keepdims=True), most.max(keepdims=True)
    low, high = (bound - operands.output_zero_point for bound in (operands.clamp_low, operands.clamp_high))
    if layer.operator.kind is Kind.DENSE:
        return ExactStaircase(low, high, least, most, dense_factor(graph, layer))
    return FixedStaircase(low, high, least, most, *_multipliers(operands))


def _multipliers(operands: Operands) -> tuple[LongArray, LongArray]:
    return operands.multiplier.astype(np.int64), operands.shift.astype(np.int64)

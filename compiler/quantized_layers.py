"""The int8 layers of a quantized model: what templates compute, with residual additions fused."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import cast

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.network import Layer, Network
from int8tune.compiler.rounding.fused_rounding import ROUNDING
from int8tune.results.text import clipped
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.numerics import RANGES, DataType, Numerics, OutputType, Requantize, Residual
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload

WEIGHTED = (Kind.CONV2D, Kind.DEPTHWISE, Kind.DENSE)
"""The layers whose weights are constants."""

AGAIN = "again"
"""The attribute of an operator that says that it meets the weights of a layer of the file once more."""


@dataclass(frozen=True, slots=True)
class ModelLayer:
    """One layer of a model.

    Attributes:
        names: of the original model's layers that it computes.
        operator: of the graph, without the addition.
        addition: the residual addition that is fused into it, if there is one.
        times: how often the workload is computed in one run: for each pair of matrices, where both are computed.
    """

    names: tuple[str, ...]
    workload: Workload
    operator: Operator
    addition: Operator | None = None
    times: int = 1

    @property
    def macs(self) -> int:
        """Multiply-adds of one run of the model."""
        return self.times * self.workload.macs

    @property
    def file_macs(self) -> int:
        """Those that the file asks for: a layer of 16-bit data, which is computed as two of bytes, has its own once."""
        return 0 if self.operator.attributes.get(AGAIN) else self.macs

    @property
    def residual(self) -> str | None:
        """The name of the value that is added."""
        return _other_summand(self.addition, self.operator.outputs[0]) if self.addition else None


def quantized_layers(graph: Graph) -> tuple[ModelLayer, ...]:
    """The layers in the order in which they run.

    Raises:
        ModelError: a layer is none that a workload can say; the message names it.
    """
    fused = _residuals(graph)
    layers = []
    for operator in graph.operators:
        if operator.kind in (*WEIGHTED, Kind.MATMUL):
            addition = fused.get(operator.outputs[0])
            names = operator.layers + (addition.layers if addition else ())
            try:
                workload = _workload(graph, operator, addition)
                times = math.prod(graph.values[operator.outputs[0]].shape) // math.prod(workload.output_shape)
                layers.append(ModelLayer(names, workload, operator, addition, times))
            except WorkloadError as error:
                raise ModelError(f"{graph.name}: layer `{operator.layers[0]}` ({operator.operator}): {error}") from None
    return tuple(layers)


def network_of(graph: Graph) -> Network:
    """The distinct layers of a model as a network.

    Raises:
        ModelError: it has none.
    """
    network = layer_table(graph)
    if not network.layers:
        raise ModelError(f"{graph.name}: no layer of it is computed with 8-bit integers{_first_float(graph)}")
    return network


def layer_table(graph: Graph) -> Network:
    """The distinct layers of a model as a network, of which there may be none."""
    layers = quantized_layers(graph)
    same: dict[Workload, list[ModelLayer]] = {}
    for layer in layers:
        same.setdefault(layer.workload, []).append(layer)
    rows = tuple(
        Layer(tuple("; ".join(layer.names) for layer in each), sum(layer.times for layer in each), workload)
        for workload, each in same.items()
    )
    shape = graph.values[graph.inputs[0]].shape if graph.inputs else None
    return Network(graph.name, f"read from a model with {len(layers)} int8 layers", shape, rows)


def _first_float(graph: Graph) -> str:
    """The first operator that reads a constant and makes floats, as a model's that is not quantized do."""
    for operator in graph.operators:
        constants = any(graph.values[name].constant is not None for name in operator.inputs)
        if constants and graph.values[operator.outputs[0]].type == "f32":
            return f": `{clipped(operator.layers[0])}` ({operator.operator}) is f32"
    return ""


def _residuals(graph: Graph) -> dict[str, Operator]:
    """Additions that are fused, by the name of the convolution's output.

    The convolution that runs last computes the sum, of those whose output has no other use: it can wait for the other
    summand.
    """
    made_by = {name: index for index, operator in enumerate(graph.operators) for name in operator.outputs}
    uses = Counter(name for operator in graph.operators for name in operator.inputs) + Counter(graph.needed)
    fused = {}
    for addition in graph.operators:
        if addition.kind is not Kind.ADD or len(set(addition.inputs)) != 2:
            continue
        candidates = [name for name in addition.inputs if name in made_by and uses[name] == 1]
        for name in sorted(candidates, key=lambda name: made_by[name], reverse=True):
            if _fuses(graph, graph.operators[made_by[name]], name, addition):
                fused[name] = addition
                break
    return fused


def _fuses(graph: Graph, operator: Operator, name: str, addition: Operator) -> bool:
    """Whether an operator can add the other summand to its own output `name`."""
    names = name, _other_summand(addition, name), addition.outputs[0]
    own, residual, total = (graph.values[value] for value in names)
    return (
        operator.kind in WEIGHTED
        and (operator.rule == addition.rule or (operator.rule in ("fixed", "fine") and addition.rule == "fused"))
        and own.shape == residual.shape == total.shape
        and own.type == total.type
        and own.type in ("u8", "s8")
        and residual.type in ("u8", "s8")
        and residual.constant is None
    )


def _other_summand(addition: Operator, name: str) -> str:
    return next(other for other in addition.inputs if other != name)


def _workload(graph: Graph, operator: Operator, addition: Operator | None) -> Workload:
    data, weight, output = (graph.values[name] for name in (*operator.inputs[:2], operator.outputs[0]))
    numerics = _numerics(graph, operator, data, weight, output)
    if addition:
        numerics = replace(numerics, residual=_residual(graph, operator, addition, output))
    if operator.kind is Kind.MATMUL:
        rows, features = data.shape[-2:]
        return Dense(rows, features, output.shape[-1], numerics)
    if operator.kind is Kind.DENSE:
        features = weight.shape[1]
        return Dense(math.prod(data.shape) // features, features, weight.shape[0], numerics)
    return _convolution(operator, data, weight, numerics)


def _residual(graph: Graph, operator: Operator, addition: Operator, own: Value) -> Residual:
    other = graph.values[_other_summand(addition, own.name)]
    is_first = addition.rule == "float" and addition.inputs[0] == other.name
    has_own_rule = operator.rule == "fixed" and addition.rule == "fused"
    return Residual(cast(DataType, other.type), _narrows(addition, own), is_first, fused=has_own_rule)


def _convolution(operator: Operator, data: Value, weight: Value, numerics: Numerics) -> Workload:
    at = operator.attributes
    batch, height, width, channels = data.shape
    window = Window(tuple(weight.shape[1:3]), at["stride"], at["padding"], at["dilation"])  # type: ignore[arg-type]
    if operator.kind is Kind.DEPTHWISE:
        return DepthwiseConv2d(batch, height, width, channels, window, weight.shape[0] // channels, numerics)
    return Conv2d(batch, height, width, channels, weight.shape[0], window, at["groups"], numerics)


def _numerics(graph: Graph, operator: Operator, data: Value, weight: Value, output: Value) -> Numerics:
    assert weight.quantization is not None
    zero_points = set(weight.quantization.zero_point.tolist())
    if len(zero_points) > 1:
        raise ModelError(
            f"{graph.name}: layer `{operator.layers[0]}` ({operator.operator}): its weights have {len(zero_points)} "
            "zero points, a kernel takes one"
        )
    return Numerics(
        data=cast(DataType, data.type),
        weight=cast(DataType, weight.type),
        output=cast(OutputType, output.type),
        requantize=None if output.type == "s32" else _requantize(operator, weight.quantization.per_channel),
        weight_zero_point=zero_points != {0},
        clamp=_narrows(operator, output),
    )


def _requantize(operator: Operator, per_channel: bool) -> Requantize:
    rounding = operator.attributes.get(ROUNDING)
    return Requantize(operator.rule, per_channel, rounding is not None and rounding.has_exceptions)


def _narrows(operator: Operator, output: Value) -> bool:
    """Whether the bounds that the model asks for are within those of the type."""
    return operator.clamp is not None and operator.clamp != RANGES[output.type]

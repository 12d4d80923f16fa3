"""What keeps a model from being compiled, what of it is computed in float, and how much of its work both are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from int8tune.compiler.errors import MAX_FAULTS_SHOWN, ModelError, ObstacleError
from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.islands.island import exact_operators, float_operators, islands_of
from int8tune.compiler.network import Network
from int8tune.compiler.quantized_layers import network_of, quantized_layers
from int8tune.results.text import clipped, printable


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Operators of one kind that nothing computes, or no integer kernel, for one reason.

    Attributes:
        operator: what the file calls it, such as `LayerNormalization`.
        layers: names of them, in the order in which they run.
    """

    operator: str
    reason: str
    layers: tuple[str, ...]


def obstacles(graph: Graph) -> tuple[Obstacle, ...]:
    """Every kind of obstacle, the most frequent first."""
    found: dict[tuple[str, str], list[str]] = {}
    for operator in graph.operators:
        if operator.kind is Kind.OTHER:
            layers = found.setdefault((operator.operator, str(operator.attributes["reason"])), [])
            layers.append(operator.layers[0] if operator.layers else operator.outputs[0])
    return _sorted(found)


def float_parts(graph: Graph) -> tuple[Obstacle, ...]:
    """Every kind of operator that is computed in float, and why; the most frequent first."""
    found: dict[tuple[str, str], list[str]] = {}
    for island in islands_of(graph):
        for part in island.parts:
            found.setdefault((part.operator, part.reason), []).append(part.layer)
    return _sorted(found)


def obstacle_lines(graph: Graph) -> list[str]:
    """A line that says how many operators can't be compiled and how much that leaves, then one for each kind."""
    found = obstacles(graph)
    count = sum(len(obstacle.layers) for obstacle in found)
    if not count:
        return []
    in_file = sum(bool(each.operator) for each in graph.operators)
    first = f"{graph.name}: {count:,} of {in_file:,} operators can't be compiled"
    share = int8_share(graph)
    if share is not None:
        first += f"; int8 layers are {share:.1%} of its multiply-adds"
    return [printable(first), *_kinds(found)]


def float_lines(graph: Graph) -> list[str]:
    """A line that says how many operators are computed in float and how much that leaves, then one for each kind."""
    found = float_parts(graph)
    if not found:
        return []
    first = exactness(exact_operators(graph), float_operators(graph), int8_share(graph))
    return [f"{graph.name}: {first}", *_kinds(found)]


def exactness(integers: int, floats: Mapping[str, int], share: float | None) -> str:
    """How much of a model is exact, in words.

    Args:
        integers: operators that integer kernels compute, bit for bit.
        floats: how many of each operator are computed in float.
        share: int8 layers', of the multiply-adds.
    """
    first = f"{integers:,} operators are exact integers, {sum(floats.values()):,} are computed in float"
    return first if share is None else f"{first}; int8 layers are {share:.1%} of the multiply-adds"


def refuse_obstacles(graph: Graph) -> None:
    """Raise where something keeps the model from being compiled.

    Raises:
        ObstacleError: with all that keeps it, in several lines.
    """
    if lines := obstacle_lines(graph):
        raise ObstacleError("\n".join(lines))


def obstructed_network_of(graph: Graph) -> Network:
    """The distinct layers of a model, whatever keeps the rest of it from being compiled.

    Raises:
        ModelError: it has none: with all that keeps it from being compiled, if something does.
    """
    if not quantized_layers(graph):
        refuse_obstacles(graph)
        if lines := float_lines(graph):
            raise ModelError("\n".join([f"{graph.name}: no layer of it is computed with 8-bit integers", *lines[1:]]))
    return network_of(graph)


def int8_share(graph: Graph) -> float | None:
    """The share of a model's multiply-adds that int8 layers have; None where it has none at all.

    Counted besides are products and convolutions in float, or that nothing computes; of recurrent ones, one step.
    """
    layers = sum(layer.file_macs for layer in quantized_layers(graph))
    others = sum(_macs(graph.values, operator) for operator in graph.operators if operator.kind is Kind.OTHER)
    others += sum(island.macs for island in islands_of(graph))
    return layers / (layers + others) if layers + others else None


def _sorted(found: Mapping[tuple[str, str], Sequence[str]]) -> tuple[Obstacle, ...]:
    made = [Obstacle(*key, tuple(layers)) for key, layers in found.items()]
    return tuple(sorted(made, key=lambda obstacle: -len(obstacle.layers)))


def _kinds(found: Sequence[Obstacle]) -> list[str]:
    lines = [_line(each) for each in found[:MAX_FAULTS_SHOWN]]
    if len(found) > MAX_FAULTS_SHOWN:
        lines.append(f"and {len(found) - MAX_FAULTS_SHOWN:,} more kinds")
    return [printable(line) for line in lines]


def _line(obstacle: Obstacle) -> str:
    first = f"`{clipped(obstacle.layers[0])}`"
    where = first if len(obstacle.layers) == 1 else f"the first is {first}"
    return f"{len(obstacle.layers):,} {clipped(obstacle.operator)}: {obstacle.reason}; {where}"


def _macs(values: Mapping[str, Value], operator: Operator) -> int:
    count = _COUNTS.get(operator.operator)
    inputs = [values[name] for name in operator.inputs if name in values]
    if count is None or len(inputs) < 2 or operator.outputs[0] not in values:
        return 0
    return count(inputs, values[operator.outputs[0]])


def _size(value: Value) -> int:
    return math.prod(value.shape)


def _product(inputs: list[Value], output: Value) -> int:
    return _size(output) * (inputs[0].shape[-1] if inputs[0].shape else 1)


def _convolution(inputs: list[Value], output: Value) -> int:
    return _size(output) * _size(inputs[1]) // max(inputs[1].shape[:1] or (1,))


def _depthwise(inputs: list[Value], output: Value) -> int:
    return _size(output) * math.prod(inputs[1].shape[1:3])


def _transposed_of_onnx(inputs: list[Value], _output: Value) -> int:
    return _size(inputs[0]) * _size(inputs[1]) // max(inputs[1].shape[:1] or (1,))


def _transposed_of_tflite(inputs: list[Value], _output: Value) -> int:
    return _size(inputs[-1]) * _size(inputs[1]) // max(inputs[1].shape[-1:] or (1,))


def _recurrent(inputs: list[Value], _output: Value) -> int:
    return sum(_size(value) for value in inputs if value.constant is not None and len(value.shape) > 1)


_COUNTS: dict[str, Callable[[list[Value], Value], int]] = {
    **dict.fromkeys(("MatMul", "Gemm", "QLinearMatMul", "QGemm", "BATCH_MATMUL", "FULLY_CONNECTED"), _product),
    **dict.fromkeys(("Conv", "QLinearConv", "CONV_2D", "CONV_3D"), _convolution),
    "DEPTHWISE_CONV_2D": _depthwise,
    "ConvTranspose": _transposed_of_onnx,
    "TRANSPOSE_CONV": _transposed_of_tflite,
    **dict.fromkeys(("LSTM", "GRU", "RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF"), _recurrent),
}

"""Channels of a tensor made alike: one that is small beside the others has few of the 256 levels.

Cross-layer equalization (Nagel et al., Data-free quantization through weight equalization and bias correction, ICCV
2019): a channel is multiplied where it is made and divided where it is read. That changes nothing, as long as all in
between is a Relu, an addition, or a pool. Theirs makes ranges of weights alike. Weights have a scale for each output
channel here, so what is made alike is the data; how far, that is where the estimated error of the readers is least.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.layer_samples import groups_of
from int8tune.quantize.prepared import set_initializer
from int8tune.quantize.ranges import TensorRange
from int8tune.quantize.sets import Sets
from int8tune.quantize.tensors import initializer_arrays, int_attribute
from int8tune.quantize.weights import HIGHEST, Layer, layers_of

Array = npt.NDArray[Any]

# Operators through which a positive factor of a channel goes unchanged; all their inputs have the same channels.
_HOMOGENEOUS = frozenset({"Relu", "Add", "Sum", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
# How far a channel's range is brought to that of all: 1 is whole. With each, how much the readers' weights count.
_SHARES = (0.25, 0.5, 0.75, 1.0)
_WEIGHT_SHARES = (0.0, 0.5, 1.0)
MOST_FACTOR = 64.0
_LEVELS = 255

# A factor is used where the estimated error becomes less than this share of what it was.
_WORTH_IT = 0.8


@dataclass(slots=True)
class Group:
    """Tensors whose channels have the same factors.

    Attributes:
        makers: layers whose output channels are these.
        readers: layers whose input channels are these, by the tensor that they read.
        stored: the tensors that are quantized; not those in front of a Relu, which becomes a part of their maker.
    """

    tensors: list[str]
    makers: list[Layer] = field(default_factory=list)
    readers: list[tuple[str, Layer]] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)


def equalized(proto: Any, ranges: Mapping[str, TensorRange]) -> tuple[Any, dict[str, Array]]:
    """A model with the same outputs whose channels are more alike, and the factors of each tensor that changed.

    Args:
        proto: a prepared float model.
        ranges: of its tensors; minimum and maximum of each channel count.
    """
    import onnx

    copied = onnx.ModelProto()
    copied.CopyFrom(proto)
    arrays = initializer_arrays(copied.graph)
    factors: dict[str, Array] = {}
    for group in _groups(copied.graph, arrays):
        found = _factors(group, ranges, arrays)
        if found is None:
            continue
        _apply(group, found, arrays)
        factors.update(dict.fromkeys(group.tensors, found))
    for layer in layers_of(copied.graph):
        for name in (name for name in layer.node.input[1:] if name in arrays):
            set_initializer(copied.graph, name, arrays[name])
    return copied, factors


def _groups(graph: Any, arrays: Mapping[str, Array]) -> list[Group]:
    """Groups that can have factors: every operator that makes or reads one of their tensors lets them through."""
    layers = {layer.node.name: layer for layer in layers_of(graph) if _is_usable(layer, graph)}
    sets = Sets()
    blocked = {value.name for value in (*graph.input, *graph.output)}
    for node in graph.node:
        data = [name for name in node.input if name and name not in arrays]
        if node.name in layers:
            continue
        if node.op_type in _HOMOGENEOUS and len(data) == len(node.input):
            for name in data:
                sets.join(name, node.output[0])
        elif node.op_type == "Flatten" and _keeps_channels(graph, node):
            sets.join(data[0], node.output[0])
        else:
            blocked.update(data, node.output)
    for layer in layers.values():
        sets.add(layer.node.input[0])
        sets.add(layer.node.output[0])
    members: dict[str, Group] = {}
    for name in sets.names:
        members.setdefault(sets.root(name), Group([])).tensors.append(name)
    for layer in layers.values():
        members[sets.root(layer.node.output[0])].makers.append(layer)
        members[sets.root(layer.node.input[0])].readers.append((layer.node.input[0], layer))
    only_relu = _read_by_relu_alone(graph)
    for group in members.values():
        group.stored = [name for name in group.tensors if name not in only_relu]
    return [
        group
        for group in members.values()
        if group.makers and group.readers and not blocked & set(group.tensors) and _agree(group, arrays)
    ]


def _read_by_relu_alone(graph: Any) -> set[str]:
    readers = defaultdict(set)
    for node in graph.node:
        for name in node.input:
            readers[name].add(node.op_type)
    return {name for name, kinds in readers.items() if kinds == {"Relu"}}


def _is_usable(layer: Layer, graph: Any) -> bool:
    """Whether nobody else reads a layer's weights, and its channels can be scaled: no MatMul of more than two axes."""
    constants = list(layer.node.input[1:])
    read = sum(name in constants for node in graph.node for name in node.input)
    groups = groups_of(layer)
    is_plain = layer.node.op_type == "Conv" or (
        layer.node.op_type == "Gemm" and not int_attribute(layer.node, "transA", 0)
    )
    return is_plain and read == len(constants) and (groups == 1 or _is_depthwise(layer, graph))


def _is_depthwise(layer: Layer, graph: Any) -> bool:
    """Whether each output channel reads the input channel of its own number alone."""
    shape = next(tensor.dims for tensor in graph.initializer if tensor.name == layer.weight)
    return bool(layer.node.op_type == "Conv" and shape[1] == 1 and groups_of(layer) == shape[0])


def _keeps_channels(graph: Any, node: Any) -> bool:
    """Whether a Flatten joins the channels with axes of one value alone."""
    info = next((value for value in graph.value_info if value.name == node.input[0]), None)
    if info is None or int_attribute(node, "axis", 1) != 1:
        return False
    return all(dim.dim_value == 1 for dim in info.type.tensor_type.shape.dim[2:])


def _agree(group: Group, arrays: Mapping[str, Array]) -> bool:
    made = {arrays[layer.weight].shape[layer.axis] for layer in group.makers}
    read = {_by_input(layer, arrays[layer.weight]).shape[1] for _, layer in group.readers}
    return len(made | read) == 1


def _by_input(layer: Layer, weight: Array) -> Array:
    """Weights as [output channels, input channels, taps]; of a depthwise layer [1, channels, taps]."""
    rows = np.moveaxis(weight, layer.axis, 0)
    if layer.node.op_type == "Conv" and groups_of(layer) > 1:
        return rows.reshape(1, len(rows), -1)
    return rows.reshape(*rows.shape[:2], -1)


def _factors(group: Group, ranges: Mapping[str, TensorRange], arrays: Mapping[str, Array]) -> Array | None:
    """The factors of the least estimated error among some families of them; None where they bring little."""
    if any(name not in ranges or not ranges[name].channel_minimum for name in group.stored):
        return None
    spans = {name: _spans(ranges[name]) for name in group.stored}
    largest = np.max(list(spans.values()), axis=0)
    if not largest.max() > 0:
        return None
    largest = np.maximum(largest, largest.max() * 1e-6)
    error = _error_of(group, spans, ranges, arrays)
    unchanged = error(np.ones_like(largest))
    candidates = list(_candidates(group, largest, arrays))
    errors = [error(each) for each in candidates]
    best = int(np.argmin(errors))
    return candidates[best] if errors[best] < unchanged * _WORTH_IT else None


def _candidates(group: Group, largest: Array, arrays: Mapping[str, Array]) -> Iterable[Array]:
    weights = [_by_input(layer, arrays[layer.weight]) for _, layer in group.readers]
    dense = [np.abs(each).max(axis=(0, 2)) for each in weights if len(each) > 1]
    read = np.max(dense, axis=0) if dense else np.ones_like(largest)
    read = np.maximum(read, max(read.max() * 1e-6, 1e-30))
    for share in _SHARES:
        for weight_share in _WEIGHT_SHARES if dense else (0.0,):
            logs = -share * np.log(largest) + weight_share * (1 - share) * np.log(read)
            factors = np.exp(logs - logs.mean())
            yield np.clip(factors, 1 / MOST_FACTOR, MOST_FACTOR)


def _error_of(
    group: Group,
    spans: Mapping[str, Array],
    ranges: Mapping[str, TensorRange],
    arrays: Mapping[str, Array],
) -> Callable[[Array], float]:
    """The expected squared error of the readers' outputs, as a function of the factors.

    Rounding errors of data and of weights are a twelfth of their step's square, and independent of each other. Squares
    of a channel's values are taken to be the same share of its range's square in each.
    """
    by_tensor = defaultdict(list)
    for name, layer in group.readers:
        by_tensor[name].append(_by_input(layer, arrays[layer.weight]).astype(np.float64))

    energy_of_all = sum((weight**2).sum(axis=(0, 2)) for weights in by_tensor.values() for weight in weights)

    def error(factors: Array) -> float:
        total = 0.0
        for name, span in spans.items():
            each = ranges[name]
            step = (span * factors).max() / _LEVELS
            weights = by_tensor.get(name, [])
            if not weights:
                # An addition's operand, whose error reaches the readers behind it.
                total += step**2 / 12 * (energy_of_all / factors**2).sum()
            power = (each.mean**2 + each.deviation**2) / max(1e-30, (span**2).mean())
            for weight in weights:
                energy = (weight**2).sum(axis=(0, 2)) / factors**2
                total += step**2 / 12 * energy.sum()
                steps = np.abs(weight / factors[None, :, None]).max(axis=(1, 2)) / HIGHEST
                squares = power * (span * factors) ** 2
                if len(weight) > 1:
                    total += (steps**2).sum() / 12 * weight.shape[2] * squares.sum()
        return float(total)

    return error


def _spans(each: TensorRange) -> Array:
    """How wide the range of each channel is, with zero in it."""
    low = np.minimum(np.asarray(each.channel_minimum), 0)
    return np.asarray(np.maximum(np.asarray(each.channel_maximum), 0) - low)


def _apply(group: Group, factors: Array, arrays: dict[str, Array]) -> None:
    for layer in group.makers:
        weight = arrays[layer.weight]
        shape = [1] * weight.ndim
        shape[layer.axis] = -1
        arrays[layer.weight] = weight * factors.reshape(shape)
        for name in layer.node.input[2:]:
            arrays[name] = arrays[name] * factors
    for _, layer in group.readers:
        weight = arrays[layer.weight]
        is_depthwise = layer.node.op_type == "Conv" and groups_of(layer) > 1
        axis = 0 if is_depthwise else 1 - layer.axis
        shape = [1] * weight.ndim
        shape[axis] = -1
        arrays[layer.weight] = weight / factors.reshape(shape)

"""Channels of what dense layers read made alike, where the operator before them can take a factor of each channel.

SmoothQuant (Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models, ICML
2023): channel j of the data is divided by max|data j|^A / max|weights j|^(1 - A), and the weights that read it are
multiplied by that. Nothing changes in float; few large channels, as LayerNormalization makes them, then leave levels
for the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.prepared import set_initializer
from int8tune.quantize.samples.base import Batch
from int8tune.quantize.session import run_session, start_session
from int8tune.quantize.tensors import initializer_array, initializer_arrays, int_attribute
from int8tune.quantize.weights import Layer, layers_of

Array = npt.NDArray[Any]

# How far a channel's factor may be from the geometric mean of all.
MOST_FACTOR = 1024.0


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor that dense layers alone read.

    Attributes:
        readers: these layers.
        takers: operators and their inputs, constants of the channels, that a factor is multiplied into; layers too.
    """

    tensor: str
    readers: tuple[Layer, ...]
    takers: tuple[tuple[Any, int], ...]


def smoothed(
    model: FloatModel, batches: Callable[[], Iterator[Batch]], strength: float
) -> tuple[Any, dict[str, Array]]:
    """A model with the same outputs whose dense layers read channels that are more alike.

    Args:
        model: a prepared float model.
        batches: samples, which show how large the values of each channel are.
        strength: A, from 0, by the weights alone, to 1, by the data alone; the paper has 0.5.

    Returns:
        The model, and by which factors [channels] each of its tensors was divided; none where nothing can take them.
    """
    import onnx

    copied = onnx.ModelProto()
    copied.CopyFrom(model.proto)
    places = _places(copied.graph)
    largest = _largest(model, [place.tensor for place in places], batches)
    factors: dict[str, Array] = {}
    for place in places:
        found = _factors(largest[place.tensor], _weights_of(copied.graph, place.readers), strength)
        if found is None:
            continue
        for node, position in place.takers:
            axis = _channel_axis(node, initializer_array(copied.graph, node.input[position]), position)
            _multiply(copied.graph, node, position, 1 / found, axis)
        for layer in place.readers:
            _multiply(copied.graph, layer.node, 1, found, 1 - layer.axis)
        factors[place.tensor] = found
    return copied, factors


def _places(graph: Any) -> list[_Place]:
    arrays = initializer_arrays(graph)
    layers = {layer.node.name: layer for layer in layers_of(graph) if _is_dense(layer)}
    makers = {node.output[0]: node for node in graph.node}
    reads: Counter[str] = Counter(name for node in graph.node for name in node.input)
    reads.update(value.name for value in graph.output)
    by_tensor = defaultdict(list)
    for layer in layers.values():
        by_tensor[layer.node.input[0]].append(layer)
    found = []
    for tensor, readers in by_tensor.items():
        takers = _takers(tensor, makers, arrays, layers, reads) if reads[tensor] == len(readers) else None
        if takers is not None and all(_channels(arrays, layer) == _channels(arrays, readers[0]) for layer in readers):
            found.append(_Place(tensor, tuple(readers), tuple(takers)))
    return found


def _takers(
    tensor: str,
    makers: Mapping[str, Any],
    arrays: Mapping[str, Array],
    layers: Mapping[str, Layer],
    reads: Counter[str],
) -> list[tuple[Any, int]] | None:
    """Constants that factors of a tensor's last axis can be multiplied into; None where there are none."""
    node = makers.get(tensor)
    if node is None:
        return None
    constants = [number for number, name in enumerate(node.input) if name in arrays and arrays[name].ndim]
    if node.name in layers:
        is_plain = len(constants) == len(node.input) - 1
        return [(node, number) for number in constants] if is_plain else None
    if node.op_type == "LayerNormalization":
        is_last = int_attribute(node, "axis", -1) == -1 and constants == list(range(1, len(node.input)))
        return [(node, number) for number in constants] if is_last else None
    if node.op_type not in ("Mul", "Add", "Relu") or len(constants) != len(node.input) - 1:
        return None
    taken = [(node, number) for number in constants]
    if node.op_type == "Mul":
        return taken if _is_of_channels(arrays[node.input[constants[0]]]) else None
    if constants and not _is_of_channels(arrays[node.input[constants[0]]]):
        return None
    (before,) = (name for name in node.input if name not in arrays)
    others = _takers(before, makers, arrays, layers, reads) if reads[before] == 1 else None
    return None if others is None else [*taken, *others]


def _is_dense(layer: Layer) -> bool:
    attributes = {attribute.name: attribute for attribute in layer.node.attribute}
    return layer.node.op_type == "MatMul" or (
        layer.node.op_type == "Gemm"
        and all(name not in attributes or attributes[name].f == 1 for name in ("alpha", "beta"))
        and not int_attribute(layer.node, "transA", 0)
    )


def _channels(arrays: Mapping[str, Array], layer: Layer) -> int:
    return int(arrays[layer.weight].shape[1 - layer.axis])


def _is_of_channels(constant: Array) -> bool:
    """Whether a constant differs along the last axis alone, and has more than one axis' worth of values."""
    return bool(constant.ndim and constant.dtype == np.float32 and constant.size == constant.shape[-1] > 1)


def _channel_axis(node: Any, constant: Array | None, position: int) -> int:
    """The axis of a constant that counts the channels of what its operator makes."""
    assert constant is not None
    is_transposed = node.op_type == "Gemm" and position == 1 and int_attribute(node, "transB", 0)
    return 0 if is_transposed else constant.ndim - 1


def _largest(model: FloatModel, names: Sequence[str], batches: Callable[[], Iterator[Batch]]) -> dict[str, Array]:
    """The largest magnitude of each channel, the last axis, of some tensors."""
    if not names:
        return {}
    session = start_session(model.path, model.proto, names)
    found: dict[str, Array] = {}
    for batch in batches():
        for name, values in zip(names, run_session(model.path, session, names, batch), strict=True):
            seen = np.abs(values.reshape(-1, values.shape[-1])).max(axis=0)
            found[name] = np.maximum(found[name], seen) if name in found else seen
    return found


def _weights_of(graph: Any, readers: Sequence[Layer]) -> Array:
    """The largest magnitude of what reads each channel."""
    arrays = (initializer_array(graph, layer.weight) for layer in readers)
    rows = [
        np.abs(array).max(axis=layer.axis) for layer, array in zip(readers, arrays, strict=True) if array is not None
    ]
    return np.asarray(np.max(rows, axis=0))


def _factors(largest: Array, weights: Array, strength: float) -> Array | None:
    is_used = (largest > 0) & (weights > 0) & np.isfinite(largest)
    if not is_used.any():
        return None
    logs = np.zeros(len(largest))
    logs[is_used] = strength * np.log(largest[is_used]) - (1 - strength) * np.log(weights[is_used])
    logs[is_used] -= logs[is_used].mean()
    return np.clip(np.exp(logs), 1 / MOST_FACTOR, MOST_FACTOR)


def _multiply(graph: Any, node: Any, position: int, factors: Array, axis: int) -> None:
    """Multiply a constant of an operator along an axis; one that others read too is copied before."""
    name = node.input[position]
    values = initializer_array(graph, name)
    assert values is not None
    if sum(each == name for other in graph.node for each in other.input) > 1:
        tensor = graph.initializer.add()
        tensor.CopyFrom(next(each for each in graph.initializer if each.name == name))
        name = tensor.name = f"{name}.{node.name}"
        node.input[position] = name
    shape = [1] * values.ndim
    shape[axis] = -1
    set_initializer(graph, name, values * factors.reshape(shape))

"""Weights and biases of a QDQ model chosen anew, layer by layer, by what the quantized model before them computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.layer_samples import drawn_rows, groups_of, mean_row, views_of
from int8tune.quantize.least_squares import moments_of, rounded
from int8tune.quantize.options import Options
from int8tune.quantize.prepared import set_initializer
from int8tune.quantize.profiler import Report
from int8tune.quantize.samples.base import Batch
from int8tune.quantize.session import run_session, start_session
from int8tune.quantize.tensors import initializer_array, initializer_arrays
from int8tune.quantize.weights import Layer, layers_of

Array = npt.NDArray[Any]

MOST_ROWS = 2048
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class _Quantized:
    """A layer of a QDQ model.

    Attributes:
        data: the tensor that it reads.
        weight: the name of its weights, with their scales and zero points [outputs].
        bias: the name of its bias, with its scales [outputs]; empty for none.
    """

    data: str
    weight: str
    scales: Array
    zero_points: Array
    bias: str
    bias_scales: Array


def refined(
    model: FloatModel,
    quantized: Any,
    batches: Callable[[], Iterator[Batch]],
    options: Options,
    report: Report,
) -> Any:
    """Choose the weights and biases of a quantized model, in the order of its graph.

    Args:
        model: the prepared float model.
        quantized: the same in the form QDQ; it is changed.
        batches: a few samples, each time the same.
        options: whether weights are rounded by least squares, and whether a bias then takes up the mean error of its
            outputs (bias correction, Nagel et al., ICCV 2019).
    """
    arrays = initializer_arrays(model.proto.graph)
    layers = layers_of(model.proto.graph)
    means = _float_means(model, layers, batches)
    for number, layer in enumerate(layers):
        report("weights of layer", number + 1, len(layers))
        place = _place(layer, quantized.graph)
        weight = arrays[layer.weight]
        exact = views_of(layer, weight, means[layer.node.input[0]])
        if place is None or exact is None:
            continue
        bias = arrays.get(layer.node.input[2]) if len(layer.node.input) > 2 else None
        data = _values(model, quantized, place.data, batches)
        _refine(quantized.graph, layer, place, weight, bias, data, mean_row(exact, groups_of(layer)), options)
    return quantized


def _float_means(
    model: FloatModel, layers: Sequence[Layer], batches: Callable[[], Iterator[Batch]]
) -> dict[str, Array]:
    """The mean of all samples [1, ...] of what each layer reads in the float model."""
    inputs = {value.name for value in model.inputs}
    wanted = {layer.node.input[0] for layer in layers}
    names = sorted(wanted - inputs)
    session = start_session(model.path, model.proto, names)
    sums: dict[str, Array] = {}
    count = 0
    for batch in batches():
        values = dict(zip(names, run_session(model.path, session, names, batch), strict=True)) | dict(batch)
        count += len(batch[model.inputs[0].name])
        for name in wanted:
            sums[name] = sums.get(name, 0) + values[name].sum(axis=0, keepdims=True, dtype=np.float64)
    return {name: each / count for name, each in sums.items()}


def _refine(
    graph: Any,
    layer: Layer,
    place: _Quantized,
    weight: Array,
    bias: Array | None,
    data: Array,
    float_mean: Array,
    options: Options,
) -> None:
    groups = groups_of(layer)
    matrix = np.moveaxis(weight, layer.axis, 0)
    flat = matrix.reshape(groups, len(matrix) // groups, -1).astype(np.float64)
    stored = initializer_array(graph, place.weight)
    assert stored is not None
    zero_points = place.zero_points.reshape(*flat.shape[:2], 1)
    numbers = (np.moveaxis(stored, layer.axis, 0).reshape(flat.shape) - zero_points).astype(np.float64)
    scales = place.scales.reshape(flat.shape[:2]).astype(np.float64)
    mean_views, views = (
        views_of(layer, weight, each) for each in (data.mean(axis=0, keepdims=True, dtype=np.float64), data)
    )
    assert mean_views is not None
    assert views is not None
    mean = mean_row(mean_views, groups)
    if options.round_weights:
        limits = np.iinfo(stored.dtype)
        lowest, highest = limits.min - place.zero_points.max(), limits.max - place.zero_points.min()
        for group, rows in enumerate(drawn_rows(views, groups, MOST_ROWS, seed=0)):
            moments = moments_of(rows, mean[group] if options.bias_correction and place.bias else None)
            numbers[group] = rounded(flat[group], scales[group], moments, float(lowest), float(highest))
        whole = (numbers + zero_points).reshape(matrix.shape)
        set_initializer(graph, place.weight, np.moveaxis(whole, 0, layer.axis))
    if options.bias_correction and place.bias and bias is not None:
        exact = np.einsum("goi,gi->go", flat, float_mean)
        shift = exact - np.einsum("goi,gi->go", numbers * scales[..., None], mean)
        wanted = np.rint((bias.astype(np.float64) + shift.reshape(-1)) / place.bias_scales)
        set_initializer(graph, place.bias, np.clip(wanted, _INT32.min, _INT32.max))


def _place(layer: Layer, graph: Any) -> _Quantized | None:
    """Where a layer is in a QDQ model; None where its weights or its data are in float."""
    node = next((node for node in graph.node if node.name == layer.node.name), None)
    makers = {output: node for node in graph.node for output in node.output}
    if node is None or any(_kind(makers, name) != "DequantizeLinear" for name in node.input[:2]):
        return None
    weight = makers[node.input[1]].input
    stored, scales = (initializer_array(graph, name) for name in weight[:2])
    if stored is None or scales is None:
        return None
    zero_points = initializer_array(graph, weight[2])
    assert zero_points is not None
    outputs = stored.shape[layer.axis]
    bias = makers[node.input[2]].input if len(node.input) > 2 and node.input[2] in makers else ["", ""]
    bias_scales = initializer_array(graph, bias[1])
    return _Quantized(
        node.input[0],
        weight[0],
        np.broadcast_to(scales, (outputs,)),
        np.broadcast_to(zero_points.astype(np.int64), (outputs,)),
        bias[0],
        np.broadcast_to((np.ones(1) if bias_scales is None else bias_scales).astype(np.float64), (outputs,)),
    )


def _kind(makers: Mapping[str, Any], name: str) -> str:
    return str(makers[name].op_type) if name in makers else ""


def _values(model: FloatModel, proto: Any, name: str, batches: Callable[[], Iterator[Batch]]) -> Array:
    """A tensor over all samples; what it does not depend on is not run."""
    import onnx

    if name in {value.name for value in model.inputs}:
        return np.concatenate([batch[name] for batch in batches()])
    part = onnx.ModelProto()
    part.CopyFrom(proto)
    del part.graph.output[:]
    part.graph.output.append(onnx.ValueInfoProto(name=name))
    session = start_session(model.path, part)
    return np.concatenate([run_session(model.path, session, [name], batch)[0] for batch in batches()])

"""A float graph made ready to be quantized: what is no layer of its own is folded into one.

Tensors keep the names of the user's file; `gone` says where those are that no longer exist.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.errors import FloatModelError
from int8tune.quantize.float_model import FloatModel, one_line, shown
from int8tune.quantize.tensors import initializer_arrays, int_attribute

Array = npt.NDArray[Any]

# The oldest in which weights have a scale for each channel.
LEAST_OPSET = 13
_STANDARD_DOMAINS = ("", "ai.onnx")
_FOLDED_INTO = ("Conv", "Gemm")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph that computes what the user's does.

    Attributes:
        proto: an `onnx.ModelProto`.
        gone: the tensor that has taken the place of each one that no longer exists.
        folded: the operator that each one has become a part of, by their names.
    """

    proto: Any
    gone: dict[str, str]
    folded: dict[str, str]


def prepared(model: FloatModel) -> Prepared:
    """Raise the version of a model's operators, make its constants initializers, and fold BatchNormalization.

    Raises:
        FloatModelError: its operators have a version that can't be raised.
    """
    import onnx

    proto = _with_opset(model)
    constants = {tensor.name for tensor in proto.graph.initializer}
    for value in [value for value in proto.graph.input if value.name in constants]:
        proto.graph.input.remove(value)
    _move_constants(proto.graph)
    gone, folded = _fold_batch_normalizations(proto.graph)
    for node in proto.graph.node:
        # Scales are found by the names of the operators that read them.
        node.name = node.name or node.output[0]
    try:
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except Exception as error:  # the inference's own classes
        raise FloatModelError(f"{shown(model.path)}: shapes can't be inferred: {one_line(error)}") from None
    return Prepared(proto, gone, folded)


def _with_opset(model: FloatModel) -> Any:
    import onnx
    from onnx import version_converter

    opset = next((each.version for each in model.proto.opset_import if each.domain in _STANDARD_DOMAINS), 0)
    if opset < LEAST_OPSET:
        try:
            return version_converter.convert_version(model.proto, LEAST_OPSET)
        except Exception as error:  # the converter's own classes
            what = f"its operators of opset {opset} can't be raised to {LEAST_OPSET}"
            raise FloatModelError(f"{shown(model.path)}: {what}: {one_line(error)}") from None
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    return proto


def _move_constants(graph: Any) -> None:
    """Constant nodes with a tensor become initializers of the same name."""
    outputs = {value.name for value in graph.output}
    for node in [node for node in graph.node if node.op_type == "Constant" and node.output[0] not in outputs]:
        value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
        if value is None:
            continue
        tensor = graph.initializer.add()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
        graph.node.remove(node)


def _fold_batch_normalizations(graph: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Multiply BatchNormalization into the layer before it; what is gone and what is folded, as `Prepared` has it."""
    arrays = initializer_arrays(graph)
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(value.name for value in graph.output)
    makers = {node.output[0]: node for node in graph.node if node.op_type in _FOLDED_INTO}
    gone: dict[str, str] = {}
    folded: dict[str, str] = {}
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        layer = makers.get(norm.input[0])
        if layer is None or readers[norm.input[0]] > 1 or not _can_fold(layer, norm, arrays, readers):
            continue
        _fold(graph, layer, norm, arrays)
        gone[norm.input[0]] = norm.output[0]
        layer.output[0] = norm.output[0]
        if norm.name:
            folded[norm.name] = layer.name or layer.output[0]
        graph.node.remove(norm)
    return gone, folded


def _can_fold(layer: Any, norm: Any, arrays: dict[str, Array], readers: Counter[str]) -> bool:
    """Whether all factors are constants, and nobody else reads the weights."""
    is_training = any(attribute.name == "training_mode" and attribute.i for attribute in norm.attribute)
    is_plain = layer.op_type == "Conv" or all(
        attribute.name == "transB" or (attribute.name in ("alpha", "beta") and attribute.f == 1)
        for attribute in layer.attribute
    )
    constants = [*layer.input[1:], *norm.input[1:5]]
    return (
        is_plain
        and not is_training
        and len([name for name in norm.output if name]) == 1
        and all(name in arrays for name in constants)
        and all(readers[name] == 1 for name in layer.input[1:])
    )


def _fold(graph: Any, layer: Any, norm: Any, arrays: dict[str, Array]) -> None:
    gamma, beta, mean, variance = (arrays[name].astype(np.float64) for name in norm.input[1:5])
    epsilon = next((attribute.f for attribute in norm.attribute if attribute.name == "epsilon"), 1e-5)
    factor = gamma / np.sqrt(variance + epsilon)
    weight = arrays[layer.input[1]].astype(np.float64)
    axis = 0 if layer.op_type == "Conv" or int_attribute(layer, "transB", 0) else 1
    bias = arrays[layer.input[2]].astype(np.float64) if len(layer.input) > 2 else np.zeros_like(mean)
    shape = [1] * weight.ndim
    shape[axis] = -1
    set_initializer(graph, layer.input[1], weight * factor.reshape(shape))
    if len(layer.input) == 2:
        layer.input.append(norm.input[2])
    set_initializer(graph, layer.input[2], beta + (bias - mean) * factor)


def set_initializer(graph: Any, name: str, values: Array) -> None:
    """Replace a constant, whose type stays."""
    from onnx import helper, numpy_helper

    tensor = next(tensor for tensor in graph.initializer if tensor.name == name)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values, dtype), name))

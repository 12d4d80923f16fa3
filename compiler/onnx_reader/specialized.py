"""ONNX files with what their user says of them: inputs that become constants, sizes of others, where they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from int8tune.compiler.given import Given
from int8tune.compiler.graph import DTYPES
from int8tune.compiler.onnx_reader.ends import end_at, keep
from int8tune.compiler.onnx_reader.file import decoded, extents_of
from int8tune.compiler.onnx_reader.nodes import model_fault, quoted
from int8tune.compiler.onnx_reader.tensors import ELEMENTS, Array

Shape = tuple[int, ...]


def specialized(data: bytes, name: str, given: Given) -> bytes:
    """The bytes of a file in which some inputs are constants, others have a shape without unknown extents, and some
    values may be its outputs. Numbers are converted to an input's type.

    Raises:
        ModelError: it is no ONNX file, has no such input or value, or an input of another form.
    """
    model = decoded(data, name)
    if given.until:
        end_at(model, given.until, name)
    bind, shapes = given.bind, given.shapes
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {info.name: info for info in model.graph.input if info.name not in constants}
    for label in (*bind, *shapes):
        if label not in inputs:
            known = ", ".join(quoted(each) for each in list(inputs)[:8])
            raise model_fault(name, f"it has no input {quoted(label)}, its inputs are {known or 'none'}")
    for label, array in bind.items():
        model.graph.initializer.append(_constant(inputs[label], array, name))
    sizes: dict[str, int] = {}
    for label, shape in shapes.items():
        _give_shape(inputs[label], shape, sizes, name)
    _replace_known(model.graph, sizes)
    keep(model.graph.input, [info for info in model.graph.input if info.name not in bind])
    made: bytes = model.SerializeToString()
    return made


def _constant(info: Any, array: Array, model: str) -> Any:
    import onnx

    element = ELEMENTS.get(info.type.tensor_type.elem_type)
    if element is None:
        raise model_fault(model, f"input {quoted(info.name)} has a type that no constant can have")
    if _misfit(info, array.shape):
        raise model_fault(model, f"input {quoted(info.name)} must be {_said(info)}: {_text(array.shape)}")
    dtype: Any = np.dtype(DTYPES[element])
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
        is_exact = dtype.kind == "f" or np.array_equal(made.astype(np.float64), array.astype(np.float64))
    if array.dtype.kind not in "biuf" or not is_exact:
        raise model_fault(model, f"input {quoted(info.name)} is {element}, which values given for it don't fit")
    return onnx.numpy_helper.from_array(np.ascontiguousarray(made).reshape(array.shape), info.name)


def _give_shape(info: Any, shape: Shape, known: dict[str, int], model: str) -> None:
    """Give an input a shape; `known` gets the extents that have a name in the file."""
    if _misfit(info, shape):
        raise model_fault(model, f"input {quoted(info.name)} must be {_said(info)}: {_text(shape)}")
    for extent, given in zip(info.type.tensor_type.shape.dim, shape, strict=True):
        if extent.dim_param and known.setdefault(extent.dim_param, given) != given:
            sizes = f"{known[extent.dim_param]} and {given}"
            raise model_fault(model, f"the extent {quoted(extent.dim_param)} can't have two sizes: {sizes}")
        extent.dim_value = given


def _replace_known(graph: Any, known: Mapping[str, int]) -> None:
    """Give extents with a name their size wherever the file says it."""
    for extent in extents_of(graph):
        if extent.dim_param in known:
            extent.dim_value = known[extent.dim_param]


def _misfit(info: Any, shape: Shape) -> bool:
    """Whether an input can't have a shape."""
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
        return True
    extents = info.type.tensor_type.shape.dim
    return len(extents) != len(shape) or any(
        extent.HasField("dim_value") and extent.dim_value != given for extent, given in zip(extents, shape, strict=True)
    )


def _said(info: Any) -> str:
    """The shape that a file gives an input."""
    extents = info.type.tensor_type.shape.dim
    return "x".join(str(each.dim_value) if each.HasField("dim_value") else each.dim_param or "?" for each in extents)


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "one number"

"""Tensors of ONNX files as arrays."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import DTYPES, ElementType
from int8tune.compiler.onnx_reader.nodes import Node, model_fault, node_fault, quoted

Array = npt.NDArray[Any]

ELEMENTS: dict[int, ElementType] = {
    1: "f32",
    2: "u8",
    3: "s8",
    4: "u16",
    5: "s16",
    6: "s32",
    7: "s64",
    9: "bool",
    10: "f16",
    11: "f64",
}
TYPES: dict[np.dtype[Any], ElementType] = {
    np.dtype(np.float32): "f32",
    np.dtype(np.uint8): "u8",
    np.dtype(np.int8): "s8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.int16): "s16",
    np.dtype(np.int32): "s32",
    np.dtype(np.int64): "s64",
    np.dtype(np.bool_): "bool",
    np.dtype(np.float16): "f16",
    np.dtype(np.float64): "f64",
}
# Of fewer bits: what their values are unpacked to, the least and the most of them.
NARROW: dict[int, tuple[ElementType, int, int]] = {
    21: ("u8", 0, 15),
    22: ("s8", -8, 7),
    25: ("u8", 0, 3),
    26: ("s8", -2, 1),
}


def array_of(tensor: Any, name: str, model: str) -> Array:
    """The values of a tensor that is called `name`; those of few bits as bytes.

    Raises:
        ModelError: they are in another file, of a type that is not supported, or not as many as its shape says.
    """
    import onnx

    if tensor.data_location or tensor.external_data:
        raise model_fault(model, f"{quoted(name)} is in another file (external data), of which nothing is known here")
    narrow = NARROW.get(tensor.data_type)
    element = ELEMENTS.get(tensor.data_type) if narrow is None else narrow[0]
    if element is None:
        raise unsupported_type(model, quoted(name), tensor.data_type)
    try:
        array: Array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # onnx checks little: what goes wrong depends on the damage
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise model_fault(model, f"{quoted(name)} can't be read: {first_line[:120]}") from None
    if narrow is not None:
        return np.ascontiguousarray(array.astype(DTYPES[element]))
    if tensor.int32_data and element in ("u8", "s8", "u16", "s16"):
        wide, bounds = np.array(tensor.int32_data), np.iinfo(array.dtype)
        if wide.min() < bounds.min or wide.max() > bounds.max:
            raise model_fault(model, f"{quoted(name)} has values outside of its type, {element}")
    return array


def array_of_bytes(tensor: Any, values: memoryview) -> Array | None:
    """The values of a tensor that are elsewhere, copied once; None where `array_of` has to look at them."""
    element = ELEMENTS.get(tensor.data_type)
    if element is None or tensor.data_location or tensor.external_data:
        return None
    shape, dtype = tuple(tensor.dims), np.dtype(DTYPES[element])
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(values) or sys.byteorder != "little":
        return None
    return np.frombuffer(values, dtype).reshape(shape).copy()


def constant_of(proto: Any, node: Node, model: str) -> Array:
    """The value of a Constant node."""
    fields = {"value_int": "i", "value_ints": "ints", "value_float": "f", "value_floats": "floats"}
    if len(proto.attribute) == 1:
        attribute = proto.attribute[0]
        if attribute.name == "value":
            return array_of(attribute.t, node.name, model)
        if attribute.name in fields:
            dtype = np.float32 if "float" in attribute.name else np.int64
            return np.array(getattr(attribute, fields[attribute.name]), dtype)
    raise node_fault(model, node, "it must have one tensor, or numbers")


def unsupported_type(model: str, what: str, data_type: int) -> ModelError:
    """The fault of values whose type the graph has no word for."""
    import onnx

    names = {number: text for text, number in onnx.TensorProto.DataType.items()}
    known = ", ".join(names[number] for number in ELEMENTS)
    return model_fault(model, f"{what} has elements of type {names.get(data_type, data_type)}, supported are {known}")

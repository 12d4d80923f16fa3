"""What the QuantizeLinear and DequantizeLinear nodes of an ONNX model say: scales, zero points, quantized constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.graph import Quantization
from int8tune.compiler.onnx_reader.blocked import dequantized_blocks, over_values
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.grids import channels_of, steps_of
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, node_fault, quoted
from int8tune.compiler.onnx_reader.tensors import TYPES, Array

INTEGERS = ("u8", "s8", "u16", "s16", "s32")
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
INT32 = np.iinfo(np.int32)
# How far a bias's scale may be from the product of data's and weights': a few roundings of binary32.
BIAS_TOLERANCE = 1e-5
# Of all nodes together: a small file can have many nodes that each read the same large constant.
MAX_READ = 1 << 30
# Whose float weights are looked at: each takes 60 us at most.
MAX_CHANNELS = 1 << 18

_DTYPES = {element: dtype for dtype, element in TYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor that is known: stored values where it is quantized, otherwise what they stand for.

    Attributes:
        name: of the tensor in the file that the values come from.
    """

    name: str
    array: Array
    quantization: Quantization | None = None

    @property
    def real(self) -> Array:
        """What the values stand for."""
        if self.quantization is None:
            return self.array
        steps = self.array.astype(np.float32) - _along(self.quantization.zero_point, self).astype(np.float32)
        real: Array = steps * _along(self.quantization.scale, self)
        return real


@dataclass(frozen=True, slots=True)
class Quantizations:
    """What is quantized in a model.

    Attributes:
        constants: by every name that a node can read them by.
        computed: the nodes whose scales are computed, or belong to channels or blocks of computed values.
        stored: how values are quantized that are no constants, by the name of the stored ones.
    """

    constants: Mapping[str, Constant]
    stored: Mapping[str, Quantization]
    computed: frozenset[Node] = frozenset()


def quantizations_of(file: OnnxFile) -> Quantizations:
    """Every quantization of a file.

    Raises:
        ModelError: scales or zero points are computed, not valid, or two for one value.
    """
    constants = {name: Constant(name, array) for name, array in file.constants.items()}
    stored: dict[str, Quantization] = {}
    computed = set[Node]()
    read = 0
    for node in file.nodes:
        source = constants.get(node.input(0))
        read += sum(constants[name].array.size for name in node.inputs if name in constants)
        if read > MAX_READ:
            raise node_fault(file.name, node, f"with it, nodes read over {MAX_READ} constant values")
        has_blocks = bool(node.attributes.get("block_size"))
        if node.computes in (QUANTIZE, DEQUANTIZE) and source is not None and has_blocks:
            blocks = _blocks if node.computes == DEQUANTIZE else _stored_blocks
            constants[node.outputs[0]] = Constant(node.outputs[0], blocks(file, node, source, constants))
        elif node.computes in (QUANTIZE, DEQUANTIZE) and source is None and _is_computed(file, node, constants):
            computed.add(node)
        elif node.computes in (QUANTIZE, DEQUANTIZE):
            name = node.outputs[0] if node.computes == QUANTIZE else node.input(0)
            quantization = _quantization(file, node, name, constants)
            if source is None:
                if not same(stored.setdefault(name, quantization), quantization):
                    raise node_fault(file.name, node, f"{quoted(name)} has two scales or zero points")
            elif node.computes == DEQUANTIZE:
                constants[node.outputs[0]] = Constant(source.name, source.array, quantization)
            else:
                array = _stored_values(file, node, source, quantization)
                constants[name] = Constant(source.name, array, quantization)
        elif node.computes == "Identity" and source is not None:
            constants[node.outputs[0]] = source
        elif node.computes == "Transpose" and source is not None and source.array.ndim == 2:
            constants[node.outputs[0]] = _transposed(node, source)
    if stored:
        constants |= _steps(file, constants)
    return Quantizations(constants, stored, frozenset(computed))


def _steps(file: OnnxFile, constants: Mapping[str, Constant]) -> dict[str, Constant]:
    """Float weights of layers that are steps of scales, as these; of a file with very many channels, the first ones."""
    found, tried, channels = dict[str, Constant](), set[str](), 0
    for node in file.nodes:
        name = node.input(1)
        weights = constants.get(name)
        if weights is None or weights.quantization is not None or name in tried:
            continue
        tried.add(name)
        channels += channels_of(node, weights.array)
        if channels > MAX_CHANNELS:
            break
        steps = steps_of(node, weights.array)
        if steps is not None:
            found[name] = Constant(weights.name, *steps)
    return found


def _is_computed(file: OnnxFile, node: Node, constants: Mapping[str, Constant]) -> bool:
    """Whether a node on computed values has other than one constant scale."""
    scale, point = (constants.get(node.input(index)) for index in (1, 2))
    if scale is None or (node.input(2) and point is None):
        return bool(node.input(1))
    made = node.outputs[0] if node.computes == QUANTIZE else node.input(0)
    return bool(node.attributes.get("block_size")) or scale.array.size > 1 or made in file.bounds


def same(one: Quantization, other: Quantization) -> bool:
    """Whether two quantizations stand for the same."""
    return one is other or (
        one.axis == other.axis
        and np.array_equal(one.scale, other.scale)
        and np.array_equal(one.zero_point, other.zero_point)
    )


def sum_bias(
    file: OnnxFile, node: Node, bias: Constant, data: Quantization, weight: Quantization, channels: int
) -> Constant:
    """A layer's bias as int32 with the scale of its sums, which is that of the data times that of the weights.

    One of other types is rounded to the nearest of these.

    Raises:
        ModelError: an int32 bias has another scale, or the bias doesn't fit the layer.
    """
    scale = data.scale * weight.scale
    axis = 0 if len(scale) > 1 else None
    if bias.array.size not in (1, channels) or bias.array.shape[-1:] not in ((), (1,), (channels,)):
        raise node_fault(file.name, node, f"a bias must have {channels} values: {list(bias.array.shape)}")
    if not is_of_channels(bias, channels):
        raise UnsupportedNodeError(f"its bias is one of rows, not of channels: {list(bias.array.shape)}")
    if bias.quantization is not None and bias.array.dtype == np.int32:
        found = bias.quantization.scale.astype(np.float64)
        if len(found) not in (1, len(scale)) or not np.allclose(found, scale, rtol=BIAS_TOLERANCE, atol=0):
            what = f"the scale of bias {quoted(bias.name)} must be that of the data times that of the weights"
            raise node_fault(file.name, node, f"{what}: {found[0]:g}, not {scale[0]:g}")
        stored = np.broadcast_to(bias.array.reshape(-1), channels)
    else:
        # Scales may be tiny, and values of a file anything: what is no number fails the comparison.
        with np.errstate(all="ignore"):
            wide = np.rint(np.broadcast_to(bias.real.reshape(-1), channels).astype(np.float32) / scale)
        if not ((wide >= INT32.min) & (wide < INT32.max)).all():
            raise node_fault(file.name, node, f"bias {quoted(bias.name)} does not fit 32 bits at the scale of the sums")
        stored = wide.astype(np.int32)
    return Constant(bias.name, stored, Quantization(scale, np.zeros(len(scale), np.int64), axis))


def is_of_channels(bias: Constant, channels: int) -> bool:
    """Whether a bias has a value for each output channel, on its last axis, or one for all."""
    return bias.array.size == 1 or (bias.array.size, bias.array.shape[-1]) == (channels, channels)


def is_sum_bias(bias: Constant, data: Quantization, weight: Quantization) -> bool:
    """Whether a bias is stored as int32 with the scale of a layer's sums."""
    if bias.quantization is None or bias.array.dtype != np.int32:
        return False
    scale, found = data.scale * weight.scale, bias.quantization.scale.astype(np.float64)
    return len(found) in (1, len(scale)) and np.allclose(found, scale, rtol=BIAS_TOLERANCE, atol=0)


def _quantization(file: OnnxFile, node: Node, name: str, constants: Mapping[str, Constant]) -> Quantization:
    """The scale and zero point of a QuantizeLinear or DequantizeLinear whose stored values are called `name`."""
    element, shape = file.forms[name]
    real = node.input(0) if node.computes == QUANTIZE else node.outputs[0]
    if file.forms[real][0] == "f16":
        how = "a constant of f16 and, from version 23 on, its precision must be 1"
        raise node_fault(file.name, node, f"between f16 and integers its scale must be {how}")
    if element not in INTEGERS or file.forms[real][0] != "f32":
        raise node_fault(file.name, node, f"it must be between f32 and integers, {quoted(name)} is {element}")
    scale = _parameter(file, node, 1, "scale", constants)
    if scale is None:
        raise node_fault(file.name, node, "it has no scale")
    if scale.dtype != np.float32 or scale.ndim > 1:
        raise node_fault(file.name, node, f"its scale must be one f32, or one per channel: {_form(scale)}")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise node_fault(file.name, node, f"scales must be positive and finite: {scale.min()}")
    zero_point = _parameter(file, node, 2, "zero point", constants)
    if zero_point is None:
        zero_point = np.zeros(1, _DTYPES[element])
    if zero_point.dtype != _DTYPES[element] or zero_point.ndim > 1 or zero_point.size not in (1, scale.size):
        what = f"its zero point must be of type {element} like the values, one for each scale"
        raise node_fault(file.name, node, f"{what}: {_form(zero_point)}")
    if element == "s32" and zero_point.any():
        raise node_fault(file.name, node, f"the zero point of 32-bit values must be 0: {zero_point.reshape(-1)[0]}")
    axis = None if scale.size == 1 else _axis(file, node, shape, scale.size)
    points = np.broadcast_to(zero_point.reshape(-1).astype(np.int64), scale.size)
    return Quantization(scale.reshape(-1), points, axis)


def _parameter(file: OnnxFile, node: Node, index: int, what: str, constants: Mapping[str, Constant]) -> Array | None:
    name = node.input(index)
    if not name:
        return None
    if name not in constants:
        raise node_fault(file.name, node, f"its {what} must be constant, {quoted(name)} is computed at run time")
    if constants[name].quantization is not None:
        raise node_fault(file.name, node, f"its {what} {quoted(name)} must not be quantized itself")
    return constants[name].array


def _axis(file: OnnxFile, node: Node, shape: tuple[int, ...], scales: int) -> int:
    axis = node.attributes.get("axis", 1)
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise node_fault(file.name, node, f"{scales} scales for axis {axis}, which it does not have: {list(shape)}")
    if shape[axis] != scales:
        what = f"{scales} scales for axis {axis}, which has {shape[axis]} channels: {list(shape)}"
        raise node_fault(file.name, node, what)
    return axis % len(shape)


def _form(array: Array) -> str:
    return f"{TYPES[array.dtype]} {list(array.shape)}"


def _blocks(file: OnnxFile, node: Node, source: Constant, constants: Mapping[str, Constant]) -> Array:
    """The numbers of a constant whose blocks have scales of their own."""
    at, scale = node.attributes, _parameter(file, node, 1, "scale", constants)
    if scale is None or source.quantization is not None:
        raise node_fault(file.name, node, "it must have scales, and its values none before")
    found = dequantized_blocks(
        source.array, scale, _parameter(file, node, 2, "zero point", constants), at.get("axis", 1), at["block_size"]
    )
    if isinstance(found, str):
        raise node_fault(file.name, node, found)
    return found


def _stored_blocks(file: OnnxFile, node: Node, source: Constant, constants: Mapping[str, Constant]) -> Array:
    """A constant as QuantizeLinear stores it, where blocks of it have scales of their own."""
    at, scale = node.attributes, _parameter(file, node, 1, "scale", constants)
    stored = _DTYPES.get(file.forms[node.outputs[0]][0])
    if scale is None or stored is None:
        raise node_fault(file.name, node, "it must have scales, and an output of integers")
    point = _parameter(file, node, 2, "zero point", constants)
    found = over_values(source.array, np.dtype(stored), scale, point, at.get("axis", 1), at["block_size"])
    if isinstance(found, str):
        raise node_fault(file.name, node, found)
    return _rounded(file, node, source, *found)


def _along(values: Array, constant: Constant) -> Array:
    """Values of channels in the form in which they meet the tensor."""
    assert constant.quantization is not None
    axis = constant.quantization.axis
    form = [-1 if index == axis else 1 for index in range(constant.array.ndim)] if axis is not None else [1]
    return values.reshape(form if axis is not None else ())


def _stored_values(file: OnnxFile, node: Node, source: Constant, quantization: Quantization) -> Array:
    """A constant as QuantizeLinear stores it."""
    target = Constant(source.name, source.array, quantization)
    return _rounded(file, node, source, _along(quantization.scale, target), _along(quantization.zero_point, target))


def _rounded(file: OnnxFile, node: Node, source: Constant, scale: Array, points: Array) -> Array:
    """Steps of a scale, and what they are stored as: in binary32, halves to even."""
    if source.array.dtype != np.float32 or source.quantization is not None:
        raise node_fault(file.name, node, f"constant {quoted(source.name)} is quantized twice")
    dtype = _DTYPES[file.forms[node.outputs[0]][0]]
    limits = np.iinfo(dtype)
    low, high = file.bounds.get(node.outputs[0], (limits.min, limits.max))
    with np.errstate(all="ignore"):
        steps = np.rint(source.array / scale)
    if np.isnan(steps).any():
        raise node_fault(file.name, node, f"constant {quoted(source.name)} has values that are no numbers")
    # Within 2^17 of the bounds every step is exact, so that a zero point can be added to it.
    stored: Array = np.clip(np.clip(steps, -(2.0**17), 2.0**17) + points, low, high).astype(dtype)
    return stored


def _transposed(node: Node, source: Constant) -> Constant:
    if tuple(node.attributes.get("perm", (1, 0))) != (1, 0):
        return source
    quantization = source.quantization
    if quantization is not None and quantization.axis is not None:
        quantization = Quantization(quantization.scale, quantization.zero_point, 1 - quantization.axis)
    return Constant(source.name, source.array.T, quantization)

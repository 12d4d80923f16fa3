"""Spectra as products with cosines and sines, and grids of places as products with matrices.

Sources: ONNX, DFT, STFT and AffineGrid. The matrices are computed in binary64 from whole turns, and rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.tensors import Array
from int8tune.compiler.waves import waves

# Before, the axis of a DFT is an attribute.
_OPSET_OF_DFT_AXIS = 20
# Of one matrix: what islands may know before the model runs.
_MOST_VALUES = 1 << 22


def write_dft(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """The data's last axis has real numbers, or their real and imaginary parts."""
    element, shape = file.forms[node.input(0)]
    axis = _whole(file, node, 2, -2) if file.opset >= _OPSET_OF_DFT_AXIS else node.attributes.get("axis", 1)
    if element != "f32" or len(shape) < 2 or shape[-1] not in (1, 2):
        raise UnsupportedNodeError(f"it takes f32 whose last axis has 1 or 2 values: {element} {list(shape)}")
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape) or axis % len(shape) == len(shape) - 1:
        raise UnsupportedNodeError(f"its axis must be one of {list(shape)} before the last: {axis}")
    axis %= len(shape)
    length = _whole(file, node, 1, shape[axis])
    is_inverse, is_half = (bool(node.attributes.get(name, 0)) for name in ("inverse", "onesided"))
    if is_inverse and is_half and not node.input(1):
        length = 2 * (shape[axis] - 1)
    if length < 1 or (is_half and is_inverse != (shape[-1] == 2)):
        raise UnsupportedNodeError(f"half a spectrum is complex, and its data is real: {list(shape)}, length {length}")
    data = node.input(0)
    taken = min(shape[axis], length // 2 + 1 if is_inverse and is_half else length)
    if shape[axis] > taken:
        data = writer.apply("Slice", data, np.array([0]), np.array([taken]), np.array([axis]))
    order = (*(at for at in range(len(shape)) if at not in (axis, len(shape) - 1)), axis, len(shape) - 1)
    rest = [shape[at] for at in order[:-2]]
    flat = writer.apply("Transpose", data, perm=order)
    flat = writer.apply("Reshape", flat, np.array([math.prod(rest), taken * shape[-1]]))
    if is_inverse and is_half:
        made = _real(writer, flat, taken, length, rest)
    else:
        bins = length // 2 + 1 if is_half else length
        made = _spectrum(writer, flat, taken, length, shape[-1], is_inverse, [*rest, bins])
    back = [order.index(at) for at in range(len(shape))]
    writer.apply("Transpose", made, perm=back, output=node.outputs[0])


def write_stft(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Frames that begin a step apart, each times the window, and their spectra."""
    element, shape = file.forms[node.input(0)]
    window = file.forms[node.input(2)] if node.input(2) else None
    step, parts = _whole(file, node, 1, 0), shape[2] if len(shape) == 3 else 1
    length = _whole(file, node, 3, window[1][0] if window and window[1] else shape[1] if len(shape) > 1 else 0)
    if element != "f32" or len(shape) not in (2, 3) or parts not in (1, 2):
        raise UnsupportedNodeError(
            f"it takes f32 of [batch, length] or [batch, length, 1 or 2]: {element} {list(shape)}"
        )
    if step < 1 or not 1 <= length <= shape[1] or window not in (None, ("f32", (length,))):
        raise UnsupportedNodeError(
            f"its frames of {length} values, {step} apart, don't fit {list(shape)} and its window"
        )
    is_half = bool(node.attributes.get("onesided", 1))
    if is_half and parts == 2:
        raise UnsupportedNodeError("half a spectrum is of real data alone")
    count = (shape[1] - length) // step + 1
    if shape[0] * count * length * parts > _MOST_VALUES:
        raise UnsupportedNodeError(f"its frames have over {_MOST_VALUES:,} values: {count} of {length}")
    places = np.arange(length) + step * np.arange(count)[:, None]
    data = writer.apply("Reshape", node.input(0), np.array([shape[0], shape[1], parts]))
    frames = writer.apply("Gather", data, places, axis=1)
    if window:
        frames = writer.apply("Mul", frames, writer.apply("Reshape", node.input(2), np.array([length, 1])))
    flat = writer.apply("Reshape", frames, np.array([shape[0] * count, length * parts]))
    bins = length // 2 + 1 if is_half else length
    _spectrum(writer, flat, length, length, parts, False, [shape[0], count, bins], node.outputs[0])


def write_affine_grid(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Places [batch, (depth,) height, width, 2 or 3] of an image, each a product with its batch's matrix."""
    element, shape = file.forms[node.input(0)]
    sizes = file.constants.get(node.input(1))
    axes = len(sizes) - 2 if sizes is not None and sizes.ndim == 1 else 0
    if sizes is None or element != "f32" or axes not in (2, 3) or shape != (int(sizes[0]), axes, axes + 1):
        raise UnsupportedNodeError(f"its sizes must be known, and fit matrices of f32: {element} {list(shape)}")
    extents = [int(size) for size in sizes[2:]]
    if min(extents) < 1 or math.prod(extents) * (axes + 1) > _MOST_VALUES:
        raise UnsupportedNodeError(f"its sizes must be from 1, in all up to {_MOST_VALUES:,} numbers: {extents}")
    is_aligned = bool(node.attributes.get("align_corners", 0))
    lines = [_line(extent, is_aligned) for extent in extents]
    # The first coordinate goes along the last axis.
    places = [each.ravel() for each in reversed(np.meshgrid(*lines, indexing="ij"))]
    base = np.stack([*places, np.ones(math.prod(extents))], axis=1).astype(np.float32)
    made = writer.apply("MatMul", base, writer.apply("Transpose", node.input(0), perm=(0, 2, 1)))
    writer.apply("Reshape", made, np.array([shape[0], *extents, axes]), output=node.outputs[0])


def _line(extent: int, is_aligned: bool) -> Array:
    """Places from -1 to 1: of the middles of pixels, or so that the first and the last middle are -1 and 1."""
    if is_aligned:
        return np.linspace(-1.0, 1.0, extent)
    return (2.0 * np.arange(extent) + 1) / extent - 1


def _spectrum(
    writer: FloatWriter,
    flat: str,
    places: int,
    length: int,
    parts: int,
    is_inverse: bool,
    shape: list[int],
    output: str = "",
) -> str:
    """The product of rows [.., places * parts] with the waves of all bins, [*shape, 2].

    Args:
        parts: 2 where rows have real and imaginary parts.
    """
    _require_waves(places * parts, shape[-1])
    cosines, sines = waves(places, shape[-1], length)
    if is_inverse:
        cosines, sines = cosines / length, sines / length
    else:
        sines = -sines
    real = np.stack([cosines, -sines][:parts], axis=1).reshape(-1, shape[-1])
    imaginary = np.stack([sines, cosines][:parts], axis=1).reshape(-1, shape[-1])
    column: Any = np.array([*shape, 1])
    made = [
        writer.apply("Reshape", writer.apply("MatMul", flat, each.astype(np.float32)), column)
        for each in (real, imaginary)
    ]
    return writer.apply("Concat", *made, axis=-1, output=output)


def _real(writer: FloatWriter, flat: str, taken: int, length: int, shape: list[int]) -> str:
    """The real data [*shape, length, 1] of rows with half of a spectrum, whose other half is its conjugate."""
    _require_waves(2 * taken, length)
    bins = np.arange(taken)
    counted = np.where((bins == 0) | (2 * bins == length), 1, 2)[:, None] / length
    cosines, sines = waves(taken, length, length)
    both = np.stack([counted * cosines, -counted * sines], axis=1).reshape(-1, length)
    made = writer.apply("MatMul", flat, both.astype(np.float32))
    return writer.apply("Reshape", made, np.array([*shape, length, 1]))


def _require_waves(places: int, bins: int) -> None:
    if places * bins > _MOST_VALUES:
        raise UnsupportedNodeError(f"its waves have over {_MOST_VALUES:,} values: {[places, bins]}")


def _whole(file: OnnxFile, node: Node, index: int, usual: int) -> int:
    """A number that must be known when the file is read."""
    if not node.input(index):
        return usual
    value = file.constants.get(node.input(index))
    if value is None or value.size != 1 or value.dtype.kind not in "iu":
        raise UnsupportedNodeError("its lengths and its axis must be known when the file is read")
    return int(value.ravel()[0])

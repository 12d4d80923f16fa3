"""Blocks of an image, added up where they overlap: Col2Im."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from int8tune.compiler.onnx_reader.compositions import reduced
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.tensors import Array

# Of blocks' values that meet in all pixels, which the library has as a table; of these with channels.
_MOST_MEETINGS, _MOST_VALUES = 1 << 22, 1 << 27


def write_col2im(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """Each pixel is the sum of the values that it is in the blocks, in the order of their places within these."""
    (type_, shape), image, block = file.forms[node.input(0)], *(_extents(file, node, index) for index in (1, 2))
    axes = len(image)
    stride, dilation = (_numbers(node, name, (1,) * axes) for name in ("strides", "dilations"))
    pads = _numbers(node, "pads", (0,) * 2 * axes)
    spans = [size + pads[at] + pads[axes + at] - dilation[at] * (block[at] - 1) for at, size in enumerate(image)]
    counts = [(span - 1) // step + 1 if span > 0 else 0 for span, step in zip(spans, stride, strict=True)]
    values, blocks = math.prod(block), math.prod(counts)
    if type_ != "f32" or len(shape) != 3 or shape[1] % values or shape[2] != blocks or not blocks:
        what = f"its data must be f32, {values} values of each channel in each of {blocks} blocks"
        raise UnsupportedNodeError(f"{what}: {type_}, {list(shape)}")
    if values * blocks > _MOST_MEETINGS:
        raise UnsupportedNodeError(f"its blocks must have at most {_MOST_MEETINGS:,} values: {values * blocks:,}")
    table = _met([_pixels(*each) for each in zip(counts, block, stride, dilation, pads, image, strict=False)], image)
    form = shape[0], shape[1] // values, values * blocks
    if math.prod(form[:2]) * table.size > _MOST_VALUES or table.size > _MOST_MEETINGS:
        raise UnsupportedNodeError(f"its pixels must be at most {_MOST_MEETINGS:,} values: {table.size:,}")
    data = writer.apply("Reshape", node.input(0), np.array(form))
    data = writer.apply("Concat", data, np.zeros((*form[:2], 1), np.float32), axis=2)
    met = writer.apply("Gather", data, table, axis=2)
    pixels = reduced(writer, file, "ReduceSum", met, [2])
    writer.apply("Reshape", pixels, np.array([*form[:2], *image]), output=node.outputs[0])


def _extents(file: OnnxFile, node: Node, index: int) -> tuple[int, ...]:
    """The extents of an image or a block, which must be known."""
    name = node.input(index)
    found = file.constants.get(name)
    if found is None or found.ndim != 1 or not 1 <= found.size <= 3 or found.dtype != np.int64:
        raise UnsupportedNodeError("the extents of its image and its blocks must be constants of 1 to 3 axes")
    if not ((found > 0) & (found <= _MOST_MEETINGS)).all() or math.prod(found.tolist()) > _MOST_MEETINGS:
        raise UnsupportedNodeError(f"its extents must be 1 to {_MOST_MEETINGS:,} values: {found.tolist()}")
    return tuple(found.tolist())


def _numbers(node: Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    least, found = (0 if name == "pads" else 1), node.attributes.get(name, default)
    if not isinstance(found, tuple) or len(found) != len(default) or not all(least <= each < 1 << 16 for each in found):
        raise UnsupportedNodeError(f"its {name} must be {len(default)} numbers from {least} on: {found}")
    return found


def _pixels(count: int, block: int, stride: int, dilation: int, pad: int, extent: int) -> Array:
    """Which pixel of an axis each value of each block is, [value, block]; -1 of the border."""
    places = np.arange(block)[:, None] * dilation + np.arange(count)[None, :] * stride - pad
    return np.asarray(np.where((places >= 0) & (places < extent), places, -1))


def _met(axes: Sequence[Array], image: Sequence[int]) -> Array:
    """By pixel the values of blocks that meet in it, [most of a pixel, pixels]; what is missing is the last of all."""
    values, blocks = ([each.shape[at] for each in axes] for at in (0, 1))
    pixel, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for places, extent in zip(axes, image, strict=True):
        pixel = (pixel[:, None, :, None] * extent + places[None, :, None, :]).reshape(len(pixel) * len(places), -1)
        inside = (inside[:, None, :, None] & (places >= 0)[None, :, None, :]).reshape(pixel.shape)
    assert pixel.shape == (math.prod(values), math.prod(blocks))
    (found,) = np.nonzero(inside.reshape(-1))
    of = pixel.reshape(-1)[found]
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=math.prod(image))
    rank = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((max(int(counts.max()), 1), math.prod(image)), pixel.size, np.int64)
    table[rank, of[order]] = found[order]
    return table

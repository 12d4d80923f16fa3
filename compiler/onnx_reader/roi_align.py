"""Regions of images, sampled in one size: RoiAlign. Sources: ONNX's definition, and what ONNX Runtime rounds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from int8tune.compiler.onnx_reader.compositions import reduced, within
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError

_INT64 = 7
_MOST_SAMPLES = 1 << 27
# Of the outputs and samples of a region along one axis.
_MOST_PLACES = 1 << 10
# Regions begin half a pixel earlier from this version on, if nothing else is said.
_OPSET_OF_HALF_PIXELS = 16


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Extents: of images [batch, channels, *image]; `made`, outputs of a region; `samples` along each axis of one."""

    batch: int
    channels: int
    image: tuple[int, int]
    regions: int
    made: tuple[int, int]
    samples: int


@dataclass(frozen=True, slots=True)
class _Axis:
    """Samples along one axis, in a form that is spread over those of both.

    Attributes:
        inside: whether a sample is in the image, or next to it.
        pixels: both neighbours of a sample, each with its share.
    """

    inside: str
    pixels: tuple[tuple[str, str], tuple[str, str]]


def write_roi_align(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """The mean of samples between pixels; or the greatest of all shares that pixels have in them."""
    mode, sizes = node.attributes.get("mode", "avg"), _sizes(file, node)
    if mode not in ("avg", "max"):
        raise UnsupportedNodeError(f"its mode must be avg or max: {mode}")
    shares = _shares(writer, node, sizes, _axis(writer, file, node, sizes, 0), _axis(writer, file, node, sizes, 1))
    samples = shares[0]
    for share in shares[1:]:
        samples = writer.apply("Add" if mode == "avg" else "Max", samples, share)
    made = reduced(writer, file, "ReduceSum" if mode == "avg" else "ReduceMax", samples, [2, 4])
    if mode == "avg":
        made = writer.apply("Div", made, float(sizes.samples**2))
    made = writer.apply("Reshape", made, np.array([sizes.regions, *sizes.made, sizes.channels]))
    writer.apply("Transpose", made, output=node.outputs[0], perm=(0, 3, 1, 2))


def _sizes(file: OnnxFile, node: Node) -> _Sizes:
    (type_, shape), (kind, regions), batches = (file.forms[node.input(index)] for index in range(3))
    if type_ != "f32" or len(shape) != 4:
        raise UnsupportedNodeError(f"its images must be f32 of four axes: {type_}, {list(shape)}")
    if kind != "f32" or regions[1:] != (4,) or batches != ("s64", regions[:1]):
        what = f"{kind}, {list(regions)}, and {batches[0]}, {list(batches[1])}"
        raise UnsupportedNodeError(f"its regions must be four f32 each, and of one image each: {what}")
    made = _count(node, "output_height", 1), _count(node, "output_width", 1)
    sizes = _Sizes(*shape[:2], (shape[2], shape[3]), regions[0], made, _count(node, "sampling_ratio", 0))
    if regions[0] * made[0] * made[1] * sizes.samples**2 * shape[1] > _MOST_SAMPLES:
        raise UnsupportedNodeError(f"it must have at most {_MOST_SAMPLES:,} samples: of {list(shape)}, {list(regions)}")
    return sizes


def _count(node: Node, name: str, default: int) -> int:
    """A number of samples or outputs."""
    count = node.attributes.get(name, default)
    if name == "sampling_ratio" and count == 0:
        raise UnsupportedNodeError("its sampling_ratio is 0: how many samples there are depends on the regions' sizes")
    if not isinstance(count, int) or not 0 < count <= _MOST_PLACES:
        raise UnsupportedNodeError(f"its {name} must be 1 to {_MOST_PLACES}: {count}")
    return count


def _axis(writer: FloatWriter, file: OnnxFile, node: Node, sizes: _Sizes, axis: int) -> _Axis:
    """Samples along rows (axis 0) or columns, [regions, outputs, samples], among ones."""
    places, extent = _places(writer, file, node, sizes, axis), sizes.image[axis]
    form = [sizes.regions, 1, 1, 1, 1]
    form[1 + 2 * axis], form[2 + 2 * axis] = sizes.made[axis], sizes.samples
    places = writer.apply("Reshape", places, np.array(form))
    places = writer.apply("Where", writer.apply("IsNaN", places), 0.0, places)
    outside = writer.apply("Or", writer.apply("Less", places, -1.0), writer.apply("Greater", places, float(extent)))
    places = writer.clipped(places, 0.0, float(extent), file.opset)
    low = writer.apply("Floor", places)
    rest = writer.apply("Where", writer.apply("Less", low, float(extent - 1)), writer.apply("Sub", places, low), 0.0)
    first = writer.apply("Min", writer.apply("Cast", low, to=_INT64), np.array(extent - 1))
    second = writer.apply("Min", writer.apply("Add", first, np.array(1)), np.array(extent - 1))
    return _Axis(writer.apply("Not", outside), ((first, writer.apply("Sub", 1.0, rest)), (second, rest)))


def _places(writer: FloatWriter, file: OnnxFile, node: Node, sizes: _Sizes, axis: int) -> str:
    """Where samples are, in pixels: each operation in the order in which ONNX Runtime rounds it."""
    scale = node.attributes.get("spatial_scale", 1.0)
    halves = ("half_pixel", "output_half_pixel")
    mode = node.attributes.get("coordinate_transformation_mode", halves[file.opset < _OPSET_OF_HALF_PIXELS])
    if mode not in halves or not isinstance(scale, float):
        raise UnsupportedNodeError(f"its coordinates must be of {' or '.join(halves)}: {mode}, {scale}")
    ends = []
    for index in (1 - axis, 3 - axis):
        column = writer.apply("Slice", node.input(1), np.array([index]), np.array([index + 1]), np.array([1]))
        end = writer.apply("Mul", column, scale)
        ends.append(writer.apply("Sub", end, 0.5) if mode == halves[0] else end)
    begin, size = ends[0], writer.apply("Sub", ends[1], ends[0])
    if mode != halves[0]:
        size = writer.apply("Max", size, 1.0)
    step = writer.apply("Div", size, float(sizes.made[axis]))
    outputs = writer.apply("Add", begin, writer.apply("Mul", step, np.arange(sizes.made[axis], dtype=np.float32)[None]))
    inner = writer.apply("Mul", step, np.arange(sizes.samples, dtype=np.float32)[None] + np.float32(0.5))
    inner = writer.apply("Reshape", writer.apply("Div", inner, float(sizes.samples)), np.array([-1, 1, sizes.samples]))
    return writer.apply("Add", writer.apply("Reshape", outputs, np.array([-1, sizes.made[axis], 1])), inner)


def _shares(writer: FloatWriter, node: Node, sizes: _Sizes, rows: _Axis, columns: _Axis) -> list[str]:
    """What each of four pixels gives to a sample, [regions, rows, samples, columns, samples, channels]."""
    rank, width = np.array([-1, *(1,) * 4]), sizes.image[1]
    batch = writer.apply("Reshape", within(writer, node.input(2), np.array(sizes.batch)), rank)
    begins = writer.apply("Mul", batch, np.array(sizes.image[0] * width))
    inside = writer.apply("And", rows.inside, columns.inside)
    moved = writer.apply("Transpose", node.input(0), perm=(0, 2, 3, 1))
    pixels = writer.apply("Reshape", moved, np.array([-1, sizes.channels]))
    form = np.array([sizes.regions, sizes.made[0], sizes.samples, sizes.made[1], sizes.samples, 1])
    shares = []
    for (row, by_row), (column, by_column) in product(rows.pixels, columns.pixels):
        place = writer.apply("Add", writer.apply("Mul", row, np.array(width)), column)
        place = writer.apply("Add", begins, writer.apply("Where", inside, place, np.array(0)))
        share = writer.apply("Where", inside, writer.apply("Mul", by_row, by_column), 0.0)
        values = writer.apply("Gather", pixels, place, axis=0)
        shares.append(writer.apply("Mul", writer.apply("Reshape", share, form), values))
    return shares

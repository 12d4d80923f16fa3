"""Convolutions of three dimensions as ones of images: the frames that a kernel takes are channels of one.

Exact as any other: sums have the same products. Frames of the border are zeros, of the data's zero point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from int8tune.compiler.graph import Kind, Value
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.links import Link
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, node_fault
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.padding import same_padding

MOST = 1 << 20
# [N, C, D, H, W] as [N, D, C, H, W], and the other way round.
SWAPPED = (0, 2, 1, 3, 4)


@dataclass(frozen=True, slots=True)
class Frames:
    """How a convolution takes frames.

    Attributes:
        taps: places in a kernel; those that meet nothing but the border are left out.
        count: of the output.
        padding: frames before the first one and behind the last.
    """

    taps: tuple[int, ...]
    count: int
    stride: int
    dilation: int
    padding: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class OfImages:
    """A node on images, whose weights have the frames as channels."""

    frames: Frames
    node: Node
    data: tuple[int, ...]
    weight: Constant


def of_images(file: OnnxFile, node: Node, data: tuple[int, ...], weight: Constant) -> OfImages:
    """A convolution of data [1, C, D, H, W] and weights [OC, C, KD, KH, KW] as one of images.

    Raises:
        ModelError: it is none that is computed so.
    """
    if data[0] != 1:
        raise UnsupportedNodeError(f"a 3-D convolution must have a batch of 1: {data[0]}")
    channels, _, length, *kernel = weight.array.shape
    if length > 1 and node.attributes.get("group", 1) != 1:
        raise UnsupportedNodeError("a 3-D convolution of several frames must have one group")
    stride, dilation = (_first(file, node, name) for name in ("strides", "dilations"))
    padding = _padding(file, node, data[2], (length, stride, dilation))
    count = (data[2] + sum(padding) - dilation * (length - 1) - 1) // stride + 1
    if count < 1:
        raise node_fault(file.name, node, f"its kernel of {length} frames is longer than its data: {data[2]}")
    if length * count > MOST:
        raise UnsupportedNodeError(f"a 3-D convolution must take at most {MOST} frames: {length * count}")
    meets = np.arange(length) * dilation + np.arange(count)[:, np.newaxis] * stride - padding[0]
    (taps,) = np.nonzero(((meets >= 0) & (meets < data[2])).any(axis=0))
    if not taps.size:
        raise UnsupportedNodeError("a 3-D convolution must meet its data")
    taken = weight.array[:, :, taps].transpose(0, 2, 1, 3, 4)
    joined = np.ascontiguousarray(taken).reshape(channels, -1, *kernel)
    frames = Frames(tuple(map(int, taps)), count, stride, dilation, padding)
    image = (count, len(taps) * data[1], *data[3:])
    return OfImages(frames, _on_images(node), image, replace(weight, array=joined))


def frames_before(frames: Frames, data: Value, made: str, values: GraphValues) -> Iterator[Link]:
    """The operators that put a layer's frames beside each other; the last one makes what the layer reads."""
    _, channels, depth, *image = data.shape
    moved = values.like(data, f"{made}/frames", (1, depth, channels, *image))
    yield Link(Kind.TRANSPOSE, (data.name,), moved, {"permutation": SWAPPED})
    source = values.like(data, f"{made}/images", (depth, channels, *image))
    yield Link(Kind.RESHAPE, (moved,), source)
    depth += sum(frames.padding)
    if any(frames.padding):
        padded = values.like(data, f"{made}/bordered", (depth, channels, *image))
        padding = (frames.padding, (0, 0), (0, 0), (0, 0))
        yield Link(Kind.PAD, (source,), padded, {"padding": padding, "value": zero_point_of(data)})
        source = padded
    taken = []
    for tap in frames.taps:
        begin, end = tap * frames.dilation, tap * frames.dilation + (frames.count - 1) * frames.stride + 1
        if (begin, end, frames.stride) == (0, depth, 1):
            taken.append(source)
            continue
        taken.append(values.like(data, f"{made}/tap {tap}", (frames.count, channels, *image)))
        bounds = {"begin": (begin, 0, 0, 0), "end": (end, channels, *image), "strides": (frames.stride, 1, 1, 1)}
        yield Link(Kind.SLICE, (source,), taken[-1], bounds)
    if len(taken) > 1:
        joined = values.like(data, f"{made}/taps", (frames.count, len(frames.taps) * channels, *image))
        yield Link(Kind.CONCAT, tuple(taken), joined, {"axis": 1})


def frames_behind(source: str, made: str, values: GraphValues) -> Iterator[Link]:
    """The operators that make of a layer's images what the node makes."""
    count, *image = values.by_name[source].shape
    frames = values.like(values.by_name[made], f"{made}/swapped", (1, count, *image))
    yield Link(Kind.RESHAPE, (source,), frames)
    yield Link(Kind.TRANSPOSE, (frames,), made, {"permutation": SWAPPED})


def _first(file: OnnxFile, node: Node, name: str) -> int:
    """The number of an attribute that is for frames."""
    numbers = node.attributes.get(name, (1, 1, 1))
    if not isinstance(numbers, tuple) or len(numbers) != 3 or not 1 <= numbers[0] <= MOST:
        raise node_fault(file.name, node, f"{name} must be three integers of 1 to {MOST}")
    return int(numbers[0])


def _padding(file: OnnxFile, node: Node, depth: int, window: tuple[int, int, int]) -> tuple[int, int]:
    """Frames of zeros before and behind the data's."""
    auto, pads = node.attributes.get("auto_pad", "NOTSET"), node.attributes.get("pads", (0,) * 6)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        less, more = same_padding(depth, *window)
        return (less, more) if auto == "SAME_UPPER" else (more, less)
    if auto == "VALID":
        return 0, 0
    if not isinstance(pads, tuple) or len(pads) != 6 or not all(0 <= pad <= MOST for pad in pads):
        raise node_fault(file.name, node, f"pads must be six integers of 0 to {MOST}")
    return pads[0], pads[3]


def _on_images(node: Node) -> Node:
    """The node without what its attributes say of frames."""
    at = dict(node.attributes)
    for name in ("strides", "dilations", "kernel_shape"):
        if isinstance(at.get(name), tuple):
            at[name] = at[name][1:]
    pads = at.get("pads")
    if isinstance(pads, tuple) and len(pads) == 6:
        at["pads"] = (*pads[1:3], *pads[4:])
    return replace(node, attributes=at)

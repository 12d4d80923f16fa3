"""Weights of few bits whose scales belong to blocks of them: numbers, once a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.nodes import Node, node_fault, written
from int8tune.compiler.onnx_reader.tensors import Array

# A small file could name very many.
MOST_VALUES = 1 << 28
PRODUCTS = ("MatMulNBits",)
GATHER = "GatherBlockQuantized"
_BITS = (2, 4, 8)


def over_values(
    values: Array, stored: np.dtype[Any], scale: Array, point: Array | None, axis: object, size: object
) -> tuple[Array, Array] | str:
    """The scale and the zero point of each value, where each `size` of them along an axis share one; or why not.

    Args:
        stored: the type in which the values are stored.
    """
    if not isinstance(axis, int) or not -values.ndim <= axis < values.ndim:
        return f"its axis must be one of {list(values.shape)}: {axis}"
    axis %= values.ndim
    if not isinstance(size, int) or not 1 <= size <= MOST_VALUES:
        return f"its block_size must be 1 to {MOST_VALUES}: {size}"
    blocks = [-(-extent // size) if at == axis else extent for at, extent in enumerate(values.shape)]
    point = np.zeros(blocks, stored) if point is None else point
    for each in (scale, point):
        if list(each.shape) != blocks:
            return f"blocks of {size} must have scales and zero points of shape {blocks}: {list(each.shape)}"
    if scale.dtype != np.float32 or stored.kind not in "iu" or point.dtype != stored:
        return f"scales of blocks must be f32, and zero points of the values' type: {scale.dtype}, {stored}"
    wide = [np.repeat(each, size, axis).take(range(values.shape[axis]), axis) for each in (scale, point)]
    return wide[0], wide[1].astype(np.int64)


def dequantized_blocks(stored: Array, scale: Array, point: Array | None, axis: object, size: object) -> Array | str:
    """What stored values stand for, where each `size` of them along an axis have one scale; or why not."""
    found = over_values(stored, stored.dtype, scale, point, axis, size)
    if isinstance(found, str):
        return found
    with np.errstate(all="ignore"):
        return np.asarray((stored.astype(np.int64) - found[1]).astype(np.float32) * found[0])


def product_nodes(node: Node, constants: dict[str, Array], model: str) -> list[Node]:
    """A product with weights of a few bits as one with numbers, and the addition of its bias.

    Raises:
        ModelError: its weights are not as ONNX Runtime's operator defines them.
    """
    made = node.outputs[0]
    weight, product = f"{made}/weights", f"{made}/product" if node.input(5) else made
    found = _weights(node, constants)
    if isinstance(found, str):
        raise node_fault(model, node, found)
    constants[weight] = found
    nodes = [written(node.name, "MatMul", [node.input(0), weight], [product], operator=node.operator)]
    if node.input(5):
        nodes.append(written(f"{node.name}/bias", "Add", [product, node.input(5)], [made], operator=node.operator))
    return nodes


def _weights(node: Node, constants: Mapping[str, Array]) -> Array | str:
    """The weights [K, N] of a product, or why they can't be read."""
    at: Mapping[str, Any] = node.attributes
    depth, wide, bits, size = (at.get(name) for name in ("K", "N", "bits", "block_size"))
    bits = 4 if bits is None else bits
    numbers = (depth, wide, size)
    if not all(isinstance(each, int) and 1 <= each <= MOST_VALUES for each in numbers) or bits not in _BITS:
        return f"K, N and block_size must be 1 to {MOST_VALUES}, and bits one of {_BITS}: {numbers}, {bits}"
    assert isinstance(depth, int)
    assert isinstance(wide, int)
    assert isinstance(size, int)
    if size * bits % 8:
        return f"its blocks must be whole bytes: {size} values of {bits} bits"
    if node.input(4):
        return "groups by an index (g_idx) are not supported"
    packed, scale, point = (constants.get(node.input(index)) for index in (1, 2, 3))
    if packed is None or scale is None or (node.input(3) and point is None):
        return "its weights, scales and zero points must be constant"
    blocks = -(-depth // size)
    if wide * blocks * size > MOST_VALUES:
        return f"its weights must be at most {MOST_VALUES}: {wide} x {blocks * size}"
    if packed.dtype != np.uint8 or packed.size != wide * blocks * (size * bits // 8) or scale.dtype != np.float32:
        return f"its weights must be {wide} x {blocks} blocks of {size * bits // 8} bytes, and its scales f32"
    if scale.size != wide * blocks:
        return f"it must have {wide * blocks} scales: {scale.size}"
    points = _points(point, wide, blocks, bits)
    if isinstance(points, str):
        return points
    stored = _unpacked(packed.reshape(wide * blocks, -1), bits).astype(np.float32)
    with np.errstate(all="ignore"):
        numbers_ = (stored - points.reshape(-1, 1)) * scale.reshape(-1, 1)
    return np.ascontiguousarray(numbers_.reshape(wide, blocks * size)[:, :depth].T)


def _points(point: Array | None, wide: int, blocks: int, bits: int) -> Array | str:
    """The zero point of each block, as numbers."""
    if point is None:
        return np.full(wide * blocks, 1 << (bits - 1), np.float32)
    if point.dtype == np.float32 and point.size == wide * blocks:
        return point.reshape(-1)
    row = -(-blocks * bits // 8)
    if point.dtype != np.uint8 or point.size != wide * row:
        return f"its zero points must be {wide} rows of {row} bytes, or {wide * blocks} of f32: {point.size}"
    return np.ascontiguousarray(_unpacked(point.reshape(wide, row), bits)[:, :blocks]).reshape(-1).astype(np.float32)


def _unpacked(packed: Array, bits: int) -> Array:
    """Rows of bytes as rows of values, the lowest bits first."""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(len(packed), -1)


def gather_nodes(node: Node, constants: dict[str, Array], is_packed: bool, model: str) -> list[Node]:
    """Rows of a table of a few bits, as those of its bytes, scales and zero points, and what these stand for.

    Args:
        is_packed: bytes of the table have several values, not one of 4 bits by its type.

    Raises:
        ModelError: its table is not as ONNX Runtime's operator defines it.
    """
    found = _table(node, constants, is_packed)
    if isinstance(found, str):
        raise node_fault(model, node, found)
    made, nodes, parts = node.outputs[0], list[Node](), list[str]()
    for what, array in zip(("stored", "scale", "point"), found, strict=True):
        constants[f"{made}/{what}s"] = array
        parts.append(f"{made}/{what}")
        taken = (f"{made}/{what}s", node.input(1))
        nodes.append(written(f"{node.name}/{what}", "Gather", taken, parts[-1:], {"axis": 0}, node.operator))
    attributes = {"axis": -1, "block_size": node.attributes.get("block_size", 128)}
    return [*nodes, written(node.name, "DequantizeLinear", parts, [made], attributes, node.operator)]


def _table(node: Node, constants: Mapping[str, Array], is_packed: bool) -> tuple[Array, Array, Array] | str:
    """The stored values, scales and zero points of a table's rows, or why they can't be read."""
    at: Mapping[str, Any] = node.attributes
    bits, size = at.get("bits", 4), at.get("block_size", 128)
    stored, scale, point = (constants.get(node.input(index)) for index in (0, 2, 3))
    if stored is None or scale is None or (node.input(3) and point is None):
        return "its table, scales and zero points must be constant"
    if stored.ndim != 2 or at.get("gather_axis", 0) != 0 or at.get("quantize_axis", 1) not in (1, -1):
        return f"it must take rows of a table of two axes, whose blocks are along rows: {list(stored.shape)}"
    if not isinstance(size, int) or not 1 <= size <= MOST_VALUES or bits not in _BITS:
        return f"its block_size must be 1 to {MOST_VALUES}, and bits one of {_BITS}: {size}, {bits}"
    is_packed = is_packed and stored.dtype == np.uint8
    if is_packed:
        stored, point = _unpacked(stored, bits), None if point is None else _unpacked(point, bits)
    blocks = len(stored), -(-stored.shape[1] // size)
    if scale.dtype != np.float32 or scale.shape != blocks:
        return f"it must have {list(blocks)} scales of f32: {list(scale.shape)}, {scale.dtype}"
    if point is None:
        point = np.full(blocks, 1 << (bits - 1) if is_packed else 0, stored.dtype)
    if point.dtype != stored.dtype or point.ndim != 2 or len(point) != blocks[0] or point.shape[1] < blocks[1]:
        return f"it must have {list(blocks)} zero points of its table's type: {list(point.shape)}"
    return np.ascontiguousarray(stored), scale, np.ascontiguousarray(point[:, : blocks[1]])

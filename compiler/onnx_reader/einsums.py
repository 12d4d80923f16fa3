"""Einsum of two values as a MatMul, where it is one: batches, rows and columns, and what is summed up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node

_PRODUCT = re.compile(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]*)")


@dataclass(frozen=True, slots=True)
class Product:
    """Letters of a product of two values.

    Attributes:
        left, right, made: as the equation has them.
        batch: of all three.
        rows, columns: of the output and of one operand.
        depth: of both operands, summed up.
    """

    left: str
    right: str
    made: str
    batch: str
    rows: str
    columns: str
    depth: str


def product_of(equation: str) -> Product | None:
    """The letters of an equation; None where it is no product of two matrices, or of batches of these."""
    found = _PRODUCT.fullmatch(equation.replace(" ", ""))
    if found is None:
        return None
    left, right, made = found.groups()
    if any(len({*letters}) != len(letters) for letters in (left, right, made)):
        return None
    shared = [letter for letter in left if letter in right]
    depth = "".join(letter for letter in shared if letter not in made)
    batch, rows, columns = (
        "".join(letter for letter in made if (letter in left, letter in right) == where)
        for where in ((True, True), (True, False), (False, True))
    )
    is_whole = sorted(left) == sorted(batch + rows + depth) and sorted(right) == sorted(batch + depth + columns)
    is_whole = is_whole and sorted(made) == sorted(batch + rows + columns)
    return Product(left, right, made, batch, rows, columns, depth) if is_whole and depth else None


def write_einsum(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    """A MatMul between transpositions; others, which are no products, as they are."""
    product = product_of(str(node.attributes.get("equation", ""))) if len(node.inputs) == 2 else None
    extents = _extents(file, node, product) if product else None
    if product is None or extents is None:
        writer.apply("Einsum", *node.inputs, output=node.outputs[0], **node.attributes)
        return
    batch, rows, depth, columns = product.batch, product.rows, product.depth, product.columns
    left = _turned(writer, node.input(0), product.left, (batch, rows, depth), extents)
    right = _turned(writer, node.input(1), product.right, (batch, depth, columns), extents)
    multiplied = writer.apply("MatMul", left, right)
    order = batch + rows + columns
    if order == product.made:
        writer.apply("Reshape", multiplied, _shape(order, extents), output=node.outputs[0])
        return
    wide = writer.apply("Reshape", multiplied, _shape(order, extents))
    perm = [order.index(letter) for letter in product.made]
    writer.apply("Transpose", wide, output=node.outputs[0], perm=perm)


def _extents(file: OnnxFile, node: Node, product: Product) -> dict[str, int] | None:
    """The extent of each letter; None of operands that are spread over each other, have no values or are no float32."""
    extents: dict[str, int] = {}
    for name, letters in zip(node.inputs, (product.left, product.right), strict=True):
        type_, shape = file.forms[name]
        if type_ != "f32" or len(shape) != len(letters):
            return None
        for letter, extent in zip(letters, shape, strict=True):
            if not extent or extents.setdefault(letter, extent) != extent:
                return None
    return extents


def _turned(
    writer: FloatWriter, name: str, letters: str, groups: tuple[str, str, str], extents: Mapping[str, int]
) -> str:
    """An operand whose letters of each group are one axis, in the order of the groups."""
    order = "".join(groups)
    if order != letters:
        name = writer.apply("Transpose", name, perm=[letters.index(letter) for letter in order])
    shape = [math.prod(extents[letter] for letter in group) for group in groups]
    return writer.apply("Reshape", name, np.array(shape))


def _shape(letters: str, extents: Mapping[str, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array([extents[letter] for letter in letters], np.int64)

"""Weights whose scales belong to blocks of a row: `BlockwiseQuantization` of TFLite's schema.

The package `tflite` does not know it: its table is read by the places of its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Quantization
from int8tune.compiler.tflite_reader.tables import number_at

Array = npt.NDArray[Any]

# `QuantizationDetails` of the schema, and the fields of its table.
NONE, BLOCKWISE = 0, 2
SCALES, ZERO_POINTS, BLOCK_SIZE = 4, 6, 8
NO_TENSOR = -1


@dataclass(frozen=True, slots=True, eq=False)
class BlockQuantization(Quantization):
    """What the values of a matrix stand for whose rows have blocks of equal length: scale [rows, blocks] * stored."""

    def numbers(self, stored: Array) -> npt.NDArray[np.float32]:
        """What the values of a matrix stand for, in binary32."""
        rows, blocks = self.scale.shape
        parts = stored.astype(np.float32).reshape(rows, blocks, -1) * self.scale[:, :, np.newaxis]
        return parts.reshape(stored.shape)


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a file says: the places of tensors, and how many values a block has."""

    scales: int
    zero_points: int
    size: int


def blocks_of(quantization: Any) -> Blocks | None:
    """The blocks of a tensor's `QuantizationParameters`; None where it has none."""
    if quantization is None or quantization.DetailsType() != BLOCKWISE or (table := quantization.Details()) is None:
        return None
    scales, zero_points, size = (number_at(table, slot) for slot in (SCALES, ZERO_POINTS, BLOCK_SIZE))
    return Blocks(scales or 0, NO_TENSOR if zero_points is None else zero_points, size or 0)


def has_blocks(model: Any) -> bool:
    """Whether any tensor of a file, whose root this is, has scales for blocks."""
    graphs = (model.Subgraphs(at) for at in range(model.SubgraphsLength()))
    tensors = (graph.Tensors(at) for graph in graphs for at in range(graph.TensorsLength()))
    return any(blocks_of(tensor.Quantization()) is not None for tensor in tensors)


def quantization_of(shape: tuple[int, ...], size: int, scale: Array) -> BlockQuantization | str:
    """The quantization of a matrix, or what is wrong with its scales."""
    if len(shape) != 2 or size < 1 or shape[1] % size:
        return f"blocks of {size} values must divide a matrix's rows: {list(shape)}"
    blocks = (shape[0], shape[1] // size)
    if scale.dtype != np.float16 or scale.shape != blocks:
        return f"its blocks must have f16 scales of shape {list(blocks)}: {scale.dtype} {list(scale.shape)}"
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        return f"scales must be finite, and not below 0: {scale.min()}"
    return BlockQuantization(scale.astype(np.float32), np.zeros(blocks, np.int64), 0)

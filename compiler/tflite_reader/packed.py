"""Constants of 4 and 2 bits, several in a byte, which LiteRT's kernels unpack to s8."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.graph import Value
from int8tune.compiler.tflite_reader.blocks import BlockQuantization

Array = npt.NDArray[Any]

# Of the schema's enumeration of types.
INT4, INT2 = 17, 19
PACKED_BITS = {INT4: 4, INT2: 2}
PACKED_WORDS = {INT4: "INT4", INT2: "INT2"}
# Which input LiteRT unpacks, by operator; in a DEPTHWISE_CONV_2D only beside data of s8.
UNPACKED_INPUT = {"FULLY_CONNECTED": 1, "CONV_2D": 1, "DEPTHWISE_CONV_2D": 1, "EMBEDDING_LOOKUP": 1, "DEQUANTIZE": 0}
UNPACKED_2_BITS = ("FULLY_CONNECTED", "EMBEDDING_LOOKUP", "DEQUANTIZE")


def packed_range(code: int) -> tuple[int, int]:
    """The least and the greatest value of a type."""
    half = 1 << (PACKED_BITS[code] - 1)
    return -half, half - 1


def unpacked(packed: Array, code: int, shape: tuple[int, ...]) -> Array | str:
    """The values of a constant as bytes, or why it has none; the first one is in the lowest bits of a byte."""
    bits, count = PACKED_BITS[code], math.prod(shape)
    needed = -(-count * bits // 8)
    if len(packed) != needed:
        return f"{count} values of {bits} bits need {needed} bytes: {len(packed)}"
    lowest = np.arange(0, 8, bits, dtype=np.uint8)
    fields: Array = (packed[:, np.newaxis] >> lowest & (2**bits - 1)).reshape(-1)[:count].astype(np.int8)
    sign = np.int8(1 << (bits - 1))
    made: Array = (fields ^ sign) - sign
    return made.reshape(shape)


def packed_fault(word: str, place: int, code: int, value: Value, data: Value) -> str | None:
    """Why LiteRT does not unpack an input of an operator, or reads it as what it is not.

    Args:
        word: the operator.
        place: of the input among the others.
        data: the operator's first input.
    """
    kind = PACKED_WORDS[code]
    is_unpacked = UNPACKED_INPUT.get(word) == place and (code == INT4 or word in UNPACKED_2_BITS)
    if not is_unpacked or (word == "DEPTHWISE_CONV_2D" and data.type != "s8"):
        return f"LiteRT has no {word} of {kind}"
    if word == "EMBEDDING_LOOKUP" and math.prod(value.shape[1:]) * PACKED_BITS[code] % 8:
        return f"LiteRT takes rows of an {word} for whole bytes: {list(value.shape)} of {kind}"
    if isinstance(value.quantization, BlockQuantization) and (word, data.type) != ("FULLY_CONNECTED", "f32"):
        return f"only a FULLY_CONNECTED of numbers has scales for blocks, not {word}"
    return None

"""Which operators on stored values LiteRT computes as if these were the numbers that they stand for.

Others look at stored values only, whatever scales a file says. Sources: TensorFlow Lite's kernels of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence

from int8tune.compiler.graph import Value
from int8tune.compiler.operators.base import is_same_quantization
from int8tune.compiler.tflite_reader.floats.nodes import STORED
from int8tune.compiler.tflite_reader.steps import Reason, Step

_MOVED = (
    *("SELECT", "SELECT_V2", "PACK", "GATHER", "GATHER_ND", "FILL", "ONE_HOT", "EMBEDDING_LOOKUP", "TOPK_V2"),
    *("DYNAMIC_UPDATE_SLICE", "PAD", "PADV2", "SPACE_TO_BATCH_ND", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"),
    *("SCATTER_ND", "SPARSE_TO_DENSE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "DILATE", "REVERSE_SEQUENCE"),
)
_COMPARED = (
    *("MAX_POOL_2D", "AVERAGE_POOL_2D", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN"),
    *("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"),
)
# Of 8 bits, LiteRT rescales values that it compares or joins.
_RESCALED = ("CONCATENATION", "EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
# Rounded or divided in a way that has nothing to do with numbers.
_OTHERWISE = {"FLOOR_DIV": STORED, "NEG": ("s8", "s16"), "FLOOR_MOD": STORED, "REDUCE_PROD": STORED, "PRELU": ("s16",)}


def stored_fault(step: Step, outputs: Sequence[Value]) -> Reason | None:
    """Why numbers are not what LiteRT computes an operator with."""
    word = step.plain.operator
    stored = [each for each in (*step.inputs, *outputs) if each.type in STORED and each.quantization is not None]
    if not stored:
        return None
    types = {value.type for value in stored}
    if types.intersection(_OTHERWISE.get(word, ())):
        return f"LiteRT computes it with stored values, not with the numbers that they stand for: {', '.join(types)}"
    if word == "EMBEDDING_LOOKUP" and "s16" in types and outputs[0].type == "f32":
        return "LiteRT reads its table as one of 8 bits: s16"
    if word == "MUL" and "s16" in types and outputs[0].type != "s16":
        return "LiteRT multiplies values of 16 bits to 8 bits without their scales"
    if word == "EMBEDDING_LOOKUP" and "u8" in types and outputs[0].type == "f32":
        return "LiteRT reads its table as one of s8: u8"
    if word == "SOFTMAX" and "u8" in types:
        return "LiteRT takes the scale of its output for 1/256, and its zero point for 0"
    if word not in (*_MOVED, *_COMPARED, "CONCATENATION") or (word in _RESCALED and "s16" not in types):
        return None
    if word == "EMBEDDING_LOOKUP" and outputs[0].type == "f32":
        return None
    if all(is_same_quantization(value, stored[0]) for value in stored):
        return None
    return "its values must have one scale and zero point: LiteRT looks at stored values only"

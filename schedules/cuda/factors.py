"""What each channel has of its own for requantization."""

from __future__ import annotations

from int8tune.schedules.gpus import WORD_BYTES
from int8tune.schedules.numerics import Numerics

# Of the scales of outputs that are packed (`epilogue.Epilogue`): they are multiplied with it once they are loaded.
FRACTION = 2.0**-24


def packs(numerics: Numerics, width: int) -> bool:
    """Whether so many neighbouring outputs are bytes that are requantized and stored as words."""
    rule = numerics.requantize
    return rule is not None and rule.rule == "float" and numerics.residual is None and width % WORD_BYTES == 0


def factor_rows(numerics: Numerics) -> int:
    """Rescale values that each channel has of its own."""
    rule = numerics.requantize
    if rule is None or not rule.per_channel:
        return 0
    return rule.rows


def factor_words(numerics: Numerics, classes: int, channels: int) -> int:
    """Words that the biases of all classes of windows, and the rescale values, of a tile's channels take."""
    return (classes + factor_rows(numerics)) * channels

"""What each channel has of its own for requantization."""

from __future__ import annotations

from int8tune.schedules.numerics import Numerics


def factor_rows(numerics: Numerics) -> int:
    """Rescale values that each channel has of its own."""
    rule = numerics.requantize
    if rule is None or not rule.per_channel:
        return 0
    return {"float": 1, "fixed": 2, "fused": 4 if rule.exceptions else 2}[rule.rule]


def factor_words(numerics: Numerics, classes: int, channels: int) -> int:
    """Words that the biases of all classes of windows, and the rescale values, of a tile's channels take."""
    return (classes + factor_rows(numerics)) * channels

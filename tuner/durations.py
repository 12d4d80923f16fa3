"""Durations as people write them."""

from __future__ import annotations

import re

_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smh])")


def seconds_of(text: str) -> float | None:
    """Seconds of a number with a unit, such as `90s`, `5m` or `1.5h`; None of anything else."""
    match = _DURATION.fullmatch(text)
    return float(match[1]) * _UNITS_S[match[2]] if match else None

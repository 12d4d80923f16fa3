"""Arguments that are out of their range."""

from __future__ import annotations

from int8tune.tuner.errors import SpecError


def require_whole(name: str, value: int, most: int, least: int = 1) -> None:
    """Raises: SpecError: a number is not in its range."""
    if not least <= value <= most:
        raise SpecError(f"{name} must be {least} to {most}: {value}")


def require_share(name: str, value: float) -> None:
    """Raises: SpecError: it is no share."""
    if not 0 <= value <= 1:
        raise SpecError(f"{name} must be 0 to 1: {value:g}")

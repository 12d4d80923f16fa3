"""Names of values that a reader adds to those of a file."""

from __future__ import annotations

from collections.abc import Container


def free_name(name: str, *taken: Container[str]) -> str:
    """The name, with marks behind it until none of these has it."""
    while any(name in each for each in taken):
        name += "'"
    return name

"""Parameters of tests of which quick runs take a share: the others are for long runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """All values, of which those behind the first of each `count` are `slow`; tuples are several parameters."""
    sets = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*each, marks=[pytest.mark.slow] if at % count else []) for at, each in enumerate(sets)]

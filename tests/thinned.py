"""Parameters of tests of which the quick run takes representatives: the others are `thorough`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """All values, of which those behind the first of each `count` are `thorough`; tuples are several parameters."""
    return [_param(each, at % count == 0) for at, each in enumerate(values)]


def representatives(values: Iterable[Any], features: Callable[[Any], Iterable[Hashable]] | None = None) -> list[Any]:
    """All values, of which all but a few that show each feature once are `thorough`.

    Without `features`, tuples have their parts at their places as features: each value of each axis is shown once. Of
    the values, the one with the most features not yet shown comes first, and of these the first.
    """
    sets = list(values)
    shown = [frozenset(enumerate(_parts(each)) if features is None else features(each)) for each in sets]
    missing = frozenset().union(*shown) if shown else frozenset()
    quick: set[int] = set()
    while missing:
        best = max(range(len(sets)), key=lambda at: (len(shown[at] & missing), -at))
        quick.add(best)
        missing -= shown[best]
    return [_param(each, at in quick) for at, each in enumerate(sets)]


def _param(value: Any, is_quick: bool) -> Any:
    return pytest.param(*_parts(value), marks=[] if is_quick else [pytest.mark.thorough])


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)

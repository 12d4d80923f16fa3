"""Parameters of tests of which the quick run takes representatives: the others are `thorough`.

Representatives of profiles are those that this machine runs, if it runs any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pytest

from int8tune.schedules.target import PROFILES


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """All values, of which those behind the first of each `count` are `thorough`; tuples are several parameters."""
    ordered = sorted(values, key=lambda value: is_skipped(_parts(value)))
    return [_param(each, at % count == 0) for at, each in enumerate(ordered)]


def chosen(values: Iterable[Any], is_quick: Callable[[Any], bool]) -> list[Any]:
    """All values, of which those that are not `is_quick` are `thorough`."""
    return [_param(each, is_quick(each)) for each in values]


def representatives(values: Iterable[Any], features: Callable[[Any], Iterable[Hashable]] | None = None) -> list[Any]:
    """All values, of which all but a few that show each feature once are `thorough`.

    Without `features`, tuples have their parts at their places as features: each value of each axis is shown once. Of
    the values, the one with the most features not yet shown comes first, and of these the first.
    """
    sets = list(values)
    quick = covering([frozenset(enumerate(_parts(each)) if features is None else features(each)) for each in sets])
    return [_param(each, at in quick) for at, each in enumerate(sets)]


def covering(shown: Sequence[frozenset[Hashable]]) -> list[int]:
    """Places of few sets that have all elements, that with the most first; at least one, if there is any set."""
    missing = frozenset().union(*shown)
    chosen = [0] if shown and not missing else []
    while missing:
        best = max(range(len(shown)), key=lambda at: (len(shown[at] & missing), -at))
        chosen.append(best)
        missing -= shown[best]
    return chosen


def is_skipped(values: Iterable[Any]) -> bool:
    """Whether one of the values of a test is the name of an x86 profile that this machine's CPU can't run."""
    names = {value for value in values if isinstance(value, str)}
    profiles = [profile for profile in PROFILES if profile.name in names and profile.name.startswith("x86-")]
    if not profiles:
        return False
    from tests.support.run.probes import cpu_features  # here, as probes import what starts processes

    return any(profile.needs - cpu_features() for profile in profiles)


def _param(value: Any, is_quick: bool) -> Any:
    return pytest.param(*_parts(value), marks=[] if is_quick else [pytest.mark.thorough])


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)

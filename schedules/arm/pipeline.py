"""Instructions in the order in which a small core is to issue them.

Such a core issues in order, and a product is ready six cycles after it was begun. So sums are computed in turn, in
stages, and between two stages of one sum stand those of others. LLVM is kept from changing that: it would load
everything first, for which there are too few registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

# How many sums lie between one stage of a sum and its next.
STAGE_DISTANCE = 2


class Values:
    """Values that are made where they are asked for first; `made` are those that there are."""

    def __init__(self, make: Callable[[Values, Any], Any], made: Mapping[Hashable, Any] | None = None) -> None:
        self._make = make
        self.made: dict[Hashable, Any] = dict(made or {})

    def __getitem__(self, key: Hashable) -> Any:
        if key not in self.made:
            self.made[key] = self._make(self, key)
        return self.made[key]

    def prepare(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            self[key]


def pipeline(
    count: int,
    values: Values,
    ahead: Sequence[tuple[int, Callable[[int], Iterable[Hashable]]]],
    stages: Sequence[Callable[[int], None]],
) -> None:
    """Emit all stages of so many sums.

    Args:
        ahead: how many sums ahead of its use which values of a sum are made.
    """
    for distance, keys in ahead:
        for unit in range(min(distance, count)):
            values.prepare(keys(unit))
    for slot in range(count + (len(stages) - 1) * STAGE_DISTANCE):
        for distance, keys in ahead:
            if slot + distance < count:
                values.prepare(keys(slot + distance))
        for number, stage in enumerate(stages):
            if 0 <= (unit := slot - number * STAGE_DISTANCE) < count:
                stage(unit)


def staggered(works: Sequence[Iterator[None]], distance: int) -> None:
    """Emit stages of works in turn; each work begins so many stages behind the one before it."""
    left = list(enumerate(works))
    for slot in itertools.count():
        left = [(number, work) for number, work in left if slot < number * distance or next(work, left) is None]
        if not left:
            return

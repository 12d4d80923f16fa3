"""What is left of a space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from int8tune.schedules.space import Config, ConfigSpace, Value


def shuffled(size: int, rng: np.random.Generator) -> Iterator[int]:
    """0 to size - 1 in uniformly random order, in memory for those taken (Fisher and Yates, over a sparse array)."""
    moved: dict[int, int] = {}
    for last in range(size - 1, -1, -1):
        pick = int(rng.integers(last + 1))
        taken = moved.get(pick, pick)
        moved[pick] = moved.pop(last, last)
        yield taken


class Untried:
    """The valid configs of a space that are not known, in an order of grid indexes that is fixed beforehand.

    Each config is taken at most once. Those that become known are skipped when their turn comes; the order of the
    others does not change.

    Attributes:
        known: grid indexes of the configs that were taken or marked.
    """

    def __init__(self, space: ConfigSpace, order: Iterable[int]) -> None:
        self._space = space
        self._order = iter(order)
        self.known: set[int] = set()

    def take(self, n: int) -> list[Config]:
        """The next `n` configs, which are known from now on; fewer only when no more are left."""
        taken: list[Config] = []
        while len(taken) < n and (index := next(self._order, None)) is not None:
            config = self._space.at(index)
            if index not in self.known and self._space.fault(config) is None:
                self.known.add(index)
                taken.append(config)
        return taken

    def mark_known(self, configs: Iterable[Mapping[str, Value]]) -> None:
        """Leave these out from now on.

        Raises:
            ConfigError: a config that is not in the space; none of them was marked.
        """
        self.known |= {self._space.index(config) for config in configs}

"""The contract of a search strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from int8tune.results.record import Trial
from int8tune.schedules.space import Config


class Strategy(Protocol):
    """Chooses the configs of one space, for one layer of one campaign.

    - A config is *known* once it was proposed or observed. A known config is never proposed again, whatever became of
      it: a space of `k` valid configs gives each of them once, and nothing after that.
    - `propose` waits for nothing: it may be called again before the last batch was observed.
    - All randomness comes from one `numpy.random.Generator`, handed over at construction: nobody else may draw from
      it. Equal calls on equally seeded strategies give equal proposals, in every process. Between two calls of
      `propose` it makes no difference in which order trials are observed, or in how many calls.
    - An interrupted campaign builds its strategy afresh and repeats its calls, with the trials that were recorded.
    - `random` and `grid` read a sequence of configs that no observation changes, and skip what is known when its turn
      comes. They need no such replay: told everything at once, they go on with the same configs.
    - A strategy has one owner; it is not safe to share between threads.
    """

    def propose(self, n: int) -> list[Config]:
        """At most `n` valid configs that are not known, the most promising first; fewer only where no more are left."""

    def observe(self, trials: Sequence[Trial]) -> None:
        """Take in results, of own proposals or of others: the space's default, an earlier run, another strategy.

        The trials are of this space's layer, target and template. Where a config has several, the last one counts.

        Raises:
            ConfigError: a config is not in the space; none of the trials was taken in.
        """


@runtime_checkable
class Forecaster(Protocol):
    """What a strategy may be besides: one that can tell what it expects of the configs it has not proposed."""

    def forecast(self) -> float | None:
        """The share of the fastest config's time that the next batch should save; None as long as it can't tell.

        Does not change what is proposed.
        """

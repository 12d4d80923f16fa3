"""Search guided by a cost model; the registry gives it trees of XGBoost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from int8tune.results.record import Trial
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.tuner.cost_model.base import CostModel, Rows, Sample, Scorer
from int8tune.tuner.cost_model.estimate import SPREAD, estimate_of, mean_of
from int8tune.tuner.cost_model.features import FeatureEncoder
from int8tune.tuner.cost_model.speeds import fastest_of, speed_of
from int8tune.tuner.search.improvement import error_of, expected_improvement, saved_share
from int8tune.tuner.search.pool import Indexes, Pool, kinds, optimistic, spread
from int8tune.tuner.search.untried import Untried, shuffled

# Configs that are tried before the model is asked.
WARM_UP = 8
# One in so many is random, so that a model that is wrong finds out; where configs fail, which it often can't foresee,
# more of them.
EXPLORE_EVERY, EXPLORE_EVERY_OF_FAILING = 8, 4
# Up to this grid the model ranks every config; encoding them takes a third of a second, once.
WHOLE_GRID = 20_000
# In a larger one: the valid ones of so many random points, and what differs in one knob from the fastest configs.
SAMPLES = 500
ELITE = 2


class ModelGuidedSearch:
    """Tries what the model ranks first, and some random configs; a `Strategy`.

    Before there is anything to learn from, configs are ranked by what other layers taught (`lessons`) and by the
    template's own estimate, half and half, or by one of these; where there is neither, they are spread over the space.
    A batch holds configs that differ in the template's features, as far as there are any: the model would learn little
    from the second of a kind. By an estimate alone it is a batch of configs that are unlike each other.
    """

    def __init__(
        self,
        space: ConfigSpace,
        rng: np.random.Generator,
        model: CostModel,
        lessons: Callable[[], Scorer | None] = lambda: None,
    ) -> None:
        self._space = space
        self._rng = rng
        self._model = model
        self._lessons = lessons
        self._encoder = FeatureEncoder(space)
        self._estimate = estimate_of(self._encoder.names)
        self._untried = Untried(space, shuffled(space.grid_size, rng))
        self._samples: dict[int, Sample] = {}
        self._guided = 0
        self._expected: dict[int, float] = {}
        self._misses: list[float] = []

    def propose(self, n: int) -> list[Config]:
        if n < 1:
            return []
        pool = self._pool().without(self._untried.known)
        if not len(pool):
            return self._untried.take(n)
        chosen = self._choose(pool, n) if self._can_rank() else self._spread(pool, n)
        batch = [self._space.at(int(index)) for index in pool.indexes[chosen]]
        self._untried.mark_known(batch)
        return [*batch, *self._untried.take(n - len(batch))]

    def observe(self, trials: Sequence[Trial]) -> None:
        configs = [trial.candidate.config for trial in trials]
        self._untried.mark_known(configs)
        self._compare(trials)
        for trial, config, row in zip(trials, configs, self._encoder.matrix(configs), strict=True):
            sample = Sample(tuple(row), speed_of(trial), trial.candidate.workload)
            self._samples[self._space.index(config)] = sample

    def forecast(self) -> float | None:
        """By the expected improvement of the most promising config that was not proposed; see `Forecaster`."""
        fastest = fastest_of({index: sample.speed for index, sample in self._samples.items()})[:1]
        if not fastest or len(self._samples) < WARM_UP:
            return None
        whole = self._space.grid_size <= WHOLE_GRID
        pool = (self._whole if whole else self._pool_of(self._variants())).without(self._untried.known)
        if not len(pool):
            return 0.0
        best = np.array([self._samples[fastest[0]].features])
        scores = self._scores(np.concatenate([best, pool.rows]))
        leads = scores[1:] - scores[0]
        self._expected = dict(zip(pool.indexes.tolist(), leads.tolist(), strict=True))
        return saved_share(expected_improvement(float(leads.max()), error_of(self._misses)))

    def _compare(self, trials: Sequence[Trial]) -> None:
        """Note how far the last forecast was off."""
        fastest = max((sample.speed for sample in self._samples.values()), default=0.0)
        for trial in trials:
            speed = speed_of(trial)
            index = self._space.index(trial.candidate.config)
            if speed and fastest and index in self._expected:
                self._misses.append(float(np.log2(speed / fastest)) - self._expected[index])

    def _beliefs(self) -> Scorer | None:
        """Scores before anything of this layer was measured; None where nobody can tell."""
        lessons = self._lessons()
        return mean_of(lessons, self._estimate) if lessons else self._estimate

    def _can_rank(self) -> bool:
        return self._beliefs() is not None or (len(self._samples) >= WARM_UP and self._any_works())

    def _any_works(self) -> bool:
        return any(sample.speed for sample in self._samples.values())

    def _choose(self, pool: Pool, n: int) -> Indexes:
        """Positions of the best, with every so many'th of all proposals drawn from the others."""
        fails = any(not sample.speed for sample in self._samples.values())
        every = EXPLORE_EVERY_OF_FAILING if fails else EXPLORE_EVERY
        explored = (self._guided + n) // every - self._guided // every
        self._guided += n
        ranked = pool.distinct_first(self._ranked(pool, n - explored))
        best, others = np.split(ranked, [n - explored])
        return pool.distinct_first(np.concatenate([best, self._rng.permutation(others)]))[:n]

    def _ranked(self, pool: Pool, n: int) -> Indexes:
        """Positions of all, of which the first `n` are to be tried."""
        # Trees give many configs the same score: those are tried in random order.
        order = self._rng.permutation(len(pool))
        scores = self._scores(pool.rows[order])
        if self._lessons() is None and not self._any_works():
            return self._unlike_each_other(pool, order, scores, n)
        return order[np.argsort(-scores, kind="stable")]

    def _unlike_each_other(self, pool: Pool, order: Indexes, scores: Rows, n: int) -> Indexes:
        """All positions, those first that an estimate alone has tried first, one of each kind as far as there are."""
        firsts = np.sort(np.unique(pool.kinds[order], return_index=True)[1])
        anchors = self._encoder.matrix([self._space.at(index) for index in self._untried.known])
        rows = pool.rows[order[firsts]]
        chosen = firsts[optimistic(scores[firsts], rows, anchors, self._encoder.spans, SPREAD, n)]
        return np.concatenate([order[chosen], np.delete(order, chosen)])

    def _scores(self, rows: Rows) -> Rows:
        beliefs = self._beliefs()
        if beliefs is not None and not self._any_works():
            return beliefs(rows)
        # In the order of the grid, so that it makes no difference in which order results arrived.
        self._model.fit([self._samples[index] for index in sorted(self._samples)], beliefs)
        return self._model.predict(rows)

    def _spread(self, pool: Pool, n: int) -> Indexes:
        order = pool.distinct_first(self._rng.permutation(len(pool)))
        head = order[: min(SAMPLES, max(n, len(np.unique(pool.kinds))))]
        known = self._encoder.matrix([self._space.at(index) for index in self._untried.known])
        return head[spread(pool.rows[head], known, n, self._rng)]

    def _pool(self) -> Pool:
        if self._space.grid_size <= WHOLE_GRID:
            return self._whole
        points = self._rng.integers(self._space.grid_size, size=SAMPLES)
        drawn = [config for index in points if self._space.fault(config := self._space.at(int(index))) is None]
        return self._pool_of([*self._variants(), *drawn])

    @cached_property
    def _whole(self) -> Pool:
        return self._pool_of(list(self._space))

    def _variants(self) -> list[Config]:
        """The valid configs that differ in one knob, by any number of steps, from one of the fastest."""
        elite = fastest_of({index: sample.speed for index, sample in self._samples.items()})[:ELITE]
        configs = [self._space.at(index) for index in elite]
        variants = [{**c, knob.name: choice} for c in configs for knob in self._space.knobs for choice in knob.choices]
        return [config for config in variants if self._space.fault(config) is None]

    def _pool_of(self, configs: Sequence[Config]) -> Pool:
        by_index = {self._space.index(config): config for config in configs}
        rows = self._encoder.matrix(list(by_index.values()))
        looks = rows[:, self._encoder.knob_columns :]
        return Pool(np.array(list(by_index), dtype=np.int64), rows, kinds(looks if looks.shape[1] else rows))

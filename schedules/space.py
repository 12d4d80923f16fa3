"""Config spaces: what a template lets a search choose.

A space is declared before anything is built, so that it can be counted, enumerated, sampled, logged and replayed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from int8tune.schedules.errors import ConfigError

Value = int | str | bool
Config = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Knob:
    """One decision and its choices, in an order in which neighbours are alike.

    Attributes:
        before: what a config means that lacks the knob, as those have it that were recorded before there was one; None
            where no record lacks it.
        since: the first version of the template whose records have the knob at any value. None where the knob came
            without a new version: at `before`, records lack it for ever, so that a candidate keeps its id.
    """

    name: str
    choices: tuple[Value, ...]
    before: Value | None = None
    since: int | None = None

    def __post_init__(self) -> None:
        if not self.choices or len(set(self.choices)) != len(self.choices):
            raise ConfigError(f"knob `{self.name}` needs choices, each once: {self.choices}")
        if self.before is not None and not self.has(self.before):
            choices = ", ".join(map(str, self.choices))
            raise ConfigError(f"knob `{self.name}` must have had one of its choices before, {choices}: {self.before}")

    def has(self, value: Value) -> bool:
        """Whether it is one of the choices: 1 is not True."""
        return any(value == choice and type(value) is type(choice) for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on several knobs; `text` names it in messages."""

    text: str
    holds: Callable[[Mapping[str, Value]], bool]


@dataclass(frozen=True)
class ConfigSpace:
    """The valid configs of one template for one workload.

    Attributes:
        knobs: the decisions; an index counts through them like digits, the last one fastest.
        constraints: what a config must satisfy beyond each knob's choices.
        default: the config a compiler takes when nobody has tuned.
        features: what a cost model can know of a config before it is built, by name.
    """

    knobs: tuple[Knob, ...]
    default: Mapping[str, Value]
    constraints: tuple[Constraint, ...] = ()
    features: Callable[[Mapping[str, Value]], Mapping[str, float]] = lambda _: {}

    def __post_init__(self) -> None:
        fault = self.fault(self.default)
        if fault:
            raise ConfigError(f"the default is not in the space: {fault}")
        object.__setattr__(self, "default", self.completed(self.default))

    @property
    def grid_size(self) -> int:
        """Points of the grid, the ones that break a constraint included."""
        return math.prod(len(knob.choices) for knob in self.knobs)

    @cached_property
    def size(self) -> int:
        """Valid configs."""
        return sum(1 for _ in self)

    def size_up_to(self, most: int) -> int:
        """Valid configs, or so many where there are more: then no more of them are looked for."""
        known = self.__dict__.get("size")
        return min(known, most) if known is not None else sum(1 for _ in itertools.islice(self, most))

    def __iter__(self) -> Iterator[Config]:
        for index in range(self.grid_size):
            config = self.at(index)
            if self._satisfies(config):
                yield config

    def at(self, index: int) -> Config:
        """The point of the grid with this index, valid or not."""
        if not 0 <= index < self.grid_size:
            raise ConfigError(f"index out of range 0 to {self.grid_size - 1}: {index}")
        config: Config = {}
        for knob in reversed(self.knobs):
            index, digit = divmod(index, len(knob.choices))
            config[knob.name] = knob.choices[digit]
        return {knob.name: config[knob.name] for knob in self.knobs}

    def index(self, config: Mapping[str, Value]) -> int:
        """Inverse of `at`.

        Raises:
            ConfigError: the config is not in the space.
        """
        whole = self.check(config)
        index = 0
        for knob in self.knobs:
            index = index * len(knob.choices) + knob.choices.index(whole[knob.name])
        return index

    def completed(self, config: Mapping[str, Value]) -> Config:
        """The config with the knobs that it lacks at what they were before they were there."""
        whole = dict(config)
        for knob in self._later_knobs:
            if knob.before is not None and knob.name not in whole:
                whole[knob.name] = knob.before
        return whole

    def as_before(self, config: Mapping[str, Value]) -> Config:
        """The config with the knobs that came later at what they were before they were there."""
        return {**config, **{knob.name: knob.before for knob in self._later_knobs if knob.before is not None}}

    def written(self, config: Mapping[str, Value]) -> Config:
        """The config as records have it, without knobs that came within a version and are as before."""
        left_out = {knob.name: knob.before for knob in self._later_knobs if knob.since is None}
        return {name: value for name, value in config.items() if name not in left_out or value != left_out[name]}

    @cached_property
    def _later_knobs(self) -> tuple[Knob, ...]:
        return tuple(knob for knob in self.knobs if knob.before is not None)

    def fault(self, config: Mapping[str, Value]) -> str | None:
        """Why the config, once completed, is not in the space, or None when it is."""
        config = self.completed(config)
        names = {knob.name for knob in self.knobs}
        if unknown := sorted(set(config) - names):
            return f"unknown knob `{unknown[0]}`, known: {', '.join(sorted(names))}"
        for knob in self.knobs:
            if knob.name not in config:
                return f"knob `{knob.name}` is missing"
            value = config[knob.name]
            if not knob.has(value):
                return f"knob `{knob.name}` must be one of {', '.join(map(str, knob.choices))}: {value}"
        for constraint in self.constraints:
            if not constraint.holds(config):
                return f"constraint broken: {constraint.text}"
        return None

    def check(self, config: Mapping[str, Value]) -> Config:
        """The config, completed.

        Raises:
            ConfigError: it is not in the space; the message is the fault.
        """
        fault = self.fault(config)
        if fault:
            raise ConfigError(fault)
        return self.completed(config)

    def sample(self, rng: np.random.Generator) -> Config:
        """A valid config, uniformly drawn."""
        while True:
            config = self.at(int(rng.integers(self.grid_size)))
            if self._satisfies(config):
                return config

    def neighbours(self, config: Mapping[str, Value]) -> list[Config]:
        """The valid configs one step away in one knob."""
        whole = self.check(config)
        near = []
        for knob in self.knobs:
            at = knob.choices.index(whole[knob.name])
            for step in (at - 1, at + 1):
                if 0 <= step < len(knob.choices):
                    other = {**whole, knob.name: knob.choices[step]}
                    if self._satisfies(other):
                        near.append(other)
        return near

    def _satisfies(self, config: Mapping[str, Value]) -> bool:
        return all(constraint.holds(config) for constraint in self.constraints)


def sizes_up_to(sizes: tuple[int, ...], extent: int) -> tuple[int, ...]:
    """The sizes, but for those that the next smaller one would do for."""
    return tuple(size for index, size in enumerate(sizes) if index == 0 or sizes[index - 1] < extent)


def cheapest(
    choices: Mapping[str, Sequence[Value]],
    constraints: Sequence[Constraint],
    cost: Callable[[Config], float],
    default: Config | None = None,
) -> Config:
    """The config that costs least of all that satisfy the constraints, of equal ones the first.

    Raises:
        ValueError: there is none, and no default.
    """
    configs = (dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))
    valid = (config for config in configs if all(rule.holds(config) for rule in constraints))
    return min(valid, key=cost) if default is None else min(valid, key=cost, default=default)

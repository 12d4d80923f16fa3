"""How many threads a kernel uses: all of its target's, or one where sharing the work takes longer than doing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value

# Until TVM's threads have begun and ended a kernel: five networks are fastest with it on two cores of a Xeon of 2025.
LAUNCH_CYCLES = 5000


def threads_of(config: Mapping[str, Value]) -> int:
    """The threads that a config's kernel uses; targets of one thread have no such knob."""
    return int(config.get("threads", 1))


def threaded_space(
    space: Callable[[int], ConfigSpace],
    cycles: Callable[[Mapping[str, Value], int], float],
    threads: int,
    *,
    old_records_apply: bool = True,
) -> ConfigSpace:
    """The space of a target with so many threads.

    Args:
        space: of kernels that use a number of threads; its knobs must be the same for each number.
        cycles: what a config is estimated to take with so many threads, beside their start.
        old_records_apply: whether records from before the knob, which used all threads, are of the same kernels.
    """
    if threads == 1:
        return space(1)
    spaces = {count: space(count) for count in (1, threads)}

    def of(config: Mapping[str, Value]) -> ConfigSpace:
        return spaces[threads_of(config)]

    def cost(config: Mapping[str, Value]) -> float:
        count = threads_of(config)
        return cycles(config, count) + (LAUNCH_CYCLES if count > 1 else 0)

    def same(index: int) -> Callable[[Mapping[str, Value]], bool]:
        return lambda config: of(config).constraints[index].holds(config)

    # Records have had the knob at any value since it came, within version 2.
    knob = Knob("threads", (1, threads), before=threads if old_records_apply else None, since=2)
    defaults: list[Config] = [{**spaces[count].default, "threads": count} for count in (threads, 1)]
    return ConfigSpace(
        knobs=(*spaces[1].knobs, knob),
        constraints=tuple(Constraint(rule.text, same(index)) for index, rule in enumerate(spaces[1].constraints)),
        default=min(defaults, key=cost),
        features=lambda config: {**of(config).features(config), "threads": threads_of(config)},
    )

"""Weights that lie in the third-level cache when a kernel begins, as in a network, and what fetching them is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from int8tune.schedules.space import Config, Constraint, Value, cheapest

# Of a byte, on demand and fetched beside the block before it: about what 107 layers with cold weights took on Zen 5.
LATE_BYTE_CYCLES, FETCHED_BYTE_CYCLES = 0.2, 0.02
# From so many bytes on, kernels last long enough for a fetched block to come in time.
MANY_BYTES = 16 << 10
# How many times the estimate of another tile the usual one's must be to give way.
CLEARLY_MORE = 1.1


class BlockedForm(Protocol):
    """A kernel that takes its weights block by block."""

    @property
    def outer(self) -> str: ...
    @property
    def fetch(self) -> str: ...
    @property
    def blocks(self) -> int: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def threads(self) -> int: ...


def next_block(form: Callable[[Mapping[str, Value]], BlockedForm]) -> Constraint:
    """What configs with `fetch` of the `next` block must satisfy."""

    def holds(config: Mapping[str, Value]) -> bool:
        return config["fetch"] != "next" or (config["outer"] == "weights" and form(config).blocks > 1)

    return Constraint("there is a next block of weights, as these are outside and have several", holds)


def fetching(
    choices: Mapping[str, Sequence[Value]],
    found: Config,
    constraints: Sequence[Constraint],
    cost: Callable[[Config], float],
    form: Callable[[Config], BlockedForm],
) -> Config:
    """What costs least on demand, with the next block fetched.

    If its weights are many and come in one block, it gives way to what costs clearly less: small differences between
    tiles are not to be trusted.
    """
    fetched = {**found, "fetch": "next"}
    if all(rule.holds(fetched) for rule in constraints):
        return fetched
    if form(found).blocks * form(found).block_bytes < MANY_BYTES:
        return found
    other = cheapest({**choices, "fetch": ("next",), "outer": ("weights",)}, constraints, cost, found)
    return other if cost(other) * CLEARLY_MORE < cost(found) else found


def late_cycles(form: BlockedForm) -> float:
    """Cycles in which a thread waits for weights; the first block is always late."""
    blocks = form.blocks / (min(form.threads, form.blocks) if form.outer == "weights" else 1)
    of_others = FETCHED_BYTE_CYCLES if form.fetch == "next" else LATE_BYTE_CYCLES
    return form.block_bytes * (LATE_BYTE_CYCLES + (blocks - 1) * of_others)

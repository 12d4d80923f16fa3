"""How long the text of an island's kernel may get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te

from int8tune.compiler.islands.scheduling import scheduled
from int8tune.schedules.target import Target

SHAPE = (4, 16)


def part(data: Any, factor: int, name: str) -> Any:
    return te.compute(SHAPE, lambda row, column: data[row, column] * factor + 0.5, name)


def joined(parts: Sequence[Any], name: str) -> Any:
    return te.compute(SHAPE, lambda row, column: sum(each[row, column] for each in parts), name)


def test_what_several_blocks_read_is_not_written_out_in_each(generic: Target) -> None:
    """Each turn reads the one before it in three blocks, which the next one joins: written out, 3 to the 7th times."""
    data = made = te.placeholder(SHAPE, "float32", "data")
    for turn in range(7):
        made = joined([part(made, by, f"part_{turn}_{by}") for by in (2, 3, 5)], f"turn_{turn}")
    text = scheduled(te.create_prim_func([data, made]), generic).script()
    assert len(text) < 10_000
    assert text.count("data[") < 40

"""Operators of a TFLite file, before they have a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from int8tune.compiler.graph import Kind, Operator, Value


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One operator of a file.

    Attributes:
        plain: what is known of it, as an operator of kind OTHER.
        options: its options, of a class of the schema; raises ModelError if it has none.
        slots: of an operator that may leave inputs out, which of `inputs` each of the schema's is; None for none.
    """

    plain: Operator
    inputs: tuple[Value, ...]
    output: Value
    options: Callable[[str], Any]
    slots: tuple[int | None, ...] = ()

    def slot(self, index: int) -> Value | None:
        """The input that the schema has at an index."""
        place = self.slots[index] if index < len(self.slots) else None
        return None if place is None else self.inputs[place]

    def made(
        self, kind: Kind, attributes: Mapping[str, Any], inputs: int = 1, clamp: tuple[int, int] | None = None
    ) -> Operator:
        """An operator that takes the first few inputs: others are constants that its attributes say."""
        names = self.plain.inputs[:inputs]
        return replace(self.plain, kind=kind, inputs=names, clamp=clamp, attributes=attributes)


# What a reader gives instead of an operator: why there is none.
Reason = str


def integers(value: Value) -> list[int] | None:
    """The values of a constant of integers; None for anything else."""
    if value.constant is None or value.type not in ("s32", "s64"):
        return None
    return [int(each) for each in value.constant.reshape(-1)]

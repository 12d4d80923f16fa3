"""The border class of an output, which says what bias it takes."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.border import Classes


def class_at(classes: Classes, index: Any) -> Any:
    """The class of an output row or column: how many others begin before it."""
    return sum((T.cast(index >= at, "int32") for at in classes.changes), T.int32(0))

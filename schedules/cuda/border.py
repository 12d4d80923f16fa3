"""The border class of an output, which says what bias it takes."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T


def class_at(classes: tuple[int, ...], index: Any) -> Any:
    """The class of an output row or column: how many others begin before it."""
    changes = [at for at in range(1, len(classes)) if classes[at] != classes[at - 1]]
    return sum((T.cast(index >= at, "int32") for at in changes), T.int32(0))

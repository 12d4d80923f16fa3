"""Memory that nothing uses any more, given back before more is needed: a model is read and written in large pieces."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterable, Mapping
from dataclasses import replace

from int8tune.compiler.graph import Graph, Value

# Of smaller models it is not worth the time, up to a tenth of a second in a process that has much.
LEAST_BYTES = 8 << 20
# Names of glibc's malloc.h, and the bytes from which a free piece goes back at once.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _AT_ONCE_BYTES = -1, -3, 1 << 20


def give_back_at_once() -> None:
    """Have large pieces of memory given back whenever they are free, in this process from now on, where it has glibc.

    It keeps ever larger pieces for later otherwise: up to 64 MiB behind a few arrays of a layer's size.
    """
    for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        _call("mallopt", parameter, _AT_ONCE_BYTES)


def give_back(model_bytes: int) -> None:
    """Give free memory back to the system, where the C library can (glibc): it keeps it for later otherwise.

    Args:
        model_bytes: of what was read or is written; of little, nothing is given back.
    """
    if model_bytes < LEAST_BYTES:
        return
    gc.collect()
    _call("malloc_trim", 0)


def _call(name: str, *numbers: int) -> None:
    """Call a function of the C library, if it has that."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*numbers)


def forget_constants(graph: Graph, names: Iterable[str] | None = None) -> None:
    """Let go of a graph's constants, or of these alone, whoever has the graph."""
    if isinstance(graph.values, dict):
        chosen = [name for name in (graph.values if names is None else names) if name in graph.values]
        graph.values.update({name: replace(graph.values[name], constant=None) for name in chosen})


def constant_bytes(values: Mapping[str, Value]) -> int:
    """What the constants of a graph take."""
    return sum(value.constant.nbytes for value in values.values() if value.constant is not None)

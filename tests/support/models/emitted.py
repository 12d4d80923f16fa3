"""What is said of a model file whose islands are emitted, in a process of its own."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.obstacles import obstacle_lines
from int8tune.schedules.target import Target

MOST_BYTES = 8 << 30


def said_of(read: Callable[[bytes, str], Graph], data: bytes, target: Target) -> str:
    """Why a file is refused; nothing where it has kernels."""
    try:
        graph = read(data, "mutant")
    except ModelError as fault:
        return str(fault)
    lines = obstacle_lines(graph)
    return lines[0] if lines else _emitted_apart(graph, target)


def _emitted_apart(graph: Graph, target: Target) -> str:
    """What is said of a graph's islands by a process of its own; nothing where all have kernels."""
    from int8tune.compiler.islands.emission import float_calls

    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        text = ""
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            for operator in graph.operators:
                if operator.kind is Kind.FLOAT:
                    float_calls(graph, operator, target)
        except ModelError as fault:
            text = str(fault)
        except BaseException as error:
            text = f"{type(error).__name__}\n{error}"
        os.write(writing, text.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    return said if os.waitstatus_to_exitcode(status) == 0 else f"died: {status}"

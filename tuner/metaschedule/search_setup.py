"""What a search is made with: a target, rules, and how candidates are built, timed and linked."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from int8tune.rpc.process import processes

# Of the PrimFunc in a module, and of a candidate's function.
TASK = "main"
# Where TVM registers what its rules tensorize with, when it is imported.
INTRINSICS = "tvm.s_tir.tensor_intrin"


@dataclass(frozen=True, slots=True)
class SearchSetup:
    """Where and how a search goes on; the values are TVM's own.

    Attributes:
        space: the generator of schedules, with its rules.
        link: makes the library of a scheduled module.
    """

    target: Any
    space: Any
    builder: Any
    runner: Any
    link: Callable[[Any, Path], None]


def end_with_parent() -> None:
    """Have this process, which builds or runs candidates, end with the one that started it."""
    processes.signal_when_parent_ends(signal.SIGKILL)

"""A package that brings one part of each kind to int8tune, as `pyproject.toml` beside it registers them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from int8tune.results.record import Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.generic.direct import DirectGeneric
from int8tune.schedules.operands import Operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.space import Config, ConfigSpace
from int8tune.schedules.workload import Workload


class OtherDirect(DirectGeneric):
    """The generic direct convolution by another name."""

    name = "other.direct"
    version = 7


class Backwards:
    """Takes the configs of a space from the last to the first."""

    def __init__(self, space: ConfigSpace) -> None:
        self._left = list(space)

    def propose(self, n: int) -> list[Config]:
        return [self._left.pop() for _ in range(min(n, len(self._left)))]

    def observe(self, trials: Sequence[Trial]) -> None:
        known = [dict(trial.candidate.config) for trial in trials]
        self._left = [config for config in self._left if dict(config) not in known]


def backwards(space: ConfigSpace, _rng: np.random.Generator, _lessons: object) -> Backwards:
    return Backwards(space)


class _Layer:
    def __init__(self, workload: Workload, operands: Operands) -> None:
        self._workload, self._operands = workload, operands

    def run(self) -> None:
        self._output = reference(self._workload, self._operands)

    def output(self) -> npt.NDArray[Any]:
        return self._output


class Oracle:
    """int8tune's own reference as a library to compare with."""

    name = "oracle"
    requires = ("other-package",)

    def form(self, workload: Workload) -> Workload:
        return workload

    def version(self) -> str:
        return "2.5"

    def load(self, workload: Workload, operands: Operands, threads: int) -> _Layer:  # noqa: ARG002
        return _Layer(workload, operands)


def borrowed(board: Board) -> LocalTransport:
    """The core of this machine that the board's options name."""
    return LocalTransport([int(board.options["core"])])


def open_cellar(url: str, *, readonly: bool) -> SqliteStore:
    """`cellar:///folder` is a results folder."""
    return SqliteStore(Path(urlsplit(url).path) / "records.db", readonly=readonly)

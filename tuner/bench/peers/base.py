"""The contract of a peer: another library that computes int8 layers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload

Array = npt.NDArray[Any]


class PeerError(Exception):
    """A library did not do what it was asked, in its own words."""


class LoadedLayer(Protocol):
    """One layer, with its weights packed and its buffers in place, as a library keeps it between two inferences."""

    def run(self) -> None:
        """Compute the layer once. Nothing else: what its time is, is the library's time."""

    def output(self) -> Array:
        """What the last `run` computed, of the workload's output shape and type."""


class PeerForm(Protocol):
    """What is known of a library where it does not run.

    Attributes:
        name: as the command line and records have it.
        requires: names of the distributions that it needs, its own first.
    """

    @property
    def name(self) -> str: ...

    @property
    def requires(self) -> tuple[str, ...]: ...

    def form(self, workload: Workload) -> Workload | Rejection:
        """The workload as this library computes it, or why it doesn't.

        The form has the same shapes and the same number of multiply-adds; types, the rounding rule and the sides of the
        padding may differ.
        """


class Peer(PeerForm, Protocol):
    """A library that computes int8 layers with kernels of its own.

    It holds no state, and imports its library in `version` and `load` only, which are called in the peer's own process.
    """

    def version(self) -> str:
        """The library's version, as it says itself."""

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        """Prepare a workload that `form` returned, to run on so many threads.

        Raises:
            PeerError: the library refuses it, or would not compute it in int8.
        """

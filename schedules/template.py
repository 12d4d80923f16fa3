"""The contract of a schedule template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from int8tune.schedules.space import ConfigSpace, Value
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a template does not take a workload, for a person to read."""

    reason: str


class OperandLayout(Protocol):
    """How a kernel wants its operands, and which types it computes on.

    Attributes:
        data_offset: what the kernel adds to each data value before it multiplies (128 turns s8 into u8).
        channels: the output channel of each position of the kernel's bias and per-channel rescale values.
        border_taps: [classes, taps of the window], which taps are multiplied; the bias has `channels` once per class.
            Kernels that read a filled border multiply all taps of all outputs: one class.
    """

    @property
    def data_offset(self) -> int: ...

    @property
    def channels(self) -> npt.NDArray[np.int64]: ...

    @property
    def border_taps(self) -> npt.NDArray[np.bool_]: ...

    def pack(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> npt.NDArray[np.integer[Any]]:
        """The weights, of `workload.weight_shape`, in the order in which the kernel reads them."""

    def packed_zero_point(self, weight: npt.NDArray[np.integer[Any]], zero_point: int) -> int:
        """The zero point of what `pack` makes of the weights, which may have moved them."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A scheduled kernel: a TVM PrimFunc and what its caller must know.

    The function's arguments are those that `schedules.arguments.kernel_inputs` makes, and the output.

    Attributes:
        data_shape, output_shape: the workload's shapes with axes merged; the order of the values is the same.
    """

    function: Any
    layout: OperandLayout
    data_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A kernel as TVM schedules it: `schedule.trace` makes `schedule.mod["main"]` of the definition.

    Attributes:
        definition: the PrimFunc before any schedule, with the kernel's arguments.
        schedule: TVM's schedule of it, with its trace.
    """

    definition: Any
    schedule: Any

    @property
    def function(self) -> Any:
        """The scheduled PrimFunc."""
        return self.schedule.mod["main"]


class Template(Protocol):
    """One way to compute a class of workloads, with decisions left open.

    A template holds no state: the same workload, target and config give the same kernel in every process.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Raised when the same config would give another kernel than before: what was measured then no longer applies.

        What became of the configs, `schedules.upgrades` says.
        """

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:
        """Why this template does not take the workload on this target, or None when it does."""

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        """The decisions left open. Cheap: nothing is built, TVM is not imported."""

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        """The kernel of one config.

        Raises:
            ConfigError: the config is not in the space.
        """


@runtime_checkable
class TracedTemplate(Template, Protocol):
    """A template whose kernels are schedules of TVM's; those of others are written as they are to run."""

    def scheduled(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Scheduled:
        """The kernel of one config, as it was made.

        Raises:
            ConfigError: the config is not in the space.
        """

"""Kernels for the tests of `schedules`: build one, run it, and compare it with the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm

from int8tune.rpc.local.tile_registers import allow_tile_registers
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.operands import DTYPES, Operands
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Template
from int8tune.schedules.workload import Workload
from tests.support.gpu import emulated as emulated_gpus
from tests.support.kernels.emulated_arm import CPUS, is_native, run_kernel

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel that was compiled for this machine."""

    workload: Workload
    kernel: Kernel
    executable: Any
    entry: Any

    @property
    def assembly(self) -> str:
        return str(self.executable.mod.inspect_source("asm"))

    def run(self, operands: Operands, junk: Array) -> Array:
        """The outputs, of the workload's shape, written over `junk`."""
        return self.call(kernel_inputs(self.workload, self.kernel, operands), junk)

    def call(self, inputs: Sequence[Array], junk: Array) -> Array:
        """`run` with a kernel's own arguments."""
        return self.calls([(*inputs, junk.reshape(self.kernel.output_shape))])[0]

    def calls(self, cases: Sequence[Sequence[Array]]) -> list[Array]:
        """The outputs for a kernel's own arguments, the last of which are written over."""
        return [self._call(*case) for case in cases]

    def _call(self, *inputs: Array) -> Array:
        arguments = [tvm.runtime.tensor(np.ascontiguousarray(values)) for values in inputs]
        self.entry(*arguments)
        return np.asarray(arguments[-1].numpy()).reshape(self.workload.output_shape)

    def is_exact(self, operands: Operands) -> bool:
        return self.wrong_of([("", operands)]) == []

    def wrong_cases(self, seed: int = 0) -> list[str]:
        """The names of the adversarial cases in which an output differs from the oracle's."""
        return self.wrong_of(adversarial_operands(self.workload, seed))

    def wrong_of(self, cases: Sequence[tuple[str, Operands]]) -> list[str]:
        """The names of the cases in which an output differs from the oracle's."""
        expected = [reference(self.workload, operands) for _, operands in cases]
        # An output that is not written stays wrong, whatever it should be.
        actual = self.calls(
            [
                (
                    *kernel_inputs(self.workload, self.kernel, operands),
                    np.invert(wanted).reshape(self.kernel.output_shape),
                )
                for (_, operands), wanted in zip(cases, expected, strict=True)
            ]
        )
        dtype = DTYPES[self.workload.numerics.output]
        return [
            name
            for (name, _), given, wanted in zip(cases, actual, expected, strict=True)
            if given.dtype != dtype or not np.array_equal(given, wanted)
        ]


@dataclass(frozen=True, slots=True)
class Emulated(Built):
    """A kernel that was compiled for an ARM CPU, which this machine emulates."""

    cpu: str

    def calls(self, cases: Sequence[Sequence[Array]]) -> list[Array]:
        return [out.reshape(self.workload.output_shape) for out in run_kernel(self.executable, self.cpu, cases)]


@dataclass(frozen=True, slots=True)
class EmulatedGpu(Built):
    """A kernel that was compiled for a GPU, which this machine emulates, each case in another mode."""

    def calls(self, cases: Sequence[Sequence[Array]]) -> list[Array]:
        outputs = []
        for index, case in enumerate(cases):
            emulated_gpus.set_mode(emulated_gpus.MODES[index % len(emulated_gpus.MODES)])
            outputs.append(emulated_gpus.run_kernel(self.entry, case).reshape(self.workload.output_shape))
        return outputs


def compile_kernel(workload: Workload, target: Target, kernel: Kernel) -> Built:
    allow_tile_registers()
    executable = compile_function(kernel.function, target)
    if target.gpu is not None:
        return EmulatedGpu(workload, kernel, executable, emulated_gpus.load_kernel(executable))
    if target.profile in CPUS and not is_native():
        return Emulated(workload, kernel, executable, None, CPUS[target.profile])
    return Built(workload, kernel, executable, executable.jit()["main"])


def build(
    workload: Workload, target: Target, config: Mapping[str, Value] | None = None, template: Template | None = None
) -> Built:
    """The kernel of a config, by default the template's default one, by default of the preferred template."""
    template = template or template_for(workload, target)
    config = config or template.space(workload, target).default
    return compile_kernel(workload, target, template.apply(workload, target, config))


def is_caught(kernel: Built) -> bool:
    """Whether a kernel is wrong: outputs that are others, places that are not its own, or waiting for ever."""
    try:
        return kernel.wrong_cases() != []
    except RuntimeError as error:
        return "CUDA Runtime Error" in str(error)
